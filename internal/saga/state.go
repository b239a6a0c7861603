// Package saga contains the rules of sagas: their states and transitions, what a
// participant's answer changes, and the contract that every store implements.
//
// Pure: no I/O, clock, randomness or goroutines. Time, ids and jitter come in as a
// Moment; a decision comes out as a Change, which a store writes completely if its
// precondition still holds, and otherwise not at all.
//
// Files, each on top of those before it: problems, state, attention, interventions, saga, outcome, record, run,
// audit, budget, event, actions, filter, step_decision, apply, explain, new, store,
// archive, attempts, faults, letter, patch, failure_summary, damage, doubt, erased, force,
// dry_run, job, note, reopen, statistics, steps.
package saga

import "slices"

// State is seed 2's integer state (section "状态枚举值"), the stored truth. Status and
// Lifecycle are derived from it.
type State int16

// States, with seed 2's numbers.
const (
	Pending       State = 0 // accepted, durable
	Running       State = 1 // a step is in flight, or waits for its next attempt
	StepCompleted State = 2 // between steps, not driven right now
	Completed     State = 3 // every step done
	Compensating  State = 4 // compensating, in exact reverse order
	Compensated   State = 5 // failed, everything undone
	Failed        State = 6 // a compensation gave up: effects may remain
	Cancelled     State = 7 // cancelled by a user, everything undone
	TimedOut      State = 8 // deadline passed, everything undone
)

// States lists every state in order of its number.
var States = []State{Pending, Running, StepCompleted, Completed, Compensating, Compensated, Failed, Cancelled, TimedOut}

var names = [...]string{
	"pending",
	"running",
	"step_completed",
	"completed",
	"compensating",
	"compensated",
	"failed",
	"cancelled",
	"timed_out",
}

// String returns the API's name of the state.
func (s State) String() string { return names[s] }

// ParseState is the inverse of String.
func ParseState(name string) (State, bool) {
	i := slices.Index(names[:], name)
	return State(i), i >= 0
}

// Terminal reports whether the engine never leaves the state on its own. Failed is terminal, but an
// operator may reopen it.
func (s State) Terminal() bool {
	switch s {
	case Completed, Compensated, Failed, Cancelled, TimedOut:
		return true
	}
	return false
}

// Forward reports whether steps are still being executed.
func (s State) Forward() bool { return s == Pending || s == Running || s == StepCompleted }

// Status is seed 1's six-word status.
type Status string

// Statuses of seed 1.
const (
	StatusStarted      Status = "STARTED"
	StatusRunning      Status = "RUNNING"
	StatusCompleted    Status = "COMPLETED"
	StatusCompensating Status = "COMPENSATING"
	StatusFailed       Status = "FAILED"
	StatusCancelled    Status = "CANCELLED"
)

// Statuses lists seed 1's words in its order.
var Statuses = []Status{
	StatusStarted,
	StatusRunning,
	StatusCompleted,
	StatusCompensating,
	StatusFailed,
	StatusCancelled,
}

// Status maps the state to seed 1's word (requirements/saga.md 5.3).
func (s State) Status() Status {
	switch s {
	case Pending:
		return StatusStarted
	case Running, StepCompleted:
		return StatusRunning
	case Completed:
		return StatusCompleted
	case Compensating:
		return StatusCompensating
	case Cancelled:
		return StatusCancelled
	}
	return StatusFailed
}

// StatesOf returns the states behind one of seed 1's words.
func StatesOf(status Status) []State {
	var out []State
	for _, s := range States {
		if s.Status() == status {
			out = append(out, s)
		}
	}
	return out
}

// Active reports whether a saga is at work, as seed 2's view active_sagas has it: started,
// and not ended.
func (s State) Active() bool { return s != Pending && !s.Terminal() }

// Lifecycle is seed 4's four-word status. clean is Saga.Clean.
func (s State) Lifecycle(clean bool) string {
	switch {
	case s.Forward():
		return "active"
	case s == Compensating:
		return "compensating"
	case s == Failed, s != Completed && !clean:
		return "failed"
	}
	return "completed"
}

// Trigger says why an edge is taken.
type Trigger string

// Triggers of the transition table.
const (
	Dispatch   Trigger = "dispatch"               // a step is sent
	StepDone   Trigger = "step done"              // its outcome is committed and more remain
	AllDone    Trigger = "all steps done"         //
	NothingRan Trigger = "ended before a step"    // cancel or deadline before anything ran
	TurnBack   Trigger = "begin compensating"     // refused, given up, cancelled, deadline, operator
	AllUndone  Trigger = "all compensated"        //
	UndoGaveUp Trigger = "a compensation gave up" //
	Resume     Trigger = "resume compensation"    // operator
	Retry      Trigger = "retry"                  // operator
	Restart    Trigger = "compensated as far as the retry needs"
	Forced     Trigger = "by force" // operator
)

// Edge is one legal transition.
type Edge struct {
	From, To State
	On       Trigger
}

// Edges is the complete transition table (requirements/saga.md 5.4). Apply takes no
// other transition; one commit may take several, for example a step's outcome and the
// dispatch of the next step.
var Edges = []Edge{
	{Pending, Running, Dispatch},
	{Pending, Cancelled, NothingRan},
	{Pending, TimedOut, NothingRan},
	{Pending, Compensated, NothingRan},
	{Running, StepCompleted, StepDone},
	{StepCompleted, Running, Dispatch},
	{Running, Completed, AllDone},
	{Running, Compensating, TurnBack},
	{StepCompleted, Compensating, TurnBack},
	{Compensating, Compensated, AllUndone},
	{Compensating, Cancelled, AllUndone},
	{Compensating, TimedOut, AllUndone},
	{Compensating, Failed, UndoGaveUp},
	{Failed, Compensating, Resume},
	{StepCompleted, Completed, Forced},
	{Running, Failed, Forced},
	{StepCompleted, Failed, Forced},
	{Failed, Running, Retry},
	{Compensating, Running, Restart},
}

// edge reports whether there is a transition from one state to another.
func edge(from, to State) bool {
	return slices.ContainsFunc(Edges, func(e Edge) bool { return e.From == from && e.To == to })
}

// Reachable reports whether legal transitions lead from one state to another in one or more steps.
// The database's guard trigger enforces this closure on each update, because one commit may take
// several edges.
func Reachable(from, to State) bool {
	seen := map[State]bool{}
	queue := []State{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, e := range Edges {
			if e.From == at && !seen[e.To] {
				seen[e.To] = true
				queue = append(queue, e.To)
			}
		}
	}
	return seen[to]
}

// Action is seed 1's action of a step log.
type Action string

// Actions of a call to a participant.
const (
	Execute    Action = "EXECUTE"
	Compensate Action = "COMPENSATE"
)
