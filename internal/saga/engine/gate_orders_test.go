package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// orderAtGate is something that happens to a saga while it waits at a gate.
type orderAtGate struct {
	name string
	do   []saga.Event // nil means that its deadline passes
	end  saga.State
	// opens means that the gate is released afterwards, because the saga keeps waiting.
	opens bool
	undo  int // the calls that undo its first step
}

var ordersAtGate = []orderAtGate{
	{name: "its deadline passes", end: saga.TimedOut, undo: 1},
	{name: "cancel", do: []saga.Event{saga.CancelRequested{By: "bob"}}, end: saga.Cancelled, undo: 1},
	{name: "compensate", do: []saga.Event{saga.CompensateRequested{By: "bob"}}, end: saga.Compensated, undo: 1},
	{name: "force-complete", do: []saga.Event{saga.CompletionForced{By: "bob"}}, end: saga.Completed},
	{name: "force-fail", do: []saga.Event{saga.FailureForced{By: "bob"}}, end: saga.Failed},
	{name: "suspend, and cancel", do: []saga.Event{saga.SuspendRequested{By: "bob"}, saga.CancelRequested{By: "bob"},
		saga.UnsuspendRequested{By: "bob"}}, end: saga.Cancelled, undo: 1},
	{name: "suspend, and resume", do: []saga.Event{saga.SuspendRequested{By: "bob"}, saga.UnsuspendRequested{By: "bob"}},
		end: saga.Completed, opens: true},
}

// Operator actions on a saga that waits at a gate, and its deadline, take precedence over the gate.
// This holds even if the node dies at any of its writes, before or after the commit, and another
// takes over.
func TestOrdersReachASagaAtAGateThroughACrash(t *testing.T) {
	crashes := 0
	for _, o := range ordersAtGate {
		t.Run(o.name, func(t *testing.T) {
			undisturbed := &writes{}
			synctest.Test(t, func(t *testing.T) { orderAt(t, o, undisturbed, "") })
			for at := 1; at <= undisturbed.n; at++ {
				for _, how := range []failure{diesBefore, diesAfter} {
					for _, next := range []string{"a", "b"} {
						crashes++
						synctest.Test(t, func(t *testing.T) { orderAt(t, o, &writes{at: at, how: how}, next) })
					}
				}
			}
		})
	}
	if crashes < 20 {
		t.Errorf("%d crashes; too few writes were tested", crashes)
	}
	t.Logf("%d crashes", crashes)
}

// orderAt lets a saga wait at a gate that an operator holds, and applies o.
func orderAt(t *testing.T, o orderAtGate, c *writes, next string) {
	w := newWorld(t)
	defer w.close()
	c.w = w
	a := w.start("a", gated(w, "a"))
	w.participant("card")
	w.order("card", func(p registry.Participant) registry.Participant { return p.Hold("ann", "", "", now()) })
	d := named("stock", "un")
	d.Steps[1].Action.HTTP.URL = "http://card/do/1"
	d.TimeoutMS = time.Hour.Milliseconds() / 2
	id := a.create(d)
	w.untilEndedOr(id)
	due := *w.load(id).Saga.TimeoutAt
	a.inject(faults{fault: c.fault})
	for _, e := range o.do {
		if err := w.intervene(id, e); err != nil {
			t.Fatalf("%s, write %d: %T: %v", o.name, c.at, e, err)
		}
		synctest.Wait()
	}
	if o.opens {
		w.order("card", func(p registry.Participant) registry.Participant { p, _ = p.Release("ann", 0, now()); return p })
	}
	w.until("the saga ends or its node dies", func() bool { return w.state(id).Terminal() || !a.connection.alive() })
	if next != "" {
		if a.connection.alive() {
			t.Fatalf("%s: the node did not die at write %d", o.name, c.at)
		}
		a.kill()
		w.start(next, gated(w, next))
	}
	w.untilEnded(id)
	where := fmt.Sprintf("%s, write %d, after the disk: %v, then node %s", o.name, c.at, c.how == diesAfter, next)
	w.checkAtGate(where, id, o)
	// It takes longer if a node's lease must expire first.
	if took := now().Sub(due); len(o.do) == 0 && took > 5*time.Second && next == "" {
		t.Errorf("%s: it ended %s after its deadline", where, took)
	}
	if len(o.do) > 0 && !now().Before(due) {
		t.Errorf("%s: it ended only after its deadline", where)
	}
}

func (w *world) checkAtGate(where string, id uuid.UUID, o orderAtGate) {
	w.t.Helper()
	l := w.load(id)
	if l.Saga.State != o.end {
		w.t.Errorf("%s: it ended %s, want %s", where, l.Saga.State, o.end)
	}
	card := 0
	if o.opens {
		card = 1
	}
	if n := w.participants.callsTo("card"); n != card && !(o.opens && n == 2) { // once more after a crash
		w.t.Errorf("%s: %d calls of the participant, want %d", where, n, card)
	}
	if undone := w.participants.counts(id)[work{0, saga.Compensate}]; undone < o.undo || o.undo == 0 && undone > 0 {
		w.t.Errorf("%s: its first step was undone by %d calls, want %d", where, undone, o.undo)
	}
	for _, log := range l.Logs {
		if log.StepIndex == 1 && log.Action == saga.Execute && log.Status != saga.LogSkipped && !o.opens {
			w.t.Errorf("%s: an attempt was spent: %s %s", where, log.Status, log.Action)
		}
	}
}
