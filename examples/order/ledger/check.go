package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Outcome is how the orchestrator says a saga ended.
type Outcome string

const (
	// Completed means that every step was done.
	Completed Outcome = "completed"
	// Compensated means that it failed, was canceled or ran out of time, and
	// that everything was undone.
	Compensated Outcome = "compensated"
	// Dirty means that an undo gave up: effects may remain, and the
	// orchestrator says so.
	Dirty Outcome = "dirty"
)

// SagaEnd is what the orchestrator says about one saga once it has ended.
type SagaEnd struct {
	Outcome Outcome
	// Steps are the names of the workflow's steps in their order, all of which
	// call participants of the checked ledger. Required.
	Steps []string
	// WithoutUndo names the steps registered with compensation: none. They must
	// never be compensated, and their effects may outlive a compensated saga.
	WithoutUndo []string
	// Ahead names the steps registered with checkpoint: false. A saga whose
	// node was lost may be compensated from beyond them, though no answer of
	// theirs is known and the steps after them were never called.
	Ahead []string
}

// Violation is a broken promise, with the call or calls that show it.
type Violation struct {
	// Invariant is the promise: I0 accepted is durable, I2 all or nothing,
	// I3 forward order, I4 compensation set and order, I5 no way back, I6 one
	// driver, I7 stable keys, I8 bounded repetition; "contract" when a
	// participant could not accept a call as sent; "input" when the checker was
	// given something that it cannot judge.
	Invariant string
	Saga      string
	Step      string // empty when the whole saga is meant
	Detail    string
}

func (v Violation) String() string {
	if v.Step == "" {
		return fmt.Sprintf("%s: saga %s: %s", v.Invariant, v.Saga, v.Detail)
	}
	return fmt.Sprintf("%s: saga %s, step %s: %s", v.Invariant, v.Saga, v.Step, v.Detail)
}

// Checker judges ledgers. Its zero value allows for crashes and lost replies
// at any moment, and for nothing that these cannot explain.
type Checker struct {
	// Reorder is how long a call may have waited at the participant before its
	// arrival was noticed. On an overloaded machine a call that its caller gave
	// up can be noticed after the next one; within Reorder this is not held
	// against the orchestrator. Zero means that calls are noticed as sent.
	Reorder time.Duration
	// MaxExecutes and MaxCompensates bound the calls of one (saga, step,
	// action): the policy's max_attempts plus the crashes and takeovers of the
	// run. Zero means no bound.
	MaxExecutes, MaxCompensates int
	// Calm says that no caller died and none gave up waiting, so that every
	// answer recorded as sent was received. Then no call may repeat one that
	// was answered, and no step that was refused may be compensated.
	Calm bool
}

// Check judges entries with the zero [Checker].
func Check(entries []Entry, want map[string]SagaEnd) []Violation {
	return Checker{}.Check(entries, want)
}

// Check compares the entries of one ledger, in any order, with the ends that
// the orchestrator reports, keyed by saga id, after it came to rest. It returns
// the violations it finds, ordered by saga; none is good news. Every saga in
// the ledger must be in want: a call for a saga that the orchestrator does not
// know was made before the saga was durable.
func (c Checker) Check(entries []Entry, want map[string]SagaEnd) []Violation {
	calls := slices.Clone(entries)
	slices.SortStableFunc(calls, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })

	v := &verdict{}
	v.checkLedger(calls)
	bySaga := map[string][]Entry{}
	for _, e := range calls {
		bySaga[e.Saga] = append(bySaga[e.Saga], e)
	}
	ids := slices.AppendSeq(slices.Collect(maps.Keys(want)), maps.Keys(bySaga))
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		end, known := want[id]
		if !known {
			v.add("I0", id, "", "calls were received for an unknown saga: %d", len(bySaga[id]))
			continue
		}
		v.checkSaga(c, id, end, bySaga[id])
	}
	return v.found
}

// verdict collects violations.
type verdict struct{ found []Violation }

func (v *verdict) add(invariant, saga, step, format string, args ...any) {
	v.found = append(v.found, Violation{invariant, saga, step, fmt.Sprintf(format, args...)})
}

// checkLedger looks at what concerns no single saga: one file, one numbering,
// and no key shared by two calls.
func (v *verdict) checkLedger(calls []Entry) {
	type owner struct {
		saga, step string
		action     Action
	}
	owners := map[string]owner{}
	for i, e := range calls {
		if i > 0 && e.Seq == calls[i-1].Seq {
			v.add("input", e.Saga, e.Step, "seq %d is used twice: the entries come from more than one ledger", e.Seq)
		}
		mine := owner{e.Saga, e.Step, e.Action}
		first, seen := owners[e.Key]
		if !seen {
			owners[e.Key] = mine
		} else if first != mine {
			v.add("I7", e.Saga, e.Step, "key %q of the %s belongs to the %s of saga %s, step %s",
				e.Key, e.Action, first.action, first.saga, first.step)
		}
	}
}

// history is what the ledger holds of one saga.
type history struct {
	Checker
	*verdict
	id    string
	end   SagaEnd
	calls []Entry // all of the saga, by arrival
	steps []stepHistory
}

// stepHistory is what the ledger holds of one step, by arrival.
type stepHistory struct {
	name     string
	executes []Entry
	undos    []Entry
	hasUndo  bool // the workflow defines a compensation
	nApplied int  // executes that did their work
	nUndone  int  // compensates that undid it
}

// touched returns the arrival of the first call of the step.
func (s stepHistory) touched() (seq int64, called bool) {
	return first(slices.Concat(s.executes, s.undos))
}

// first returns the arrival of the first of calls.
func first(calls []Entry) (seq int64, called bool) {
	for _, e := range calls {
		if !called || e.Seq < seq {
			seq, called = e.Seq, true
		}
	}
	return seq, called
}

// mayHaveHappened reports whether the orchestrator owes an undo: some call of
// the step got no answer that it was refused. The refusal of another call does
// not make up for it: it may come from a gateway in front of the participant.
func (s stepHistory) mayHaveHappened() bool {
	return s.nApplied > 0 || slices.ContainsFunc(s.executes, func(e Entry) bool { return !e.Refused() && !e.Patient() })
}

// doneBefore reports whether one of calls was answered with success and had
// arrived before seq.
func doneBefore(calls []Entry, seq int64) bool {
	return slices.ContainsFunc(calls, func(e Entry) bool { return e.Done() && e.Seq < seq })
}

func (v *verdict) checkSaga(c Checker, id string, end SagaEnd, calls []Entry) {
	h := history{Checker: c, verdict: v, id: id, end: end, calls: calls}
	if len(end.Steps) == 0 {
		h.add("input", id, "", "the saga's end names no steps")
		return
	}
	h.sortCalls()
	h.checkCalls()
	h.checkOrder()
	h.checkEnd()
}

// sortCalls hands each call to its step.
func (h *history) sortCalls() {
	index := map[string]int{}
	for i, name := range h.end.Steps {
		index[name] = i
		h.steps = append(h.steps, stepHistory{name: name, hasUndo: !slices.Contains(h.end.WithoutUndo, name)})
	}
	for _, e := range h.calls {
		i, known := index[e.Step]
		if !known {
			h.add("I4", h.id, e.Step, "received a call for a step that the workflow does not have")
			continue
		}
		s := &h.steps[i]
		switch e.Action {
		case Execute:
			s.executes = append(s.executes, e)
			if e.Effect == Applied {
				s.nApplied++
			}
		case Compensate:
			s.undos = append(s.undos, e)
			if e.Effect == Applied {
				s.nUndone++
			}
		default:
			h.add("input", h.id, e.Step, "action %q is neither execute nor compensate", e.Action)
		}
	}
}
