package saga

import "slices"

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

// The statuses of seed 1.
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

// StatesOf returns the states that correspond to one of seed 1's statuses.
func StatesOf(status Status) []State {
	var out []State
	for _, s := range States {
		if s.Status() == status {
			out = append(out, s)
		}
	}
	return out
}

// Active reports whether a saga is active as defined by seed 2's view active_sagas: it has started
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

// The actions of a call to a participant.
const (
	Execute    Action = "EXECUTE"
	Compensate Action = "COMPENSATE"
)
