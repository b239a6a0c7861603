package main

import (
	"context"
	"io"
	"io/fs"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// debs builds the packages for Debian and Ubuntu.
func (r release) debs(context.Context) error {
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		if err := r.deb(p); err != nil {
			return err
		}
	}
	return nil
}

func (r release) deb(p platform) error {
	at := func(from, to string, mode fs.FileMode, kind string) *files.Content {
		return &files.Content{
			Source: from, Destination: to, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.at},
		}
	}
	script := func(name string) string { return r.source("deploy", "deb", name) }
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "skald", Arch: p.arch, Platform: "linux", Version: r.version, Release: "1", Section: "database",
		Priority:   "optional",
		Maintainer: "The Skald authors <skald@users.noreply.github.com>",
		Homepage:   "https://github.com/skald-saga/skald",
		Description: "sagas, dead letters and job runs on PostgreSQL\n" +
			"One server that runs long transactions across services with compensation,\n" +
			"keeps their audit trail, manages dead letters and schedules job runs.",
		License: "Apache-2.0", MTime: r.at,
		Overridables: nfpm.Overridables{
			Depends:    []string{"adduser", "ca-certificates", "procps"},
			Recommends: []string{"postgresql (>= 15)"},
			Scripts: nfpm.Scripts{
				PostInstall: script("postinst"), PreRemove: script("prerm"), PostRemove: script("postrm"),
			},
			Contents: files.Contents{
				at(r.built(p), "/usr/bin/skald", 0o755, ""),
				at(r.source("deploy", "systemd", "skald.service"), "/usr/lib/systemd/system/skald.service", 0o644, ""),
				at(r.source("deploy", "deb", "skald.yaml"), "/etc/skald/skald.yaml", 0o640, files.TypeConfigNoReplace),
				at(r.source("config.example.yaml"), "/usr/share/doc/skald/config.example.yaml", 0o644, ""),
				at(r.source("LICENSE"), "/usr/share/doc/skald/copyright", 0o644, ""),
				at(r.source("NOTICE"), "/usr/share/doc/skald/NOTICE", 0o644, ""),
				at(r.source("CHANGELOG.md"), "/usr/share/doc/skald/CHANGELOG.md", 0o644, ""),
				at(r.source("cmd", "skald", "completions", "skald.bash"),
					"/usr/share/bash-completion/completions/skald", 0o644, ""),
				at(r.source("cmd", "skald", "completions", "skald.zsh"),
					"/usr/share/zsh/vendor-completions/_skald", 0o644, ""),
				at(r.source("cmd", "skald", "completions", "skald.fish"),
					"/usr/share/fish/vendor_completions.d/skald.fish", 0o644, ""),
			},
		},
	})
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	packager, err := nfpm.Get("deb")
	if err != nil {
		return err
	}
	return create(r.path(packager.ConventionalFileName(info)), func(w io.Writer) error {
		return packager.Package(info, w)
	})
}
