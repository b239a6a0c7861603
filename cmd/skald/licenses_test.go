package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestTheLicensesAreThoseOfWhatIsLinked compares the file with the modules of this platform; `make
// licenses` writes those of all platforms.
func TestTheLicensesAreThoseOfWhatIsLinked(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if m := strings.TrimSpace(line); m != "" {
			modules[m] = true
		}
	}
	if len(modules) < 20 {
		t.Fatalf("only %d modules: %v", len(modules), modules)
	}
	for m := range modules {
		if !strings.Contains(thirdParty, "\n"+m+"\n") {
			t.Errorf("cmd/skald/third_party.txt has no licence of %s: make licenses", m)
		}
	}
	if !strings.Contains(thirdParty, "\nGo standard library") {
		t.Error("cmd/skald/third_party.txt has no licence of the Go standard library")
	}
}
