package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/httpapi"
)

func TestAVersionIsThatOfTheFileAndSaysWhetherItIsReleased(t *testing.T) {
	if number := strings.TrimSpace(numbered); !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(number) {
		t.Errorf("VERSION is %q, want three numbers", number)
	}
	for name, c := range map[string]struct{ released, module, want string }{
		"make release":                    {"yes", "(devel)", "1.2.3"},
		"go install at the tag":           {"", "v1.2.3", "1.2.3"},
		"a working copy":                  {"", "(devel)", "1.2.3-dev"},
		"a working copy without git":      {"", "", "1.2.3-dev"},
		"a commit after the tag":          {"", "v1.2.4-0.20261126101500-0123456789ab", "1.2.3-dev"},
		"uncommitted changes at the tag":  {"", "v1.2.3+dirty", "1.2.3-dev"},
		"go install of a branch":          {"", "v0.0.0-20261126101500-0123456789ab", "1.2.3-dev"},
		"another number than that of tag": {"", "v1.2.2", "1.2.3-dev"},
	} {
		if got := versionOf("1.2.3", c.released, c.module); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestTheLineOfAVersionHasOneBlankBetweenWords(t *testing.T) {
	for want, v := range map[string]httpapi.Version{
		"skald 1.2.3 0123abc go1.30": {Version: "1.2.3", Commit: "0123abc", Go: "go1.30"},
		"skald 1.2.3 go1.30":         {Version: "1.2.3", Go: "go1.30"},
	} {
		if got := lineOf(v); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
