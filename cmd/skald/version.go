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

// numbered is the version that this tree is, or will be once it is released: the one place where it is written.
//
//go:embed VERSION
var numbered string

// released is "yes" in what `make release` builds: -ldflags "-X main.released=yes".
var released string

type versionCmd struct{}

func (versionCmd) Run() error {
	fmt.Println(versionLine())
	return nil
}

func versionLine() string { return lineOf(buildInfo()) }

// lineOf is one line; a build without version control, as `go install` makes it, has no commit.
func lineOf(v httpapi.Version) string {
	words := []string{"skald", v.Version, v.Commit, v.Go}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
}

// buildInfo is what `skald version`, /version, the pages and the User-Agent of calls tell of this program.
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

// versionOf is a version by semver.org: the number alone for a release, which `make release` has built or `go
// install` has fetched by its tag; number-dev for every other tree, which comes before the release of that number.
func versionOf(number, released, module string) string {
	if released == "yes" || module == "v"+number {
		return number
	}
	return number + "-dev"
}
