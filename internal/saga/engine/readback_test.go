package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

// unstorable is a participant's answer that the database cannot store (jsonb does not allow NUL
// characters).
var unstorable = reply{verdict: saga.Done, output: `{"name":"\u0000"}`}

// TestAnUnstorableRefusalStands checks that the refusal is kept although its reasons are lost.
func TestAnUnstorableRefusalStands(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		refusal := unstorable
		refusal.verdict, refusal.class = saga.Refused, retry.Refused
		w.participants.behavior = when(1, saga.Execute, always(refusal))
		id := w.start("a").create(steps("uu"))
		w.untilEnded(id)
		s := w.load(id).Saga
		if sequence := w.participants.sequence(id); s.State != saga.Compensated || sequence != "X0 X1 C0" {
			t.Errorf("%s by %s; want compensated by X0 X1 C0", s.State, sequence)
		}
		if s.Error == nil || s.Error.Code != string(retry.Refused) || !strings.Contains(s.Error.Message, "cannot be stored") {
			t.Errorf("error %+v", s.Error)
		}
		w.checkInvariants(id)
	})
}

func TestUnstorableAnswerIsRecordedWithoutItsContent(t *testing.T) {
	for _, tt := range []struct {
		name     string
		action   saga.Action
		end      saga.State
		sequence string
		rows     []string
	}{
		{
			"of a step: it was useless, and the step is undone", saga.Execute, saga.Compensated, "X0 X1 X1 X1 C1 C0",
			[]string{"s0 EXECUTE SUCCESS", "s1 EXECUTE FAILED", "s1 EXECUTE FAILED", "s1 EXECUTE FAILED",
				"s1 COMPENSATE SUCCESS", "s0 COMPENSATE SUCCESS"},
		},
		{
			"of an undo: a person must look", saga.Compensate, saga.Failed, "X0 X1 X2 C1 C1 C1",
			[]string{"s0 EXECUTE SUCCESS", "s1 EXECUTE SUCCESS", "s2 EXECUTE FAILED", "s1 COMPENSATE FAILED",
				"s1 COMPENSATE FAILED", "s1 COMPENSATE FAILED"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = func(c saga.Call, _ int) reply {
					switch {
					case c.Index == 1 && c.Action == tt.action:
						return unstorable
					case c.Index == 2:
						return no
					}
					return yes
				}
				id := w.start("a").create(steps("uuu"))
				w.untilEnded(id)
				if s, sequence := w.state(id), w.participants.sequence(id); s != tt.end || sequence != tt.sequence {
					t.Errorf("%s by %s; want %s by %s", s, sequence, tt.end, tt.sequence)
				}
				if d := cmp.Diff(tt.rows, w.rows(id)); d != "" {
					t.Errorf("rows (-want +got):\n%s", d)
				}
				for _, l := range w.load(id).Logs {
					if strings.Contains(string(l.Response)+string(l.Request), `\u0000`) {
						t.Errorf("%s %s holds what cannot be held", l.StepName, l.Action)
					}
					if l.Status == saga.LogFailed && l.StepIndex == 1 && *l.Outcome != "unstorable_response" {
						t.Errorf("%s %s is recorded as %s", l.StepName, l.Action, *l.Outcome)
					}
				}
				w.checkInvariants(id)
			})
		})
	}
}

// TestRefusedChangeIsNotRetriedInATightLoop: the database refuses every change that is to be
// recorded. This can only be caused by a bug. It may cost a commit from time to time, but must not
// keep other sagas from running.
func TestRefusedChangeIsNotRetriedInATightLoop(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a")
		var refusing atomic.Bool
		refusing.Store(true)
		commits := 0
		n.inject(faults{refuse: func(c *saga.Change) error {
			if c.After.WorkflowName != "refused" || !refusing.Load() {
				return nil
			}
			if commits++; commits == 1000 {
				refusing.Store(false) // the change is retried in a tight loop: let it end
			}
			return fault.New(fault.Invalid, saga.CodeUnstorable, "refused")
		}})
		id := n.create(named("refused", "uu"))
		other := n.create(steps("uu"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if commits > 60 {
			t.Errorf("%d commits in a minute", commits)
		}
		if w.state(other) != saga.Completed {
			t.Errorf("another saga is %s", w.state(other))
		}
		refusing.Store(false)
		w.untilEnded(id)
		w.checkInvariants(id, other)
	})
}

// TestReleasedSagaThatAnotherNodeClaimedIsLeftAlone: the commit that releases a saga for a
// long wait succeeds, but its result is lost, and the database cannot be read until
// another node is already making the next call.
func TestReleasedSagaThatAnotherNodeClaimedIsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = func(c saga.Call, nth int) reply {
			if nth == 1 {
				return reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: 6 * time.Second}
			}
			return slowly(yes, 20*time.Second)
		}
		a, _ := w.start("a"), w.start("b")
		begin, lost := now(), false
		a.inject(faults{fault: func(r request) failure {
			switch {
			case r.op == committing && !lost:
				lost = true
				return lostAfter
			case (r.op == loading || r.op == claiming) && now().Sub(begin) < 10*time.Second:
				return lostBefore
			}
			return passes
		}})
		id := a.create(steps("u"))
		w.untilEnded(id)
		calls := w.participants.of(id)
		if sequence := w.participants.sequence(id); sequence != "X0 X0" || calls[1].node != "b" {
			t.Errorf("%s, the second by %s; want X0 X0, the second by b", sequence, calls[1].node)
		}
		w.checkInvariants(id)
	})
}

// TestWokenTwiceIsDrivenOnce: two actions on a waiting saga wake it twice. The second read is under
// way while the drive started by the first read ends. A drive started from that second read would
// repeat a finished call.
func TestWokenTwiceIsDrivenOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = when(0, saga.Execute, func(nth int) reply {
			if nth == 1 {
				return reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: 2 * time.Second}
			}
			return slowly(
				reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: 4 * time.Second},
				500*time.Millisecond,
			)
		})
		n := w.start("a")
		n.inject(faults{latency: func(o op) (there, back time.Duration) {
			if o == loading {
				back = time.Second
			}
			return 0, back
		}})
		id := n.create(steps("u"))
		time.Sleep(1900 * time.Millisecond)
		n.engine.Wake(refOf(w.newID())) // keeps the intake busy until the saga is due
		time.Sleep(200 * time.Millisecond)
		n.engine.Wake(refOf(id))
		for range 63 {
			n.engine.Wake(refOf(w.newID()))
		}
		n.engine.Wake(refOf(id)) // in the batch after
		w.untilEnded(id)
		if sequence := w.participants.sequence(id); sequence != "X0 X0 X0" {
			t.Errorf("%s; want three attempts", sequence)
		}
		w.checkInvariants(id)
	})
}

func TestObserverIsCalled(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var calls, ended, claimed, loops atomic.Int64
		w.participants.behavior = when(1, saga.Execute, always(no))
		n := w.start("a", observer(&calls, &ended, &claimed, &loops))
		ids := w.createUnowned(steps("uu"))
		other := n.create(steps("uu"))
		w.untilEnded(ids, other)
		time.Sleep(ttl)
		if calls.Load() != 6 || ended.Load() != 2 || claimed.Load() != 1 || loops.Load() < 20 {
			t.Errorf(
				"%d calls, %d ends, %d claims, %d rounds; want 6, 2, 1 and many",
				calls.Load(),
				ended.Load(),
				claimed.Load(),
				loops.Load(),
			)
		}
	})
}
