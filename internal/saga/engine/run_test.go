package engine_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
)

// A sequence lists the calls in the order in which they arrived.
func TestSagaRunsToItsEnd(t *testing.T) {
	for _, tt := range []struct {
		name     string
		steps    string
		behavior func(saga.Call, int) reply
		end      saga.State
		sequence string
	}{
		{"every step is called once, in order", "uuu", nil, saga.Completed, "X0 X1 X2"},
		{"a refused first step needs no undo", "uuu", when(0, saga.Execute, always(no)), saga.Compensated, "X0"},
		{"a refused step has the ones before it undone in reverse order", "uuuu", when(3, saga.Execute, always(no)), saga.Compensated, "X0 X1 X2 X3 C2 C1 C0"},
		{"a step without an undo is passed over", "unu", when(2, saga.Execute, always(no)), saga.Compensated, "X0 X1 X2 C0"},
		{"a step whose outcome stays unknown is undone too, and first", "uuu", when(1, saga.Execute, always(lostReply)), saga.Compensated, "X0 X1 X1 X1 C1 C0"},
		{"a step that certainly never happened is not", "uuu", when(1, saga.Execute, always(unavailable)), saga.Compensated, "X0 X1 X1 X1 C0"},
		{"an unknown outcome is made definite by the same call again", "uuu", when(1, saga.Execute, first(2, lostReply)), saga.Completed, "X0 X1 X1 X1 X2"},
		{"a refusal after an unknown outcome leaves it unknown", "uu", when(1, saga.Execute, func(nth int) reply {
			if nth == 1 {
				return crashed
			}
			return no
		}), saga.Compensated, "X0 X1 X1 C1 C0"},
		{"a gateway refuses what was applied", "uu", when(1, saga.Execute, then(lostReply, turnedAway)), saga.Compensated, "X0 X1 X1 C1 C0"},
		{"a gateway refuses what was never reached", "uu", when(1, saga.Execute, then(unavailable, turnedAway)), saga.Compensated, "X0 X1 X1 C0"},
		{"a gateway refuses an undo that was applied", "uu", func(c saga.Call, nth int) reply {
			switch {
			case c.Index == 1:
				return no
			case c.Action == saga.Compensate:
				return then(lostReply, turnedAway)(nth)
			}
			return yes
		}, saga.Failed, "X0 X1 C0 C0"},
		{"an undo is tried again", "uu", func(c saga.Call, nth int) reply {
			switch {
			case c.Index == 1:
				return no
			case c.Action == saga.Compensate && nth < 3:
				return crashed
			}
			return yes
		}, saga.Compensated, "X0 X1 C0 C0 C0"},
		{"an undo that gives up leaves the earlier ones open", "uuu", func(c saga.Call, nth int) reply {
			if c.Index == 2 || c.Index == 1 && c.Action == saga.Compensate {
				return no
			}
			return yes
		}, saga.Failed, "X0 X1 X2 C1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = tt.behavior
				id := w.start("a").create(steps(tt.steps))
				w.untilEnded(id)
				if s, sequence := w.state(id), w.participants.sequence(id); s != tt.end || sequence != tt.sequence {
					t.Errorf("%s by %s; want %s by %s", s, sequence, tt.end, tt.sequence)
				}
				w.checkInvariants(id)
			})
		})
	}
}

// A saga that exceeds its budget fails: a request that is too large is never sent, and a step whose
// output is too large is compensated, because it was applied.
func TestASagaBeyondItsBudgetIsCompensated(t *testing.T) {
	for name, tt := range map[string]struct {
		budget   saga.Budget
		sequence string
	}{
		"a request too large": {saga.Budget{Request: 100}, ""},
		"an output too large": {saga.Budget{Saga: 1}, "X0 C0"},
		"within the budget":   {saga.Budget{Saga: 10_000, Request: 10_000}, "X0 X1"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				id := w.start("a", func(c *engine.Config) { c.Budget = tt.budget }).create(steps("uu"))
				w.untilEnded(id)
				end := saga.Compensated
				if tt.sequence == "X0 X1" {
					end = saga.Completed
				}
				if s, sequence := w.state(id), w.participants.sequence(id); s != end || sequence != tt.sequence {
					t.Errorf("%s by %q; want %s by %q", s, sequence, end, tt.sequence)
				}
			})
		})
	}
}
