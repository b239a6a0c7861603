package engine

import (
	"time"

	"github.com/skald-saga/skald/internal/saga"
)

// held contains the outcomes of steps with checkpoint: false that are not written yet (decision
// 0157). It belongs to one drive, which writes it with its next commit, or after Config.Checkpoint
// at the latest. If the node dies, its saga is taken over as if those calls had been in flight. A
// drive that ends while its session continues must have written it.
type held struct {
	change saga.Change // all held outcomes combined
	passed []saga.Passed
	since  time.Time
}

// with combines the held change and c, which follows it, into one change.
func (h *held) with(c saga.Change) saga.Change {
	if h == nil {
		return c
	}
	return h.change.Then(c)
}

// and adds c, which the outcome o caused, to the held outcomes and returns the result.
func (h *held) and(c saga.Change, o saga.Outcome, now time.Time) *held {
	if h == nil {
		return &held{change: c, passed: []saga.Passed{{Outcome: o}}, since: now}
	}
	return &held{change: h.with(c), passed: append(h.passed, saga.Passed{Outcome: o}), since: h.since}
}

// again repeats the decisions on the held outcomes on top of a change that was written in between.
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

// due returns how much longer the outcomes may be held; is is false if nothing is held.
func (h *held) due(most time.Duration, now time.Time) (left time.Duration, is bool) {
	if h == nil {
		return 0, false
	}
	return max(h.since.Add(most).Sub(now), 0), true
}
