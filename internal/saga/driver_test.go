package saga

import (
	"encoding/json"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/fault"
)

// drive applies the rules as the engine does, until the saga has ended and is not reopened.
// Meanwhile nodes crash and are replaced, and the API and the reaper interfere.
func (w *world) drive() {
	for range 10_000 {
		w.meddle("between calls")
		if w.run == nil {
			if w.head.State.Terminal() {
				if !w.reopened() {
					return
				}
				continue
			}
			if w.head.SuspendedAt != nil {
				if !w.decided() {
					w.unsuspend()
				}
				continue
			}
			w.claim()
		}
		switch task := w.run.Next(w.now); task {
		case Rest:
			w.run = nil
		case Wait:
			if w.crashes("while waiting") {
				continue
			}
			if w.run.SuspendedAt != nil {
				w.handOver()
				continue
			}
			if w.now.Before(*w.run.NextRunAt) {
				w.now = *w.run.NextRunAt
			}
			w.wakeUp()
		case Turn:
			w.decide(Turned{})
		case Send:
			w.send()
		default:
			w.t.Fatalf("Next = %d", task)
		}
	}
	w.t.Fatalf("never ends: %+v", w.head)
}

// send makes the call in flight and commits its outcome.
func (w *world) send() {
	if w.crashes("before the call") {
		return
	}
	call := w.run.Call(Defaults{StepTimeout: time.Second})
	w.checkCall(call)
	size := w.run.bodySize(call.Index, call.Action, w.run.outputsSize(), 0)
	if size != len(call.Body) && size != len(call.Body)+1 {
		w.t.Fatalf("the body has %d bytes; it was taken for %d", len(call.Body), size)
	}
	w.calls = append(w.calls, call)
	outcome := w.receive(call)
	if w.crashes("before the answer") {
		return
	}
	if w.chance("checkpoint", 30) && !w.flush() {
		return
	}
	if w.chance("slow", 20) {
		w.meddle("before it is slow")
		if !w.flush() {
			return
		}
		w.decide(Slow{StartedAt: outcome.StartedAt})
		if w.run == nil {
			return // the node has crashed in the meantime
		}
	}
	w.meddle("during the call")
	w.now = outcome.EndedAt
	if len(w.held) > 0 && w.chance("what is held cannot be stored", 5) {
		w.forget()
		return
	}
	w.decide(Answered{outcome})
}

// forget loses the outcomes that the driver holds, and the answer of the call in flight.
func (w *world) forget() {
	w.held = nil
	if w.wakeUp(); w.run != nil {
		w.decide(Forgotten{})
	}
}

// flush writes the held outcomes while the call in flight continues. It returns false if the driver
// is gone, or the saga no longer belongs to it.
func (w *world) flush() bool {
	for len(w.held) > 0 {
		if w.crashes("before the checkpoint") {
			return false
		}
		if w.store(w.held) {
			w.held = nil
			w.happened["saga.checkpoint"]++
			return !w.crashes("after the checkpoint")
		}
		w.stale++
		if w.again(); w.run == nil {
			return false
		}
	}
	return w.run != nil
}

// again reads the saga back after a stale commit, and repeats the decisions on the held outcomes.
func (w *world) again() {
	held := w.held
	w.held = nil
	if w.wakeUp(); w.run == nil {
		return // the saga was ended or reopened by force, which does not concern its driver
	}
	for _, p := range held {
		o, again := p.e.(Passed)
		if !again {
			o = Passed(p.e.(Answered))
		}
		before := *w.run
		c, err := happens(before, o, w.moment())
		if err != nil {
			w.t.Fatalf("%#v once more on %+v: %v", o, before.Saga, err)
		}
		w.hold(decided{o, before, c})
		if before.EndCause != nil {
			w.happened["saga.held through a flag"]++
		}
	}
}

// hold continues from a decision without writing it.
func (w *world) hold(p decided) {
	w.held = append(w.held, p)
	c := w.held[0].c
	for _, p := range w.held[1:] {
		c = c.Then(p.c)
	}
	w.run = &c.After
	w.happened["saga.held"]++
}

// decide applies a driver's event and commits it. If a flag was set in the meantime, the commit is
// stale: the driver then reads the saga again and keeps its event.
func (w *world) decide(e Event) {
	for range 10 {
		before := *w.run
		c, err := happens(before, e, w.moment())
		if err != nil {
			w.t.Fatalf("%#v on %+v: %v", e, before.Saga, err)
		}
		_, answered := e.(Answered)
		if answered && c.Deferrable() && w.chance("held", 70) {
			w.hold(decided{e, before, c})
			return
		}
		if _, slow := e.(Slow); answered && w.chance("release", 15) || !slow && c.After.SuspendedAt != nil {
			c = c.Released(w.now)
		}
		if w.crashes("before the disk") {
			return
		}
		parts := append(w.held, decided{e, before, c}) //nolint:gocritic // held is replaced below
		if !w.store(parts) {
			w.stale++
			if w.again(); w.run == nil {
				return
			}
			continue
		}
		w.held = nil
		if w.crashes("after the disk") {
			return
		}
		w.run = &c.After
		w.run.Version = w.head.Version
		if w.head.LeaseOwner == nil {
			w.run = nil
		}
		return
	}
	w.t.Fatalf("ten stale commits of %#v", e)
}

// meddle lets the API or the reaper act on the saga, regardless of its driver.
func (w *world) meddle(when string) {
	if w.meddlingLeft == 0 || !w.chance("meddle "+when, 12) {
		return
	}
	w.meddlingLeft--
	r := w.load()
	e := w.meddler(&r).Draw(w.t, "event")
	if _, reopens := e.(ResumeRequested); reopens && r.State == Failed {
		return // resumes have their own budget
	}
	c, err := happens(r, e, w.moment())
	if err != nil {
		if fault.KindOf(err) != fault.Conflict {
			w.t.Fatalf("%#v on %+v: %v", e, r.Saga, err)
		}
		return
	}
	if !w.commit(e, r, c) {
		w.t.Fatalf("what was just read is stale: %+v", r.Saga)
	}
}

// meddler draws an action of the API or the reaper on the saga.
func (w *world) meddler(r *Instance) *rapid.Generator[Event] {
	order := func(v OrderVerb) Event {
		return StepOrdered{Step: r.CurrentStep, Order: Order{Verb: v, By: "op", Output: json.RawMessage(`{"by":"hand"}`)}}
	}
	if allows(RetryVerb, r) && w.chance("retry of what waits", 40) {
		return rapid.Just[Event](w.retry(r)) // rarely possible, and therefore tried often
	}
	return rapid.SampledFrom([]Event{
		CancelRequested{By: "user", Reason: "no"}, CompensateRequested{By: "op"}, DeadlinePassed{}, DeadlinePassed{},
		ResumeRequested{By: "op"},
		order(SkipStep), order(CompleteStep), order(FailStep), SuspendRequested{By: "op"}, UnsuspendRequested{},
		DeadlineSet{TimeoutMS: 5000},
		CompletionForced{By: "op"}, FailureForced{By: "op"}, Acknowledged{By: "op"}, Neglected{"no_progress"}, w.retry(r),
	})
}

// retry draws a retry of any kind.
func (w *world) retry(r *Instance) RetryRequested {
	e := RetryRequested{By: "op", Logs: slices.Clone(w.logs)}
	if w.chance("from another step", 40) {
		e.FromStep = new(rapid.IntRange(0, len(w.def.Steps)-1).Draw(w.t, "from"))
	}
	if w.chance("with a patch", 30) {
		e.Patch = json.RawMessage(`{"patched":true}`)
	}
	return e
}

// decided lets an operator decide about a saga that is suspended at a failed step, or lets its
// deadline pass.
func (w *world) decided() bool {
	r := w.load()
	if !r.Stopped() || w.decisionsLeft == 0 {
		return false
	}
	w.decisionsLeft--
	e := w.meddler(&r).Draw(w.t, "decision")
	c, err := happens(r, e, w.moment())
	return err == nil && w.commit(e, r, c)
}

// unsuspend ends a suspension, during which nothing was sent (invariant I15).
func (w *world) unsuspend() {
	r := w.load()
	c, err := happens(r, UnsuspendRequested{}, w.moment())
	if err != nil || !w.commit(UnsuspendRequested{}, r, c) {
		w.t.Fatalf("cannot resume %+v: %v", r.Saga, err)
	}
}

// wakeUp reads the saga again after a wait, as every driver does.
func (w *world) wakeUp() {
	r := w.load()
	if w.run = &r; w.forced(&r) {
		w.run = nil
	}
}

// handOver releases a saga that has no call in flight, as Ownership.Release does.
func (w *world) handOver() {
	if w.head.LeaseOwner != nil {
		w.head.LeaseOwner = nil
		if w.head.NextRunAt == nil {
			w.head.NextRunAt = new(w.now)
		}
		w.head.Version++
		w.changes++
	}
	w.run = nil
}

// forced reports whether the saga was ended or reopened by force while its driver waited for an
// answer.
func (w *world) forced(r *Instance) bool {
	return r.State.Terminal() || r.LeaseOwner == nil || *r.LeaseOwner != w.node
}

// reopened lets an operator resume a failed saga.
func (w *world) reopened() bool {
	if w.head.State != Failed || w.resumesLeft == 0 {
		return false
	}
	w.resumesLeft--
	w.checkEnd() // a dirty end must be consistent while it lasts
	if r := w.load(); r.NeedsAttention && w.chance("acknowledged", 30) {
		if c, err := happens(r, Acknowledged{By: "op"}, w.moment()); err != nil || !w.commit(Acknowledged{}, r, c) {
			w.t.Fatalf("acknowledge: %v", err)
		}
	}
	r := w.load()
	var e Event = ResumeRequested{By: "op"}
	switch {
	case w.chance("retry", 40):
		e = w.retry(&r)
	case w.chance("by hand", 20):
		e = StepOrdered{Step: r.CurrentStep, Order: Order{Verb: SkipStep, By: "op"}}
	case w.chance("undone by hand", 20):
		e = StepOrdered{Step: r.CurrentStep, Order: Order{Verb: UndoneStep, By: "op", Reason: "by hand"}}
	}
	c, err := happens(r, e, w.moment())
	if err != nil {
		e = ResumeRequested{By: "op"}
		c, err = happens(r, e, w.moment())
	}
	if r.bound() && err != nil {
		e = RetryRequested{By: "op", Logs: slices.Clone(w.logs)}
		c, err = happens(r, e, w.moment())
	}
	if err != nil {
		w.t.Fatalf("resume: %v", err)
	}
	return w.commit(e, r, c)
}
