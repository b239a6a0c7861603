package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Outcome is how a saga ended according to the orchestrator.
type Outcome string

const (
	// Completed means that every step was done.
	Completed Outcome = "completed"
	// Compensated means that the saga failed, was canceled or timed out, and that every effect was
	// undone.
	Compensated Outcome = "compensated"
	// Dirty means that a compensation was given up: effects may remain, and the orchestrator
	// reports that.
	Dirty Outcome = "dirty"
)

// SagaEnd is what the orchestrator reports about one saga after it has ended.
type SagaEnd struct {
	Outcome Outcome
	// Steps are the names of the workflow's steps in order. All of them call participants of the
	// checked ledger. Required.
	Steps []string
	// WithoutUndo names the steps registered with compensation: none. They must
	// never be compensated, and their effects may outlive a compensated saga.
	WithoutUndo []string
	// Ahead names the steps registered with checkpoint: false. If a saga's node was lost, its
	// compensation may start beyond these steps, although no answer of theirs is known and the
	// steps after them were never called.
	Ahead []string
}

// Violation is a broken promise, with the call or calls that show it.
type Violation struct {
	// Invariant is the broken promise: I0 accepted is durable, I2 all or nothing, I3 forward order,
	// I4 compensation set and order, I5 no return to the forward direction, I6 one driver, I7
	// stable keys, I8 bounded repetition; "contract" if a participant could not accept a call as
	// sent; "input" if the checker was given something that it cannot judge.
	Invariant string
	Saga      string
	Step      string // empty if the violation concerns the whole saga
	Detail    string
}

func (v Violation) String() string {
	if v.Step == "" {
		return fmt.Sprintf("%s: saga %s: %s", v.Invariant, v.Saga, v.Detail)
	}
	return fmt.Sprintf("%s: saga %s, step %s: %s", v.Invariant, v.Saga, v.Step, v.Detail)
}

// Checker judges ledgers. Its zero value allows for crashes and lost replies at any moment, and
// reports whatever they cannot explain.
type Checker struct {
	// Reorder is how long a call may have waited at the participant before its arrival was noticed.
	// On an overloaded machine, a call whose caller has given up can be noticed after the next
	// call; within Reorder, this is not a violation. Zero means that calls are noticed in the order
	// in which they were sent.
	Reorder time.Duration
	// MaxExecutes and MaxCompensates bound the calls of one (saga, step,
	// action): the policy's max_attempts plus the crashes and takeovers of the
	// run. Zero means no bound.
	MaxExecutes, MaxCompensates int
	// Calm states that no caller died and none stopped waiting, so every answer recorded as sent
	// was received. Then no answered call may be repeated, and no refused step may be compensated.
	Calm bool
}

// Check judges entries with the zero [Checker].
func Check(entries []Entry, want map[string]SagaEnd) []Violation {
	return Checker{}.Check(entries, want)
}

// Check compares the entries of one ledger, in any order, with the ends of the sagas that the
// orchestrator, once idle, reports by saga id. It returns the violations ordered by saga; an empty
// result means that no promise was broken. Every saga in the ledger must be in want: a call for a
// saga that the orchestrator does not know was made before the saga was durable.
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

// checkLedger checks what concerns the ledger as a whole: one file, one numbering, and no key
// shared by two calls.
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

// history is what the ledger contains about one saga.
type history struct {
	Checker
	*verdict
	id    string
	end   SagaEnd
	calls []Entry // all calls of the saga, by arrival
	steps []stepHistory
}

// stepHistory is what the ledger contains about one step, by arrival.
type stepHistory struct {
	name     string
	executes []Entry
	undos    []Entry
	hasUndo  bool // the workflow defines a compensation
	nApplied int  // executes that took effect
	nUndone  int  // compensates that undid an effect
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

// mayHaveHappened reports whether the orchestrator owes a compensation: at least one call of the
// step got no answer that refused it. The refusal of another call does not change that, because it
// may come from a gateway in front of the participant.
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

// sortCalls assigns each call to its step.
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
