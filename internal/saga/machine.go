// Package saga contains the rules of sagas: their states and transitions, the effects of a
// participant's answer, and the contract that every store implements.
//
// The package is pure: it uses no I/O, clock, randomness or goroutines. Time, ids and jitter are
// passed in as a Moment. A decision is returned as a Change, which a store writes completely if its
// precondition still holds, and otherwise not at all.
//
// Files, each on top of those before it: machine, state, interventions, saga, outcome, audit,
// record, run, request, mapping, call, actions, budget, event, attention, filter, problems, new,
// store, archive, step_decision, failure_summary, operated, stopped, actor_name, checkpoint, apply,
// damage, doubt, erased, faults, callback, flags, force, job, left, letter, note, parked, reopen,
// steps.
package saga

import "slices"

// State is seed 2's integer state (section "状态枚举值"). This is the stored value, from which Status
// and Lifecycle are derived.
type State int16

// The states, with seed 2's numbers.
const (
	Pending       State = 0 // accepted, durable
	Running       State = 1 // a step is in flight or waiting for its next attempt
	StepCompleted State = 2 // between steps, not driven right now
	Completed     State = 3 // every step was done
	Compensating  State = 4 // compensating, in exact reverse order
	Compensated   State = 5 // failed, everything undone
	Failed        State = 6 // a compensation gave up: effects may remain
	Cancelled     State = 7 // cancelled by a user, everything undone
	TimedOut      State = 8 // deadline passed, everything undone
)

// States lists every state in numerical order.
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

// Trigger is the reason why an edge is taken.
type Trigger string

// The triggers of the transition table.
const (
	Dispatch   Trigger = "dispatch"               // a step is sent
	StepDone   Trigger = "step done"              // its outcome is committed and more steps remain
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

// IllegalEdgeError is a move that Edges does not contain. It is a bug in the rules, which the test
// of all pairs finds. Apply never returns such a change; the error is the cause of its Conflict.
type IllegalEdgeError struct{ From, To State }

func (e *IllegalEdgeError) Error() string {
	return e.From.String() + " to " + e.To.String() + " is not in the transition table"
}

// Apply decides what e changes in r. It never modifies r. Its only possible fault is a Conflict, if
// the state does not allow e.
func Apply(r Instance, e Event, m Moment) (Change, error) {
	if f := r.withheld(e); f != nil {
		return Change{}, f
	}
	d, ok := newDecision(&r, m), false
	switch e := e.(type) {
	// Events of the driver.
	case Answered:
		ok = d.answered(e.Outcome)
	case Turned:
		ok = d.turned()
	case Slow:
		ok = d.slow(e)
	case Passed:
		ok = d.passed(e.Outcome)
	case Forgotten:
		ok = d.forgotten()
	case Begun:
		ok = d.begun()
	case Parked:
		ok = d.parked(e)
	case JobRunChecked:
		ok = d.jobRunChecked(e)
	// A participant's report to its callback URL.
	case Reported:
		ok = d.reported(e)
	// Events of the clock, and of the check for stuck sagas.
	case DeadlinePassed:
		ok = d.deadline(e)
	case Neglected:
		ok = d.neglected(e)
	// Requests of users and operators.
	case CancelRequested:
		ok = d.flag(CauseCancelled, "SAGA_CANCELLED", "cancelled", e.By, e.Reason)
	case CompensateRequested:
		ok = d.flag(CauseOperator, "SAGA_COMPENSATE_REQUESTED", "operator", e.By, e.Reason)
	case ResumeRequested:
		ok = d.resume(e)
	case RetryRequested:
		ok = d.retry(e)
	case StepOrdered:
		ok = d.order(e)
	case SuspendRequested:
		ok = d.suspend(e)
	case UnsuspendRequested:
		ok = d.unsuspend(e)
	case DeadlineSet:
		ok = d.setDeadline(e)
	case CompletionForced:
		ok = d.forceCompletion(e)
	case FailureForced:
		ok = d.forceFailure(e)
	case Acknowledged:
		ok = d.acknowledge(e)
	}
	if !ok || d.illegal != nil {
		return Change{}, d.refusal(&r)
	}
	d.beginRun()
	d.steerRun(&r)
	d.nameActors(m)
	return d.Change, nil
}
