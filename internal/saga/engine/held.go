package engine

import (
	"time"

	"github.com/skald-saga/skald/internal/saga"
)

// held is the outcomes of steps with checkpoint: false that are not written yet (decision 0157). It belongs to one
// drive, which writes it together with whatever comes next, or after Config.Checkpoint at the latest. If the node
// dies, its saga is taken over as if the calls had been in flight. A drive that ends while its session goes on must
// have written it.
type held struct {
	change saga.Change // all of it in one
	passed []saga.Passed
	since  time.Time
}

// with returns the one change that writes what is held and c, which follows it.
func (h *held) with(c saga.Change) saga.Change {
	if h == nil {
		return c
	}
	return h.change.Then(c)
}

// and returns what is held once c, which an outcome has caused, is held as well.
func (h *held) and(c saga.Change, o saga.Outcome, now time.Time) *held {
	if h == nil {
		return &held{change: c, passed: []saga.Passed{{Outcome: o}}, since: now}
	}
	return &held{change: h.with(c), passed: append(h.passed, saga.Passed{Outcome: o}), since: h.since}
}

// again decides once more on the outcomes that are held, because something else was written in between.
func (h *held) again(run saga.Instance, m saga.Moment) (*held, error) {
	var onto *held
	for _, p := range h.passed {
		c, err := saga.Apply(run, p, m)
		if err != nil {
			return nil, err
		}
		onto = onto.and(c, p.Outcome, h.since)
		run = onto.change.After
	}
	return onto, nil
}

// due returns how long it may still be held; is is false if nothing is held.
func (h *held) due(most time.Duration, now time.Time) (left time.Duration, is bool) {
	if h == nil {
		return 0, false
	}
	return max(h.since.Add(most).Sub(now), 0), true
}
