package saga

import (
	"time"

	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/fault"
)

// drive interprets the rules as the engine does, until the saga has ended and
// nobody reopens it. Nodes crash and are replaced, the API and the reaper meddle.
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
			w.claim()
		}
		switch task := w.run.Next(w.now); task {
		case Rest:
			w.run = nil
		case Wait:
			if w.crashes("while waiting") {
				continue
			}
			w.now = *w.run.NextRunAt
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
	w.calls = append(w.calls, call)
	outcome := w.receive(call)
	if w.crashes("before the answer") {
		return
	}
	if w.chance("slow", 20) {
		w.meddle("before it is slow")
		w.decide(Slow{StartedAt: outcome.StartedAt})
		if w.run == nil {
			return // crashed meanwhile
		}
	}
	w.meddle("during the call")
	w.now = outcome.EndedAt
	w.decide(Answered{outcome})
}

// decide applies a driver's event and commits it. A flag that was set
// meanwhile makes the commit stale: the driver reads again, and keeps its event.
func (w *world) decide(e Event) {
	for range 10 {
		before := *w.run
		c, err := Apply(before, e, w.moment())
		if err != nil {
			w.t.Fatalf("%#v on %+v: %v", e, before.Saga, err)
		}
		if _, answered := e.(Answered); answered && w.chance("release", 15) {
			c.Release(w.now)
		}
		if w.crashes("before the disk") {
			return
		}
		if !w.commit(e, before, c) {
			w.stale++
			w.run = new(w.load())
			continue
		}
		if w.crashes("after the disk") {
			return
		}
		w.run = &c.After
		if w.head.LeaseOwner == nil {
			w.run = nil
		}
		return
	}
	w.t.Fatalf("ten stale commits of %#v", e)
}

// meddle lets the API or the reaper do something to the saga, whoever drives it.
func (w *world) meddle(when string) {
	if w.meddlingLeft == 0 || !w.chance("meddle "+when, 8) {
		return
	}
	w.meddlingLeft--
	r := w.load()
	e := rapid.SampledFrom([]Event{
		CancelRequested{By: "user", Reason: "no"}, CompensateRequested{By: "op"}, DeadlinePassed{}, DeadlinePassed{}, ResumeRequested{By: "op"},
	}).Draw(w.t, "event")
	if _, reopens := e.(ResumeRequested); reopens && r.State == Failed {
		return // that has its own budget
	}
	c, err := Apply(r, e, w.moment())
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

// reopened lets an operator resume a failed saga.
func (w *world) reopened() bool {
	if w.head.State != Failed || w.resumesLeft == 0 {
		return false
	}
	w.resumesLeft--
	w.checkEnd() // a dirty end must be right while it lasts
	r := w.load()
	c, err := Apply(r, ResumeRequested{By: "op"}, w.moment())
	if err != nil {
		w.t.Fatalf("resume: %v", err)
	}
	return w.commit(ResumeRequested{}, r, c)
}
