//go:build unix

package jobworker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobworker"
)

// shell runs a program and returns what it wrote.
func shell(t *testing.T, ctx context.Context, args string) (r *jobworker.Run, out, errs string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	r = &jobworker.Run{
		Run:    jobrun.Run{ID: uuid.New(), Attempt: 2, LeaderEpoch: 7, FencingSeq: 9, DefinitionName: "d", Args: json.RawMessage(args)},
		Stdout: &stdout, Stderr: &stderr,
	}
	_, err = jobworker.Shell([]string{"/bin/sh", "/bin/echo"})(ctx, r)
	return r, stdout.String(), stderr.String(), err
}

func TestAProgramRunsWithWhatItNeedsToKnow(t *testing.T) {
	t.Setenv("SKALD_SECRET", "canary")
	r, out, errs, err := shell(t, t.Context(), `{"script":"echo $SKALD_FENCING_TOKEN $SKALD_ATTEMPT $X \"[$SKALD_SECRET]\"; echo oops >&2","env":{"X":"y"}}`)
	if err != nil || out != "7.9 2 y []\n" || errs != "oops\n" || *r.ExitCode != 0 {
		t.Errorf("%q %q %v", out, errs, err)
	}
	if r.Resources.PeakRSSBytes == nil || *r.Resources.PeakRSSBytes < 100_000 || r.Resources.CPUSecondsTotal == nil {
		t.Errorf("used: %+v", r.Resources)
	}
	if _, out, _, err := shell(t, t.Context(), `{"argv":["/bin/echo","a b"]}`); err != nil || out != "a b\n" {
		t.Errorf("%q %v", out, err)
	}
}

func TestOnlyWhatIsAllowedRuns(t *testing.T) {
	t.Parallel()
	for args, code := range map[string]string{
		`{"argv":["/bin/cat","/etc/passwd"]}`: "NOT_ALLOWED", `{"argv":["echo"]}`: "NOT_ALLOWED", `{"argv":["/bin/../bin/echo"]}`: "", `{}`: "BAD_ARGS",
		`{"script":"true","argv":["/bin/echo"]}`: "BAD_ARGS", `[1]`: "BAD_ARGS", `{"script":"exit 3"}`: "EXIT_3", `{"script":"kill -9 $$"}`: "SIGNALED",
		`{"script":"true","dir":"/no/such"}`: "NOT_STARTED",
	} {
		_, _, _, err := shell(t, t.Context(), args)
		var f *jobworker.Failure
		if got := errors.As(err, &f); got != (code != "") || got && f.Code != code {
			t.Errorf("%s: %v, want %s", args, err, code)
		}
	}
}

func TestAProgramEndsWithItsRunAndSoDoWhatItStarted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	mark := filepath.Join(t.TempDir(), "child")
	ended := make(chan error, 1)
	go func() {
		_, _, _, err := shell(t, ctx, `{"script":"trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > `+mark+`.tmp; mv `+mark+`.tmp `+mark+`; sleep 600' & wait; sleep 600"}`)
		ended <- err
	}()
	var pid int
	for deadline := time.Now().Add(30 * time.Second); pid == 0; time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(mark); err == nil {
			if pid, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
				t.Fatal(err)
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the program did not begin")
		}
	}
	cancel(jobworker.ErrLost)
	select {
	case err := <-ended:
		if !errors.Is(err, jobworker.ErrLost) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the program does not end")
	}
	for deadline := time.Now().Add(20 * time.Second); syscall.Kill(pid, 0) == nil && !zombie(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what the program has started is still there")
		}
	}
}

// zombie tells whether a process has ended and nobody has looked yet.
func zombie(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
