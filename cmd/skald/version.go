package main

import (
	_ "embed"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/skald-saga/skald/internal/httpapi"
)

// numbered is the version that this tree is, or will be after its release. It is written only here.
//
//go:embed VERSION
var numbered string

// released is "yes" in builds by `make release`: -ldflags "-X main.released=yes".
var released string

type versionCmd struct{}

func (versionCmd) Run() error {
	fmt.Println(versionLine())
	return nil
}

func versionLine() string { return lineOf(buildInfo()) }

// lineOf returns one line. A build without version control information, such as by `go install`,
// has no commit.
func lineOf(v httpapi.Version) string {
	words := []string{"skald", v.Version, v.Commit, v.Go}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
}

// buildInfo is the information about this program that `skald version`, /version, the pages and the
// User-Agent of calls show.
func buildInfo() httpapi.Version {
	v := httpapi.Version{Version: versionOf(strings.TrimSpace(numbered), released, ""), Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = versionOf(strings.TrimSpace(numbered), released, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.time":
				v.BuiltAt = s.Value
			}
		}
	}
	return v
}

// versionOf returns a version according to semver.org: only the number for a release, which `make
// release` has built or `go install` has fetched by its tag, and number-dev for every other tree,
// which precedes the release with that number.
func versionOf(number, released, module string) string {
	if released == "yes" || module == "v"+number {
		return number
	}
	return number + "-dev"
}
