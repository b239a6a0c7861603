package engine_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
)

// at returns when the calls of a saga arrived, relative to the first.
func (p *participants) at(id uuid.UUID) []time.Duration {
	var out []time.Duration
	calls := p.of(id)
	for _, e := range calls {
		out = append(out, e.at.Sub(calls[0].at))
	}
	return out
}

func TestRetriesAreSpacedByThePolicy(t *testing.T) {
	ms, s := time.Millisecond, time.Second
	for _, tt := range []struct {
		name  string
		reply reply
		want  []time.Duration
	}{
		{"longer and longer", crashed, []time.Duration{0, 100 * ms, 300 * ms}},
		{"as late as the participant asks", reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: 2 * s}, []time.Duration{0, 2 * s, 4 * s}},
		{"after the call's own time", slowly(crashed, 50*ms), []time.Duration{0, 150 * ms, 400 * ms}},
		{"after the timeout of a call that hangs", hangs, []time.Duration{0, 30*s + 100*ms, 60*s + 300*ms}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = when(0, saga.Execute, always(tt.reply))
				id := w.start("a").create(steps("n"))
				w.untilEnded(id)
				if got := w.participants.at(id); !slices.Equal(got, tt.want) {
					t.Errorf("calls at %v; want %v", got, tt.want)
				}
				w.checkInvariants(id)
			})
		})
	}
}

func TestSagaThatWaitsHoldsNoSlot(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = when(0, saga.Execute, func(nth int) reply {
			if nth == 1 {
				return reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: 4 * time.Second}
			}
			return yes
		})
		n := w.start("a", func(c *engine.Config) { c.MaxRunning = 1 })
		first := n.create(steps("n"))
		synctest.Wait()
		if running, waiting := n.engine.Load(); running != 0 || waiting != 1 {
			t.Errorf("%d running, %d waiting; want one that waits", running, waiting)
		}
		w.participants.behavior = nil
		second := n.create(steps("nn"))
		synctest.Wait()
		if w.state(second) != saga.Completed {
			t.Errorf("the only slot is free, and another saga is %s", w.state(second))
		}
		w.untilEnded(first)
		w.checkInvariants(first, second)
	})
}

func TestLongWaitIsReleasedAndClaimedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = when(
			1,
			saga.Execute,
			first(1, reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: time.Minute}),
		)
		n := w.start("a")
		id := n.create(steps("uu"))
		synctest.Wait()
		if s := w.load(id).Saga; s.LeaseOwner != nil || s.NextRunAt == nil || s.Attempt != 2 || s.State != saga.Running {
			t.Errorf(
				"while it waits for a minute: owner %v, due %v, attempt %d, %s",
				s.LeaseOwner,
				s.NextRunAt,
				s.Attempt,
				s.State,
			)
		}
		if running, waiting := n.engine.Load(); running+waiting != 0 {
			t.Errorf("the node still holds %d+%d sagas", running, waiting)
		}
		n.stop() // the node is no longer needed: any node can continue
		w.start("b")
		w.untilEnded(id)
		got := w.participants.of(id)
		if wait := got[2].at.Sub(got[1].at); got[2].node != "b" || wait < time.Minute || wait > time.Minute+time.Second {
			t.Errorf("the second attempt came from %s after %v", got[2].node, wait)
		}
		if w.takeovers[id] != 0 {
			t.Error("a released saga was taken over as if its owner had died")
		}
		w.checkInvariants(id)
	})
}

func TestWaitThatEndsDuringADatabaseOutageIsNotForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = when(
			0,
			saga.Execute,
			first(2, reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: 3 * time.Second}),
		)
		n := w.start("a")
		failed := 0
		n.inject(faults{fault: func(r request) failure {
			if r.op == loading && failed < 5 { // the database cannot be read when the wait is over
				failed++
				return lostBefore
			}
			return passes
		}})
		id := n.create(steps("n"))
		w.untilEnded(id)
		if failed != 5 {
			t.Errorf("%d reads failed; want 5", failed)
		}
		w.checkInvariants(id)
	})
}

// rows returns the step logs of a saga, each as "step action status attempt".
func (w *world) rows(id uuid.UUID) []string {
	var out []string
	for _, l := range w.load(id).Logs {
		out = append(out, strings.Join([]string{l.StepName, string(l.Action), string(l.Status)}, " "))
	}
	return out
}

func TestSlowCallIsRecordedWhileItRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = func(c saga.Call, _ int) reply {
			switch {
			case c.Index == 1:
				return slowly(no, 3*time.Second)
			case c.Action == saga.Compensate:
				return slowly(yes, 2*time.Second)
			}
			return slowly(yes, 400*time.Millisecond)
		}
		id := w.start("a").create(steps("uu"))
		begin := now()
		look := func(at time.Duration, want ...string) {
			t.Helper()
			time.Sleep(at - now().Sub(begin))
			synctest.Wait()
			if d := cmp.Diff(want, w.rows(id)); d != "" {
				t.Fatalf("after %v (-want +got):\n%s", at, d)
			}
		}
		look(399 * time.Millisecond)
		look(800*time.Millisecond, "s0 EXECUTE SUCCESS") // s0 was fast enough, s1 is not slow yet
		look(950*time.Millisecond, "s0 EXECUTE SUCCESS", "s1 EXECUTE RUNNING")
		running := w.load(id)
		if l := running.Logs[1]; l.CompletedAt != nil || !l.StartedAt.Equal(begin.Add(400*time.Millisecond)) {
			t.Errorf("a running call has started %v and completed %v", l.StartedAt, l.CompletedAt)
		}
		look(3500*time.Millisecond, "s0 EXECUTE SUCCESS", "s1 EXECUTE FAILED")
		look(4*time.Second, "s0 EXECUTE SUCCESS", "s1 EXECUTE FAILED", "s0 COMPENSATE RUNNING")
		look(6*time.Second, "s0 EXECUTE SUCCESS", "s1 EXECUTE FAILED", "s0 COMPENSATE SUCCESS")
		l := w.load(id).Logs[1]
		if l.ID != running.Logs[1].ID || l.CompletedAt == nil || *l.DurationMS != 3000 || !l.Final {
			t.Errorf("the running row was not completed: %+v", l)
		}
		w.checkInvariants(id)
	})
}

func TestSlowCallWhoseRecordIsLostStillSucceeds(t *testing.T) {
	for name, m := range map[string]failure{"before the disk": lostBefore, "after the disk": lostAfter} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = when(0, saga.Execute, always(slowly(yes, time.Second)))
				n := w.start("a")
				once := m
				n.inject(faults{fault: func(r request) failure {
					if r.op != committing {
						return passes
					}
					defer func() { once = passes }()
					return once
				}})
				id := n.create(steps("nn"))
				w.untilEnded(id)
				if d := cmp.Diff([]string{"s0 EXECUTE SUCCESS", "s1 EXECUTE SUCCESS"}, w.rows(id)); d != "" {
					t.Errorf("rows (-want +got):\n%s", d)
				}
				w.checkInvariants(id)
			})
		})
	}
}

// TestAThousandWaitingSagasHoldFewGoroutines checks that a waiting saga costs one timer if its wait
// is short, and nothing if it is long.
func TestAThousandWaitingSagasHoldFewGoroutines(t *testing.T) {
	for _, tt := range []struct {
		name    string
		wait    time.Duration
		waiting int
	}{
		{"a short time, with the node", 4 * time.Second, 1_000},
		{"a long time, with nobody", time.Minute, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = when(
					0,
					saga.Execute,
					first(1, reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: tt.wait}),
				)
				n := w.start("a")
				before := runtime.NumGoroutine()
				ids := make([]uuid.UUID, 1_000)
				d := steps("n")
				for i := range ids {
					ids[i] = n.create(d)
				}
				synctest.Wait()
				running, waiting := n.engine.Load()
				if more := runtime.NumGoroutine() - before; more > 20 || running != 0 || waiting != tt.waiting {
					t.Errorf(
						"%d more goroutines, %d running, %d waiting; want %d that wait and hardly a goroutine",
						more,
						running,
						waiting,
						tt.waiting,
					)
				}
				w.untilEnded(ids...)
			})
		})
	}
}
