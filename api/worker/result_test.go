package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/api/worker"
)

// jsonText is JSON that is sent unchanged.
type jsonText string

func (j jsonText) MarshalJSON() ([]byte, error) { return []byte(j), nil }

// broken panics when it is encoded and when its text is requested.
type broken struct{}

func (broken) MarshalJSON() ([]byte, error) { panic("broken") }
func (broken) Error() string                { panic("broken") }

// outcome executes one run, next to another one that must not be affected, and returns its report.
func outcome(t *testing.T, s *skald, h worker.Handler) api.CompleteItem {
	t.Helper()
	id, other := s.add(), s.add()
	s.work(func(ctx context.Context, r *worker.Run) (any, error) {
		if r.ID == other.String() {
			return lasts(time.Minute, nil)(ctx, r)
		}
		return h(ctx, r)
	})
	time.Sleep(2 * time.Minute)
	var got *api.CompleteItem
	done := s.completed()
	for i := range done {
		switch {
		case done[i].RunID == id:
			got = &done[i]
		case done[i].Error != nil:
			t.Errorf("the other run failed: %+v", done[i].Error)
		}
	}
	if len(done) != 2 || got == nil {
		t.Fatalf("%d results: %+v", len(done), done)
	}
	return *got
}

func TestAResultIsReportedAsJSON(t *testing.T) {
	for _, tt := range []struct {
		name   string
		result any
		want   string
	}{
		{"none", nil, ""},
		{"a number", 42, "42"},
		{"an object", map[string]any{"b": 1, "a": "é"}, `{"a":"é","b":1}`},
		{"the longest", strings.Repeat("x", 1<<20-2), `"` + strings.Repeat("x", 1<<20-2) + `"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				got := outcome(t, s, func(context.Context, *worker.Run) (any, error) { return tt.result, nil })
				if string(got.Result) != tt.want || got.Error != nil || got.TimedOut != nil || got.ExitCode != nil {
					t.Errorf("%.200s, %+v", got.Result, got.Error)
				}
			})
		})
	}
}

// TestAResultThatCannotBeStoredFailsTheRun: it fails no other run, and is not retried.
func TestAResultThatCannotBeStoredFailsTheRun(t *testing.T) {
	for name, result := range map[string]any{
		"too large": strings.Repeat("x", 1<<20-1), "a channel": make(chan int), "a NUL": "a\x00b",
		"half a pair": jsonText(`"\ud800"`), "a member twice": jsonText(`{"a":1,"a":2}`), "no number": jsonText("1e400"),
		"too deep":               jsonText(strings.Repeat("[", 100) + strings.Repeat("]", 100)),
		"a panic in the encoder": broken{},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				got := outcome(t, s, func(context.Context, *worker.Run) (any, error) { return result, nil })
				if got.Error == nil || got.Error.Code != "RESULT_NOT_JSON" || *got.Error.Retryable || got.Result != nil {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

func TestACheckpointThatCannotBeStoredLeavesTheLastOne(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		id := s.add()
		s.work(lasts(time.Minute, func(r *worker.Run) {
			time.Sleep(time.Second)
			if err := r.Checkpoint(7); err != nil {
				t.Error(err)
			}
			for _, bad := range []any{make(chan int), "a\x00b", strings.Repeat("x", 4<<20-1), jsonText("1e400"), broken{}} {
				if err := r.Checkpoint(bad); err == nil {
					t.Errorf("the checkpoint %.20v is accepted", bad)
				}
			}
		}))
		time.Sleep(2 * time.Minute)
		var told []string
		for _, b := range s.beats(id) {
			told = append(told, string(b.Checkpoint))
		}
		if strings.Join(told, "") != "7" || len(s.completed()) != 1 {
			t.Errorf("told %q", told)
		}
	})
}

// TestCheckpointsThatAreTooLargeTogetherTakeTurns: one heartbeat has room for two checkpoints of
// maximum size.
func TestCheckpointsThatAreTooLargeTogetherTakeTurns(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		for range 3 {
			s.add()
		}
		large := strings.Repeat("x", 3<<20)
		s.work(lasts(time.Minute, func(r *worker.Run) {
			time.Sleep(time.Second)
			if err := r.Checkpoint(large); err != nil {
				t.Error(err)
			}
		}))
		time.Sleep(30 * time.Second)
		var perBeat []int
		for _, b := range said[beat](s, "heartbeat") {
			n := 0
			for _, r := range b.Running {
				if r.Checkpoint != nil {
					n++
				}
			}
			if n > 0 {
				perBeat = append(perBeat, n)
			}
			if len(b.Running) != 3 && b.Seq > 1 {
				t.Errorf("a heartbeat names %d of 3 runs", len(b.Running))
			}
		}
		if fmt.Sprint(perBeat) != "[2 1]" {
			t.Errorf("checkpoints by heartbeat: %v", perBeat)
		}
	})
}

func TestAFailureIsReported(t *testing.T) {
	var none *worker.Failure
	for _, tt := range []struct {
		name          string
		err           error
		code, message string
		retryable     bool
		exit          *int32
	}{
		{"an error", errors.New("no"), "ERROR", "no", true, nil},
		{"an error without text", errors.New(""), "ERROR", "", true, nil},
		{"a failure", &worker.Failure{Code: "ODD", Message: "odd"}, "ODD", "odd", true, nil},
		{"a wrapped one", fmt.Errorf("so: %w", &worker.Failure{Code: "ODD", Message: "odd"}), "ODD", "odd", true, nil},
		{"one for good", &worker.Failure{Message: "odd", Permanent: true}, "ERROR", "odd", false, nil},
		{"an exit code", &worker.Failure{ExitCode: new(3)}, "ERROR", "", true, new(int32(3))},
		{"one of Windows", &worker.Failure{ExitCode: new(0xC0000005)}, "ERROR", "", true, new(int32(-1073741819))},
		{"one that is none", &worker.Failure{ExitCode: new(1 << 40)}, "ERROR", "", true, nil},
		{"odd texts", &worker.Failure{Code: "a\x00\xff", Message: "b\x00\xff"}, "a\uFFFD\uFFFD", "b\uFFFD\uFFFD", true, nil},
		{"an odd error", errors.New("a\x00b\xff" + strings.Repeat("é", 10_000)), "ERROR",
			"a\uFFFDb\uFFFD" + strings.Repeat("é", 4092), true, nil},
		{"a long code", &worker.Failure{Code: strings.Repeat("é", 80)}, strings.Repeat("é", 50), "", true, nil},
		{"a nil failure", none, "ERROR", "*worker.Failure, whose text cannot be read: runtime error: invalid memory address or nil pointer dereference",
			true, nil},
		{"a panic in the error", broken{}, "ERROR", "worker_test.broken, whose text cannot be read: broken", true, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				got := outcome(t, s, func(context.Context, *worker.Run) (any, error) { return "not reported", tt.err })
				e := got.Error
				if e == nil || got.Result != nil || got.TimedOut != nil {
					t.Fatalf("%+v", got)
				}
				if e.Code != tt.code || *e.Message != tt.message || *e.Retryable != tt.retryable ||
					fmt.Sprint(deref(got.ExitCode)) != fmt.Sprint(deref(tt.exit)) {
					t.Errorf("%s, %.100q, retryable %t, exit %v", e.Code, *e.Message, *e.Retryable, deref(got.ExitCode))
				}
			})
		})
	}
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func count(m map[string]int) { m["a"]++ }

func TestAPanicIsAFailureOfItsRunOnly(t *testing.T) {
	for name, tt := range map[string]struct {
		panics func()
		text   string
	}{
		"a text":         {func() { panic("two\x00") }, "two\uFFFD"},
		"an error":       {func() { panic(errors.New("two")) }, "two"},
		"nil":            {func() { panic(nil) }, "panic called with nil argument"},
		"of the runtime": {func() { count(nil) }, "assignment to entry in nil map"},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				got := outcome(t, s, func(context.Context, *worker.Run) (any, error) { tt.panics(); return nil, nil })
				if got.Error == nil || got.Error.Code != "PANIC" || !strings.Contains(*got.Error.Message, tt.text) ||
					!*got.Error.Retryable {
					t.Errorf("%+v", got.Error)
				}
			})
		})
	}
}

func TestARunOfAnUnknownCommandFails(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		s.add(func(r *api.ClaimedRun) { r.Command = "sing" })
		s.work(nothing)
		synctest.Wait()
		done := s.completed()
		if len(done) != 1 || done[0].Error == nil || done[0].Error.Code != "UNKNOWN_COMMAND" || !*done[0].Error.Retryable {
			t.Errorf("%+v", done)
		}
	})
}

func TestAHandlerThatTakesTooLongTimesOut(t *testing.T) {
	for name, tt := range map[string]struct {
		err      error
		timedOut bool
		code     string
	}{
		"and stops":                {errors.New("late"), true, "TIMED_OUT"},
		"and says why":             {&worker.Failure{Code: "SLOW_DISK"}, true, "SLOW_DISK"},
		"and is done nevertheless": {nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				s.add(func(r *api.ClaimedRun) { r.TimeoutMS = 40_000 })
				var cause error
				var after time.Duration
				s.work(func(ctx context.Context, _ *worker.Run) (any, error) {
					at := time.Now()
					<-ctx.Done()
					cause, after = context.Cause(ctx), time.Since(at)
					return nil, tt.err
				})
				time.Sleep(time.Minute)
				done := s.completed()
				if !errors.Is(cause, worker.ErrTimedOut) || after != 40*time.Second || len(done) != 1 ||
					(done[0].TimedOut != nil && *done[0].TimedOut) != tt.timedOut || (done[0].Error != nil) != tt.timedOut ||
					tt.timedOut && done[0].Error.Code != tt.code {
					t.Errorf("ended by %v after %s: %+v", cause, after, done)
				}
			})
		})
	}
}

func TestASuccessEmitsEventsAndRuns(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		got := outcome(t, s, func(_ context.Context, r *worker.Run) (any, error) {
			return nil, errors.Join(r.EmitEvent("printed", 1), r.EmitRun("bind", map[string]int{"n": 2}))
		})
		if e := got.Emit; len(e) != 2 || e[0].Event == nil || e[0].Event.EventType != "printed" ||
			string(e[0].Event.Payload) != "1" || e[1].Run == nil || e[1].Run.Definition != "bind" ||
			string(e[1].Run.Args) != `{"n":2}` {
			t.Errorf("%+v", got)
		}
	})
}

func TestAFailureEmitsNothing(t *testing.T) {
	onFakeClock(t, func(t *testing.T, s *skald) {
		got := outcome(t, s, func(_ context.Context, r *worker.Run) (any, error) {
			return nil, errors.Join(r.EmitEvent("printed", 1), errors.New("no"))
		})
		if got.Error == nil || got.Emit != nil {
			t.Errorf("%+v", got)
		}
	})
}

// TestARunDoesNotSucceedWithoutWhatItEmits, even if its handler ignores the error.
func TestARunDoesNotSucceedWithoutWhatItEmits(t *testing.T) {
	for name, emit := range map[string]func(*worker.Run) error{
		"not JSON":      func(r *worker.Run) error { return r.EmitEvent("a", make(chan int)) },
		"no name":       func(r *worker.Run) error { return r.EmitRun("", 1) },
		"a name of NUL": func(r *worker.Run) error { return r.EmitEvent("a\x00", 1) },
		"a long name":   func(r *worker.Run) error { return r.EmitEvent(strings.Repeat("a", 256), 1) },
		"too many": func(r *worker.Run) (err error) {
			for range 101 {
				err = errors.Join(err, r.EmitEvent("a", 1))
			}
			return err
		},
		"too much": func(r *worker.Run) error {
			large := strings.Repeat("x", 3<<20)
			return errors.Join(r.EmitEvent("a", large), r.EmitRun("b", large))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, s *skald) {
				got := outcome(t, s, func(_ context.Context, r *worker.Run) (any, error) {
					if emit(r) == nil {
						t.Error("it is accepted")
					}
					return "done", nil
				})
				if got.Error == nil || got.Result != nil || got.Emit != nil || *got.Error.Retryable {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}
