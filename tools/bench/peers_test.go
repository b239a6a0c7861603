package main

import (
	"bytes"
	"os"
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
