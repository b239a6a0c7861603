package jobrun

import "slices"

// ActiveStates are the states of runs that have not ended.
var ActiveStates = []State{Pending, Assigned, Running, Orphaned}

// TerminalStates are the states of runs that never change again.
var TerminalStates = slices.DeleteFunc(slices.Clone(States), func(s State) bool { return !s.Terminal() })

// HoldingStates are the states in which runs hold their concurrency key whether or not they were
// admitted: a worker holds them, or they may be assigned again.
var HoldingStates = []State{Assigned, Running, Orphaned}

// UnsuccessfulStates are the states of runs that ended without success, except SKIPPED.
var UnsuccessfulStates = []State{Failed, TimedOut, Canceled}

// Terminal reports whether runs of this state never change again (J-15).
func (s State) Terminal() bool { return !slices.Contains(ActiveStates, s) }

// Continuation says whether a RUNNING run is in doubt (J-16). It is not a state, because a
// confirmed run simply continues and runs never return to an earlier state.
type Continuation string

// Continuations.
const (
	NoDoubt    Continuation = "NONE"
	Confirming Continuation = "CONFIRMING" // its lease expired; no other worker gets it before the deadline
)

// Trigger is what created a run.
type Trigger string

// Triggers.
const (
	ByTime     Trigger = "TIME"
	ByEvent    Trigger = "EVENT"
	ByHand     Trigger = "MANUAL"
	ByRetry    Trigger = "RETRY"
	ByBackfill Trigger = "BACKFILL"
	BySaga     Trigger = "SAGA"
	ByLetter   Trigger = "DLQ"
)

// Triggers lists all triggers.
var Triggers = []Trigger{ByTime, ByEvent, ByHand, ByRetry, ByBackfill, BySaga, ByLetter}

// Phase is a group of states that indexes do not distinguish (column phase). For example, a run
// that a worker holds is HELD, whether or not it was started.
type Phase string

// Held is the phase of runs that a worker holds.
const Held Phase = "HELD"

// Phase returns the phase of a state.
func (s State) Phase() Phase {
	if s == Assigned || s == Running {
		return Held
	}
	return Phase(s)
}

// Phases returns the distinct phases of states, in order.
func Phases(states []State) []Phase {
	var out []Phase
	for _, s := range states {
		if p := s.Phase(); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
