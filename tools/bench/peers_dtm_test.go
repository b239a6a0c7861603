//go:build peers

package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// program runs a command at the root of the project.
func program(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// TestSkaldBesideDTM makes a short comparison of the real programs.
func TestSkaldBesideDTM(t *testing.T) {
	skald := filepath.Join(t.TempDir(), "skald")
	program(t, "sh", "scripts/peers.sh", "dtm")
	program(t, "go", "build", "-o", skald, "./cmd/skald")
	var out bytes.Buffer
	err := peers(t.Context(), []string{
		"-skald", skald, "-programs", filepath.Join("..", "..", "bin", "peers"), "-peers", "dtm", "-rounds", "1",
		"-levels", "wait-16,submit-64,undo-16,mixed-16,wait-16-100k,wait-16-20-steps", "-duration", "300ms", "-warmup", "100ms",
	}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	const rate, compared = `[1-9][0-9]*`, ` \([0-9.]+ / [0-9.]+\)`
	for _, row := range []string{
		"16 clients that wait", "64 clients that submit", "16 clients that wait, compensated",
		"16 clients that wait, every third compensated", "16 clients that wait, payloads of 100 kB", "16 clients that wait, 20 steps",
	} {
		cells := strings.Join([]string{row, rate, rate, rate + compared, rate + compared}, ` \| `)
		if !regexp.MustCompile(`\| ` + cells + ` \|`).Match(out.Bytes()) {
			t.Errorf("no rates of %s in\n%s", row, &out)
		}
	}
	if strings.Contains(out.String(), "failed requests") {
		t.Errorf("requests failed:\n%s", &out)
	}
}
