package engine_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// TestARefusalNeverEndsADoubt covers a call that was applied, or may have been, without a response,
// and a gateway that refuses the next call. Whatever happens in between, the step is undone, or the
// saga does not end clean.
func TestARefusalNeverEndsADoubt(t *testing.T) {
	order := func(v saga.OrderVerb) saga.Event {
		return saga.StepOrdered{Step: 1, Order: saga.Order{Verb: v, By: "op"}}
	}
	force := saga.FailureForced{By: "op"}
	lost := then(lostReply, turnedAway)
	silent := then(slowly(yes, 2*time.Second), turnedAway) // cut off by whatever happens in the meantime
	for _, tt := range []struct {
		name      string
		undo      bool // the replies are to step 1's compensation
		replies   func(nth int) reply
		meanwhile func(w *world, a *node, id uuid.UUID)
		end       saga.State
		sequence  string
	}{
		{"the node is killed in the call", false, silent, killed, saga.Compensated, "X0 X1 X1 C1 C0"},
		{"the node is killed while it waits for the next attempt", false, lost, killed, saga.Compensated, "X0 X1 X1 C1 C0"},
		{"the node stops and abandons the call", false, then(slowly(yes, 30*time.Second), turnedAway), stopped, saga.Compensated, "X0 X1 X1 C1 C0"},
		{"the node hands over what waits", false, lost, stopped, saga.Compensated, "X0 X1 X1 C1 C0"},
		{"cancelled while it waits", false, lost, does(cancel), saga.Cancelled, "X0 X1 C1 C0"},
		{"cancelled in the call of a node that is then killed", false, silent, both(does(cancel), killed), saga.Cancelled, "X0 X1 C1 C0"},
		{"the deadline passes while it waits", false, lost, does(saga.DeadlineSet{TimeoutMS: 60_000}, saga.DeadlinePassed{}), saga.TimedOut, "X0 X1 C1 C0"},
		{"failed by hand", false, lost, does(order(saga.FailStep)), saga.Compensated, "X0 X1 C1 C0"},
		{"skipped by hand, then cancelled", false, lost, does(order(saga.SkipStep), cancel), saga.Cancelled, "X0 X1 X2 C1 C0"},
		{"completed by hand, then cancelled", false, lost, does(order(saga.CompleteStep), cancel), saga.Cancelled, "X0 X1 X2 C1 C0"},
		{"retried by hand", false, lost, does(saga.RetryRequested{By: "op"}), saga.Compensated, "X0 X1 X1 C1 C0"},
		{"forced to fail while it waits, then resumed", false, lost, does(force, saga.ResumeRequested{By: "op"}), saga.Compensated, "X0 X1 C1 C0"},
		{"forced to fail in the call, then resumed", false, silent, does(force, saga.ResumeRequested{By: "op"}), saga.Compensated, "X0 X1 C1 C0"},
		{"suspended and resumed", false, lost, does(saga.SuspendRequested{By: "op"}, saga.UnsuspendRequested{By: "op"}), saga.Compensated, "X0 X1 X1 C1 C0"},

		{"an undo, and the node is killed in the call", true, silent, killed, saga.Failed, "X0 X1 X2 C1 C1"},
		{"an undo, and the node is killed while it waits", true, lost, killed, saga.Failed, "X0 X1 X2 C1 C1"},
		{"an undo, forced to fail in the call, then resumed", true, silent, does(force, saga.ResumeRequested{By: "op"}), saga.Failed, "X0 X1 X2 C1 C1"},
		{"an undo, suspended and resumed", true, lost, does(saga.SuspendRequested{By: "op"}, saga.UnsuspendRequested{By: "op"}), saga.Failed, "X0 X1 X2 C1 C1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = func(c saga.Call, nth int) reply {
					switch {
					case c.Index == 1 && (c.Action == saga.Compensate) == tt.undo:
						return tt.replies(nth)
					case c.Index == 2: // the last step turns the saga back after a while
						return slowly(no, time.Second)
					}
					return yes
				}
				d := steps("uuu")
				d.Retry.InitialIntervalMS, d.CompensationRetry.InitialIntervalMS = 2000, 2000
				a := w.start("a")
				id := a.create(d)
				time.Sleep(map[bool]time.Duration{false: time.Second, true: 2 * time.Second}[tt.undo])
				synctest.Wait()
				tt.meanwhile(w, a, id)
				w.start("b")
				w.untilEnded(id)
				s := w.load(id).Saga
				if sequence := w.participants.sequence(id); s.State != tt.end || sequence != tt.sequence {
					t.Errorf("%s by %s; want %s by %s", s.State, sequence, tt.end, tt.sequence)
				}
				w.checkInvariants(id)
				if run := w.run(id); tt.undo && slices.Contains(run.AllowedActions(), string(saga.RetryVerb)) {
					t.Error("it may go forward again, although a step may be undone")
				}
			})
		})
	}
}

func killed(_ *world, a *node, _ uuid.UUID) { a.kill() }

func stopped(_ *world, a *node, _ uuid.UUID) { a.stop() }

// does applies operator actions one after another, each when the saga has come to rest.
func does(events ...saga.Event) func(*world, *node, uuid.UUID) {
	return func(w *world, _ *node, id uuid.UUID) {
		for _, e := range events {
			if err := w.intervene(id, e); err != nil {
				w.t.Errorf("%#v: %v", e, err)
			}
			w.wake(id)
			synctest.Wait()
		}
	}
}

func both(first, second func(*world, *node, uuid.UUID)) func(*world, *node, uuid.UUID) {
	return func(w *world, a *node, id uuid.UUID) {
		first(w, a, id)
		second(w, a, id)
	}
}
