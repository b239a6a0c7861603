package main

import (
	"bytes"
	"os"
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
		"-levels", "wait-16,submit-64,undo-16", "-duration", "300ms", "-warmup", "100ms",
	}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, row := range []string{"16 clients that wait", "64 clients that submit", "16 clients that wait, compensated"} {
		for _, name := range []string{"Skald", "DTM"} {
			if !regexp.MustCompile(`\| ` + row + ` \| ` + name + ` [1-9][0-9]*/s \|`).Match(out.Bytes()) {
				t.Errorf("no rate of %s for %s in\n%s", name, row, &out)
			}
		}
	}
	if strings.Contains(out.String(), "requests failed") {
		t.Errorf("requests failed:\n%s", &out)
	}
}

// TestPeersTrustNoAnswer compares nothing with servers that say that sagas have ended.
func TestPeersTrustNoAnswer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for mood, want := range map[string]string{
		"good":  "calls or sagas have not ended", // the fake makes no calls
		"stuck": "calls or sagas have not ended",
		"busy":  "no saga was accepted",
	} {
		t.Run(mood, func(t *testing.T) {
			var out bytes.Buffer
			err := peers(t.Context(), []string{
				"-skald", self, "-server-env", "FAKE_MOOD=" + mood, "-peers", "", "-levels", "wait-1", "-rounds", "1",
				"-duration", "50ms", "-warmup", "0s", "-drain", "500ms", "-shared-network",
			}, &out)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("peers = %v; want %q in it\n%s", err, want, &out)
			}
		})
	}
}

func TestAPeerThatWasAskedForMustBeThere(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"-peers dtm", "dtm was asked for, but its program is missing"},
		{"-peers restate", "restate was asked for, but its program is missing"},
		{"-peers dtmm", `no peer "dtmm"`},
		{"-peers= -levels wait-2", `no level "wait-2"`},
		{"-peers= -rounds 0", "rounds"},
		{"-peers= -database-url postgres://x", "-shared-network"},
		{"-peers= -skald /nowhere", "no server binary"},
	} {
		args := append([]string{"-skald", self, "-programs", t.TempDir()}, strings.Fields(tt.args)...)
		if err := peers(t.Context(), args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("peers %s = %v; want %q in it", tt.args, err, tt.want)
		}
	}
}
