package measure

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func startShell(t *testing.T, script string) *child {
	t.Helper()
	c, err := startChild("shell", exec.Command("/bin/sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChild(t *testing.T) {
	t.Run("a running child stops in order when asked, also twice", func(t *testing.T) {
		cmd := exec.Command("/bin/sh", "-c", `trap "exit 0" TERM; echo up; while :; do read line; done`)
		output, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		input, err := cmd.StdinPipe() // nothing is ever written, so read blocks
		if err != nil {
			t.Fatal(err)
		}
		defer input.Close()
		c, err := startChild("shell", cmd)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := output.Read(make([]byte, 3)); err != nil { // the trap is set
			t.Fatal(err)
		}
		if err := c.ended(); err != nil {
			t.Errorf("ended = %v while it runs; want nil", err)
		}
		for range 2 {
			if err := c.stop(); err != nil {
				t.Errorf("stop = %v; want nil", err)
			}
		}
		if c.ended() == nil {
			t.Error("ended = nil after stop; want an error")
		}
	})
	t.Run("a child that dies of the signal did not stop in order", func(t *testing.T) {
		c := startShell(t, "exec sleep 60")
		if err := c.stop(); err == nil || !strings.Contains(err.Error(), "terminated") {
			t.Errorf("stop = %v; want an error about the signal", err)
		}
	})
	t.Run("a child that failed before is an error when stopped", func(t *testing.T) {
		c := startShell(t, "exit 3")
		<-c.done
		if err := c.stop(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("stop = %v; want exit status 3", err)
		}
	})
	t.Run("a program that is not there does not start", func(t *testing.T) {
		if _, err := startChild("nothing", exec.Command("/does/not/exist")); err == nil {
			t.Error("startChild gave no error")
		}
	})
}

func TestEnvironmentDropsForeignSettings(t *testing.T) {
	t.Setenv("SKALD_LOG_LEVEL", "debug")
	t.Setenv("BENCH_TEST_KEPT", "1")
	got := environment("SKALD_LISTEN_ADDR=127.0.0.1:1")
	if slices.Contains(got, "SKALD_LOG_LEVEL=debug") {
		t.Error("a SKALD_ setting of the caller was passed on")
	}
	if !slices.Contains(got, "BENCH_TEST_KEPT=1") || got[len(got)-1] != "SKALD_LISTEN_ADDR=127.0.0.1:1" {
		t.Errorf("environment = %q; want the caller's other settings and then the extra one", got)
	}
}
