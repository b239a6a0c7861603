//go:build failpoints

package failpoint_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/failpoint"
)

const point = failpoint.StepBeforeSend // any will do

func configure(t *testing.T, spec string) {
	t.Helper()
	if err := failpoint.Configure(spec); err != nil {
		t.Fatalf("%q: %v", spec, err)
	}
	t.Cleanup(func() { _ = failpoint.Configure("") })
}

func TestSpecificationIsReadStrictly(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		ok         bool
	}{
		{"nothing", "", true},
		{"one rule", "step.before_send=err", true},
		{"several, with blanks and empty parts", " step.before_send=err ; ;comp.after_reply=exec_err;", true},
		{"the package comment's example", "step.after_reply=kill@3;commit.unknown=exec_err%0.01;lease.renew_before=pause(5s)", true},
		{"a pause at the third hit", "step.before_send=pause(1.5s)@3", true},
		{"a share at the third hit", "step.before_send=err%0.5@3", true},
		{"a share of all", "step.before_send=err%1", true},
		{"no rule", "step.before_send", false},
		{"an unknown point", "step.before_lunch=err", false},
		{"an unknown mode", "step.before_send=explode", false},
		{"no mode", "step.before_send=", false},
		{"a mode with an argument it does not take", "step.before_send=kill(5s)", false},
		{"a pause without a duration", "step.before_send=pause", false},
		{"a pause of nothing", "step.before_send=pause()", false},
		{"a pause that is not closed", "step.before_send=pause(5s", false},
		{"a pause into the past", "step.before_send=pause(-5s)", false},
		{"a pause without unit", "step.before_send=pause(5)", false},
		{"the zeroth hit", "step.before_send=err@0", false},
		{"a hit that is not a number", "step.before_send=err@x", false},
		{"no hit after the sign", "step.before_send=err@", false},
		{"a share of nothing", "step.before_send=err%0", false},
		{"a share over one", "step.before_send=err%1.01", false},
		{"a share that is not a number", "step.before_send=err%NaN", false},
		{"one bad rule among good ones", "step.before_send=err;comp.after_reply=oops", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Cleanup(func() { _ = failpoint.Configure("") })
			if err := failpoint.Configure(tt.spec); (err == nil) != tt.ok {
				t.Errorf("%q: %v", tt.spec, err)
			}
		})
	}
}

func TestRefusedSpecificationChangesNothing(t *testing.T) {
	configure(t, string(point)+"=err")
	if err := failpoint.Configure(string(point) + "=pause(1s);oops"); err == nil {
		t.Fatal("it is accepted")
	}
	if err := failpoint.Hit(point); !errors.Is(err, failpoint.ErrInjected) {
		t.Errorf("the rule from before: %v", err)
	}
}

func TestErrorsAreReturnedAsConfigured(t *testing.T) {
	for _, tt := range []struct {
		name, rule string
		want       string // of six hits: x acts, . does not
	}{
		{"at every hit", "err", "xxxxxx"},
		{"after the deed at every hit", "exec_err", "xxxxxx"},
		{"at the third hit only", "err@3", "..x..."},
		{"at a share of one", "err%1", "xxxxxx"},
		{"at a share of next to nothing", "err%0.000000000001", "......"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			configure(t, string(point)+"="+tt.rule)
			got := ""
			for range len(tt.want) {
				switch err := failpoint.Hit(point); {
				case err == nil:
					got += "."
				case errors.Is(err, failpoint.ErrInjected):
					got += "x"
				default:
					t.Errorf("an error of another kind: %v", err)
				}
				if err := failpoint.Hit(failpoint.CancelBefore); err != nil {
					t.Errorf("a point without a rule: %v", err)
				}
			}
			if got != tt.want {
				t.Errorf("%s; want %s", got, tt.want)
			}
		})
	}
}

func TestShareIsAboutWhatItSays(t *testing.T) {
	configure(t, string(point)+"=err%0.25")
	acted := 0
	for range 4000 {
		if failpoint.Hit(point) != nil {
			acted++
		}
	}
	if acted < 800 || acted > 1200 { // seven standard deviations
		t.Errorf("%d of 4000 hits; want about 1000", acted)
	}
}

func TestOneOfManyAtOnceIsTheThird(t *testing.T) {
	configure(t, string(point)+"=err@3")
	var hitters sync.WaitGroup
	var acted atomic.Int32
	for range 100 {
		hitters.Go(func() {
			if failpoint.Hit(point) != nil {
				acted.Add(1)
			}
		})
	}
	hitters.Wait()
	if acted.Load() != 1 {
		t.Errorf("%d of a hundred were the third", acted.Load())
	}
}

func TestConfigureResetsTheCounters(t *testing.T) {
	configure(t, string(point)+"=err@2")
	if err := failpoint.Hit(point); err != nil {
		t.Errorf("first hit: %v", err)
	}
	configure(t, string(point)+"=err@2")
	if err := failpoint.Hit(point); err != nil {
		t.Errorf("first hit after the second Configure: %v", err)
	}
}

func TestPauseDelaysTheHit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		configure(t, string(point)+"=pause(5s)@2")
		for i, want := range []time.Duration{0, 5 * time.Second, 0} {
			begin := time.Now()
			if err := failpoint.Hit(point); err != nil || time.Since(begin) != want {
				t.Errorf("hit %d: %v after %v; want nil after %v", i+1, err, time.Since(begin), want)
			}
		}
	})
}

// TestKillEndsTheProcess runs this test again in a process of its own, which
// is to be killed at the second of three hits.
func TestKillEndsTheProcess(t *testing.T) {
	if os.Getenv("FAILPOINT_VICTIM") != "" {
		configure(t, string(point)+"=kill@2")
		for _, alive := range []string{"first", "second", "third"} {
			_ = failpoint.Hit(point)
			os.Stdout.WriteString("survived the " + alive + "\n")
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestKillEndsTheProcess$")
	cmd.Env = append(os.Environ(), "FAILPOINT_VICTIM=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("it ended with %v", err)
	}
	if status := exit.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v; want SIGKILL", err)
	}
	if got := stdout.String(); !strings.Contains(got, "survived the first") ||
		strings.Contains(got, "survived the second") {
		t.Errorf("it said %q", got)
	}
	if noted := strings.Count(stderr.String(), "failpoint reached: "+string(point)+"\n"); noted != 1 {
		t.Errorf("the point was noted %d times on stderr; want once:\n%s", noted, stderr.String())
	}
}
