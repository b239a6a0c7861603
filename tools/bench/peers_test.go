package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPeersTrustNoAnswer compares nothing with servers that say that sagas have ended.
func TestPeersTrustNoAnswer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for mood, want := range map[string]string{
		"good":  "Skald, 1 client that waits: wrong calls of", // the fake makes no calls
		"stuck": "Skald, checkpoint: false, 1 client that waits: lost 1 of",
		"wrong": "Skald, 1 client that waits: lost 1 of",
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

// TestWhatAPeerLosesIsAResult compares servers that do what they must, and make the calls, with two fakes of
// DTM that do not.
func TestWhatAPeerLosesIsAResult(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	if err := os.Symlink(self, filepath.Join(programs, "dtm")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(programs, "dtm.sql"), []byte(fakeDTMTables), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := peers(t.Context(), []string{
		"-skald", self, "-server-env", "FAKE_CALLS=yes", "-programs", programs, "-peers", "dtm",
		"-levels", "wait-1,mixed-16", "-rounds", "2", "-max-rounds", "2",
		"-duration", "100ms", "-warmup", "0s", "-drain", "3s", "-shared-network",
	}, &out); err != nil {
		t.Errorf("a peer's losses gave %v", err)
	}
	const (
		one     = `\| 1 client that waits \| `
		figures = `[1-9][0-9]* \| [1-9][0-9]* \| `
		wrong   = `wrong calls of 1 of [0-9,]+; wrong calls of 1 of [0-9,]+ \| [1-9][0-9]* `
	)
	for _, row := range []string{
		`\| sagas a second \| Skald \| Skald, checkpoint: false \| DTM \| DTM, its default \|`,
		// An order that the peer never works on is not loss of later rounds.
		one + figures + wrong + `\([0-9. /]+\); lost 1 of [0-9]+ \|`,
		one + `[0-9]+, [0-9]+ \| [0-9]+, [0-9]+ \| lost, lost \| lost, [0-9]+ \|`,
		`\| 16 clients that wait, every third compensated \| ` + figures + wrong,
	} {
		if !regexp.MustCompile(row).Match(out.Bytes()) {
			t.Errorf("no %s in\n%s", row, &out)
		}
	}
}

func TestAPeerThatWasAskedForMustBeThere(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"-peers dtm", "a program of the peer dtm is missing"},
		{"-peers restate", "a program of the peer restate is missing"},
		{"-peers dtmm", `unknown peer "dtmm"`},
		{"-peers= -levels wait-2", `unknown level "wait-2"`},
		{"-peers= -rounds 0", "rounds"},
		{"-peers= -rounds 3 -max-rounds 2", "max-rounds"},
		{"-peers= -database-url postgres://x", "-shared-network"},
		{"-peers= -skald /nowhere", "no server binary"},
	} {
		args := append([]string{"-skald", self, "-programs", t.TempDir()}, strings.Fields(tt.args)...)
		if err := peers(t.Context(), args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("peers %s = %v; want %q in it", tt.args, err, tt.want)
		}
	}
}
