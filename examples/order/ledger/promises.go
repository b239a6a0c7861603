package ledger

import (
	"net/http"
	"slices"
	"time"
)

// checkCalls checks the calls of each (step, action) for stable keys and bodies, increasing
// attempts and bounded repetition (I7, I8), and those of the whole saga for a single driver at a
// time (I6).
func (h *history) checkCalls() {
	for _, s := range h.steps {
		h.checkRepetition(s.name, s.executes, h.MaxExecutes)
		h.checkRepetition(s.name, s.undos, h.MaxCompensates)
	}
	var newest Entry
	for i, e := range h.calls {
		if e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity {
			h.add("contract", h.id, e.Step, "%s seq %d broke the contract: answered %d", e.Action, e.Seq, e.Status)
		}
		if i == 0 || e.Fence > newest.Fence {
			newest = e
		} else if e.Fence < newest.Fence && !h.overtaken(e, newest.Time) {
			h.add("I6", h.id, e.Step, "%s seq %d carries fence %d after %d", e.Action, e.Seq, e.Fence, newest.Fence)
		}
	}
}

// overtaken reports whether e may have been sent before a call that was noticed earlier, at since.
func (h *history) overtaken(e Entry, since time.Time) bool {
	return h.Reorder > 0 && e.Time.Sub(since) <= h.Reorder
}

func (h *history) checkRepetition(step string, calls []Entry, limit int) {
	if len(calls) == 0 {
		return
	}
	first, highest := calls[0], calls[0]
	attempts := map[int][]Entry{first.Attempt: calls[:1]}
	for i, e := range calls[1:] {
		if e.Key != first.Key {
			h.add("I7", h.id, step, "%s attempt %d has key %q, but the first had %q", e.Action, e.Attempt, e.Key, first.Key)
		}
		if e.BodySHA256 != first.BodySHA256 {
			h.add("I7", h.id, step, "%s attempt %d has a different body from the first", e.Action, e.Attempt)
		}
		switch {
		case e.Attempt > highest.Attempt:
			highest = e
		case attempts[e.Attempt] != nil:
			if !h.sentOnceMore(attempts[e.Attempt], e) {
				h.add("I7", h.id, step, "%s attempt %d was sent again", e.Action, e.Attempt)
			}
		case !h.overtaken(e, highest.Time):
			h.add("I7", h.id, step, "%s attempt %d came after attempt %d", e.Action, e.Attempt, highest.Attempt)
		}
		attempts[e.Attempt] = append(slices.Clip(attempts[e.Attempt]), e)
		if before := calls[i]; h.Calm && before.Reply == Sent && (before.Done() || before.Refused()) {
			h.add("I8", h.id, step, "%s was repeated although attempt %d was answered with %d",
				e.Action, before.Attempt, before.Status)
		}
	}
	if limit > 0 && len(attempts) > limit {
		h.add("I8", h.id, step, "%s was called %d times, but at most %d calls are allowed", first.Action, len(attempts), limit)
	}
}

// sentOnceMore reports whether e may be the second transmission of an attempt: a caller may send
// the same bytes again if its connection breaks before an answer arrives.
func (h *history) sentOnceMore(before []Entry, e Entry) bool {
	return len(before) == 1 && before[0].Fence == e.Fence && (!h.Calm || before[0].Reply == Dropped)
}

// checkOrder checks the direction of the saga: forward only past steps that answered (I3), backward
// only past steps that are undone (I4), and never forward again (I5).
func (h *history) checkOrder() {
	for i := 1; i < len(h.steps); i++ {
		s, before := h.steps[i], h.steps[i-1]
		seq, called := s.touched()
		if slices.Contains(h.end.Ahead, before.name) {
			seq, called = first(s.executes)
		}
		if called && !doneBefore(before.executes, seq) {
			h.add("I3", h.id, s.name, "was called before step %s had answered with success", before.name)
		}
	}
	for i, s := range h.steps {
		if len(s.undos) == 0 {
			continue
		}
		for _, later := range h.steps[i+1:] {
			owed := later.hasUndo && later.mayHaveHappened() || len(later.undos) > 0
			if owed && !doneBefore(later.undos, s.undos[0].Seq) {
				h.add("I4", h.id, s.name, "was compensated before the later step %s was", later.name)
			}
		}
	}
	turn := slices.IndexFunc(h.calls, func(e Entry) bool { return e.Action == Compensate })
	if turn < 0 {
		return
	}
	for _, e := range h.calls[turn:] {
		if e.Action == Execute && (h.appliedAfterItsUndo(e) || !h.overtaken(e, h.calls[turn].Time)) {
			h.add("I5", h.id, e.Step, "execute attempt %d came after compensation had begun", e.Attempt)
		}
	}
}

// appliedAfterItsUndo reports whether e took effect although a compensation of its step had been
// received and had found no effect. Entries are numbered by arrival, and a call that waits in the
// participant is decided after calls that arrived later. A compensation that found the effect was
// decided after it.
func (h *history) appliedAfterItsUndo(e Entry) bool {
	return e.Effect == Applied && !slices.ContainsFunc(h.calls, func(c Entry) bool {
		return c.Action == Compensate && c.Step == e.Step && c.Seq < e.Seq && c.Effect == Applied
	})
}

// checkEnd compares the remaining effects with the outcome that the orchestrator reports (I2), and
// the compensations that were called with those that were owed (I4).
func (h *history) checkEnd() {
	switch h.end.Outcome {
	case Completed, Compensated, Dirty:
	default:
		h.add("input", h.id, "", "outcome %q is not one of the three", h.end.Outcome)
		return
	}
	for _, s := range h.steps {
		if s.nApplied > 1 {
			h.add("I2", h.id, s.name, "was applied %d times", s.nApplied)
		}
		if s.nUndone > 1 {
			h.add("I2", h.id, s.name, "was undone %d times", s.nUndone)
		}
		if h.end.Outcome == Completed {
			h.checkCompletedStep(s)
			continue
		}
		if len(s.undos) > 0 && !s.hasUndo {
			h.add("I4", h.id, s.name, "was compensated although it has no compensation")
		}
		if len(s.undos) > 0 && h.Calm && len(s.executes) > 0 && !slices.ContainsFunc(s.executes, inDoubt) {
			h.add("I4", h.id, s.name, "was compensated although it was refused")
		}
		if h.end.Outcome == Compensated {
			h.checkCompensatedStep(s)
		}
	}
}

// inDoubt reports whether, on a calm day, the caller cannot be certain that e changed nothing.
func inDoubt(e Entry) bool { return e.Reply != Sent || !e.Refused() || e.Effect == RefusedLate }

func (h *history) checkCompletedStep(s stepHistory) {
	switch {
	case s.nApplied == 0:
		h.add("I2", h.id, s.name, "was never applied, yet the saga completed")
	case s.nUndone > 0:
		h.add("I2", h.id, s.name, "was undone, yet the saga completed")
	}
	if len(s.undos) > 0 {
		h.add("I4", h.id, s.name, "was compensated, yet the saga completed")
	}
}

func (h *history) checkCompensatedStep(s stepHistory) {
	if !s.hasUndo {
		return
	}
	answered := slices.ContainsFunc(s.undos, Entry.Done)
	switch {
	case s.nApplied > s.nUndone:
		h.add("I2", h.id, s.name, "is still applied, yet the saga was compensated")
	case s.mayHaveHappened() && len(s.undos) == 0:
		h.add("I4", h.id, s.name, "may have been applied and was not compensated")
	case len(s.undos) > 0 && !answered:
		h.add("I4", h.id, s.name, "no compensation was answered with success, yet the saga was compensated")
	}
}
