package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// platform is one that Skald is released for. Windows is none: a private PostgreSQL and the fences of local workers use
// locks and process groups that it does not have.
type platform struct{ os, arch string }

var platforms = []platform{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "arm64"},
}

// env is the environment in which Go's commands look at or build a program of the platform, whatever is set outside.
func (p platform) env() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0",
		"GOOS="+p.os, "GOARCH="+p.arch, "GOWORK=off")
}

// built is the place of the program of a platform, until it is packed.
func (r release) built(p platform) string {
	return filepath.Join(r.dist, ".programs", p.os+"_"+p.arch, "skald")
}

// programs builds each platform's program and packs it with what a reader needs.
func (r release) programs(ctx context.Context) error {
	for _, p := range platforms {
		if err := r.compile(ctx, p); err != nil {
			return err
		}
		files := []packed{{name: "skald", from: r.built(p), mode: 0o755}}
		for _, name := range []string{"LICENSE", "NOTICE", "README.md", "CHANGELOG.md"} {
			files = append(files, packed{name: name, from: r.source(name), mode: 0o644})
		}
		files = append(files, packed{name: "config.example.yaml", from: r.source("config.example.yaml"), mode: 0o644})
		top := fmt.Sprintf("skald_%s_%s_%s", r.version, p.os, p.arch)
		if err := tarGz(r.path(top), top, files, r.at); err != nil {
			return err
		}
	}
	return nil
}

// compile builds one program. Paths, build ids and the state of the build machine do not get into it.
func (r release) compile(ctx context.Context, p platform) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true",
		"-ldflags=-s -w -buildid= -X main.released=yes", "-o", r.built(p), "./cmd/skald")
	cmd.Dir = r.root
	cmd.Env = p.env()
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s/%s: %w", p.os, p.arch, err)
	}
	return nil
}
