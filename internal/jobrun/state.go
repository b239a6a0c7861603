// Package jobrun contains the rules of job runs: valid definitions, the states of a run
// and who may change them, retries, and the answer to a worker's call that comes too
// late (seed 5, 004_*; requirements/jobrun.md). The package is pure: it stores nothing,
// and time, ids and randomness are arguments.
//
// Files, each on top of those before it: definition, state, run, problems, settings,
// admit, leader, events, worker, store, input, new, args, ends, backfill, check, sweep,
// apply, audited, builtin, bulk, claim, damage, deliver, emit, explain, hints, logline,
// outbox, plan, follow, program, records, history.
package jobrun

import "slices"

// State is where a run stands.
type State string

// States, in seed 5's words.
const (
	Pending   State = "PENDING"  // not with a worker yet
	Assigned  State = "ASSIGNED" // promised to a worker, which has not started it
	Running   State = "RUNNING"
	Orphaned  State = "ORPHANED" // its worker is gone; another attempt may follow
	Succeeded State = "SUCCEEDED"
	Failed    State = "FAILED"
	TimedOut  State = "TIMED_OUT"
	Canceled  State = "CANCELED"
	Skipped   State = "SKIPPED" // never started, on purpose
)

// States is every state.
var States = []State{Pending, Assigned, Running, Orphaned, Succeeded, Failed, TimedOut, Canceled, Skipped}

// ActiveStates are the states of runs that have not ended.
var ActiveStates = []State{Pending, Assigned, Running, Orphaned}

// TerminalStates are the states of runs that never change again.
var TerminalStates = slices.DeleteFunc(slices.Clone(States), func(s State) bool { return !s.Terminal() })

// HoldingStates are the states of runs that hold their concurrency key whether or not they
// were admitted: a worker has them, or they may be assigned again.
var HoldingStates = []State{Assigned, Running, Orphaned}

// UnsuccessfulStates are the states of runs that were executed, or were to be, and ended
// without success.
var UnsuccessfulStates = []State{Failed, TimedOut, Canceled}

// Terminal reports whether runs of this state never change again (J-15).
func (s State) Terminal() bool { return !slices.Contains(ActiveStates, s) }

// Continuation says whether a RUNNING run is in doubt (J-16). It is not a state,
// because a confirmed run simply continues and no state is ever left backwards.
type Continuation string

// Continuations.
const (
	NoDoubt    Continuation = "NONE"
	Confirming Continuation = "CONFIRMING" // its lease expired; no other worker gets it before the deadline
)

// Trigger is why a run exists.
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

// Triggers is every trigger.
var Triggers = []Trigger{ByTime, ByEvent, ByHand, ByRetry, ByBackfill, BySaga, ByLetter}

// Mover is who may make a move.
type Mover string

// Movers.
const (
	Worker   Mover = "worker"   // the holder of the fence
	Leader   Mover = "leader"   // the holder of the present epoch
	Operator Mover = "operator" // a person, through the API
)

// Edge is one legal move.
type Edge struct {
	From, To State
	By       []Mover
}

// Edges is the transition table (J-06 to J-15, completed by S2, S6, S7, S9): what
// is not in it does not happen. The database refuses the rest too (migration 0112).
var Edges = []Edge{
	{Pending, Assigned, []Mover{Worker}}, // it asks; any node assigns under the present epoch
	{Pending, Canceled, []Mover{Operator, Leader}},
	{Pending, Skipped, []Mover{Leader, Operator}}, // an operator by changing its schedule
	{Assigned, Running, []Mover{Worker}},
	{Assigned, Orphaned, []Mover{Leader, Worker, Operator}}, // its lease ran out; given back; reassigned
	{Assigned, Canceled, []Mover{Operator, Leader}},
	{Assigned, Skipped, []Mover{Leader}},
	{Running, Succeeded, []Mover{Worker}},
	{Running, Failed, []Mover{Worker}},
	{Running, TimedOut, []Mover{Worker, Leader}},
	{Running, Canceled, []Mover{Worker, Leader, Operator}},
	{Running, Orphaned, []Mover{Leader, Worker, Operator}},
	{Orphaned, Assigned, []Mover{Worker}},
	{Orphaned, Failed, []Mover{Leader}}, // no assignment left
	{Orphaned, TimedOut, []Mover{Leader}},
	{Orphaned, Canceled, []Mover{Operator, Leader}},
}

// CanMove reports whether the table has the move.
func CanMove(from, to State, by Mover) bool {
	return slices.Contains(From(to, by), from)
}

// From returns the states from which by may move a run to a state, in the table's
// order. Statements that change many rows at once take their conditions from it.
func From(to State, by Mover) []State {
	var out []State
	for _, e := range Edges {
		if e.To == to && slices.Contains(e.By, by) {
			out = append(out, e.From)
		}
	}
	return out
}

// Phase is the state as indexes distinguish it (column phase): a run that is with a
// worker is HELD, whether started or not.
type Phase string

// Held is the phase of runs that are with a worker.
const Held Phase = "HELD"

// Phase returns the phase of a state.
func (s State) Phase() Phase {
	if s == Assigned || s == Running {
		return Held
	}
	return Phase(s)
}

// Phases returns the phases of states, each once, in their order.
func Phases(states []State) []Phase {
	var out []Phase
	for _, s := range states {
		if p := s.Phase(); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
