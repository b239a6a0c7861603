package saga

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// StepState is seed 2's integer state of a step (requirements/saga.md 5.3).
type StepState int

// The states of a step, with seed 2's numbers.
const (
	StepStatePending      StepState = 0 // not sent yet
	StepStateRunning      StepState = 1 // a call is in flight, or the step waits for its next attempt
	StepStateCompleted    StepState = 2
	StepStateFailed       StepState = 3 // refused, or given up
	StepStateCompensating StepState = 4 // being undone, or the compensation gave up
	StepStateCompensated  StepState = 5 // undone, or there was nothing to undo
	StepStateSkipped      StepState = 6
)

// StepStateNames are the API's names for step states, by number.
var StepStateNames = []string{"pending", "running", "completed", "failed", "compensating", "compensated", "skipped"}

// String returns the API's name of the state.
func (s StepState) String() string { return StepStateNames[s] }

// CompensationState is the state in seed 2's compensation_state.
type CompensationState int

// The states of a step's compensation, with seed 2's numbers.
const (
	UndoStatePending   CompensationState = 0 // due after later steps are undone
	UndoStateRunning   CompensationState = 1 // a call is in flight, or the compensation waits for its next attempt
	UndoStateCompleted CompensationState = 2
	UndoStateFailed    CompensationState = 3 // gave up
	UndoStateSkipped   CompensationState = 4 // the step has no compensation
)

// UndoStateNames are the API's names for compensation states, by number.
var UndoStateNames = []string{"pending", "running", "completed", "failed", "skipped"}

// String returns the API's name of the state.
func (s CompensationState) String() string { return UndoStateNames[s] }

// StepView is one step of a saga in its current state. It is seed 2's row of saga_steps, derived
// from the definition, the head row and the step logs.
type StepView struct {
	ID            string // "<saga id>:<index>"
	SagaID        uuid.UUID
	Index         int
	Name          string
	State         StepState
	Attempts      int // how many calls of the action were made
	MaxAttempts   int
	CreatedAt     time.Time
	StartedAt     *time.Time // start of the first attempt
	CompletedAt   *time.Time // end of the action; nil while it is not over
	LastAttemptAt *time.Time
	Input         json.RawMessage   // nil before the first attempt, or if the saga has no payload
	Output        json.RawMessage   // nil if there is none
	Error         *Error            // error of the last attempt, if it did not succeed
	Compensation  *CompensationView // nil while no compensation of the step is due
	// InDoubt means that the action may have been applied although no answer says so.
	InDoubt bool
	Skipped bool // by an operator or its condition; also set while it is undone and afterwards
}

// CompensationView is the progress of a step's compensation.
type CompensationView struct {
	State       CompensationState
	Attempts    int
	MaxAttempts int
	StartedAt   *time.Time
	CompletedAt *time.Time
	Error       *Error
}

// Steps returns the steps of the saga in execution order, derived from its step logs, which may be
// in any order. If the definition cannot be read, it returns only the steps that the logs name. It
// shows the committed state; a call sent since then is only visible in the head row.
func Steps(r Instance, logs []StepLog) []StepView {
	done := make([]trail, len(r.Def.Steps))
	undone := make([]trail, len(r.Def.Steps))
	for i := range logs {
		l := &logs[i]
		if l.StepIndex >= len(done) {
			continue
		}
		base := r.base(l.StepIndex, l.Action)
		switch {
		case l.Attempt <= base: // of an earlier run of the step
		case l.Action == Execute:
			done[l.StepIndex].add(l, base)
		default:
			undone[l.StepIndex].add(l, base)
		}
	}
	views := make([]StepView, len(r.Def.Steps))
	for i := range views {
		v := r.stepView(i, done[i])
		if i > 0 && v.State == StepStateRunning && v.StartedAt == nil {
			v.StartedAt = views[i-1].CompletedAt // that commit also sent its first call
			v.LastAttemptAt = v.StartedAt
		}
		v.Skipped = v.State == StepStateSkipped
		r.viewUndo(&v, undone[i])
		v.InDoubt = r.inDoubt(&v)
		views[i] = v
	}
	if r.undefined {
		return known(views)
	}
	return views
}

// known returns the steps of a saga whose definition cannot be read. These are the steps that its
// logs name, without their maximum number of attempts.
func known(views []StepView) []StepView {
	views = slices.DeleteFunc(views, func(v StepView) bool { return v.Name == "" })
	for i := range views {
		views[i].MaxAttempts = 0
		if u := views[i].Compensation; u != nil {
			u.MaxAttempts = 0
		}
	}
	return views
}

// trail summarizes the logs of one action of one step.
type trail struct {
	last     *StepLog // the log of the highest attempt
	first    *time.Time
	attempts int   // including the last call
	byHand   []int // attempts that were not calls but an operator's decisions
}

func (t *trail) add(l *StepLog, base int) {
	if t.last == nil || l.Attempt >= t.last.Attempt {
		t.last = l
	}
	if t.first == nil || l.StartedAt.Before(*t.first) {
		t.first = &l.StartedAt
	}
	switch {
	case l.Outcome != nil && *l.Outcome == OutcomeOperator:
		t.byHand = append(t.byHand, l.Attempt-base)
	case l.Status != LogSkipped:
		t.attempts = max(t.attempts, l.Attempt-base)
	}
}

// calls returns how many calls were made.
func (t *trail) calls() int {
	return t.attempts - len(slices.DeleteFunc(t.byHand, func(attempt int) bool { return attempt > t.attempts }))
}

// current reports whether step i is the step being called in the given direction, or is waiting for
// its next attempt in that direction.
func (r *Instance) current(i int, forward bool) bool {
	if i != r.CurrentStep || r.Attempt == 0 || r.State == StepCompleted {
		return false
	}
	return forward && r.State.Forward() || !forward && r.State == Compensating
}

// sent returns how many calls of the current step were made. After a flag, a call that is still
// being waited for looks like a call in flight until the driver notices the flag.
func (r *Instance) sent() int {
	n := r.Attempt - r.base(r.CurrentStep, r.Action())
	// Attempt is the number of the call that has not been made yet.
	if r.Stopped() || r.awaited == nil && r.NextRunAt != nil && r.NextRunAt.After(r.UpdatedAt) {
		n--
	}
	return n
}

func (r *Instance) stepView(i int, t trail) StepView {
	v := StepView{
		ID: fmt.Sprintf("%s:%d", r.ID, i), SagaID: r.ID, Index: i, Name: r.Def.Steps[i].Name,
		Attempts: t.calls(), MaxAttempts: r.policy(i).MaxAttempts,
		CreatedAt: r.CreatedAt, StartedAt: t.first,
	}
	current := r.current(i, true)
	if current {
		v.Attempts = max(v.Attempts, r.sent())
	}
	switch {
	case t.last == nil && !current:
		return v
	case t.last == nil:
		v.State = StepStateRunning
		if i == 0 {
			v.StartedAt = r.StartedAt
			v.LastAttemptAt = r.StartedAt
		}
	default:
		// An attempt is final unless an operator has retried it.
		v.State = forwardState(t.last, current && !r.Stopped() && (!t.last.Final || t.last.Attempt < r.Attempt))
		v.LastAttemptAt = &t.last.StartedAt
		v.Error = t.last.Error
		if v.State != StepStateRunning {
			v.CompletedAt = t.last.CompletedAt
		}
	}
	v.Input = r.input(i)
	if out := r.outputs[i]; string(out) != "null" {
		v.Output = out
	}
	return v
}

func forwardState(last *StepLog, goesOn bool) StepState {
	switch last.Status {
	case LogRunning:
		return StepStateRunning
	case LogSuccess:
		return StepStateCompleted
	case LogSkipped:
		return StepStateSkipped
	}
	if goesOn {
		return StepStateRunning
	}
	return StepStateFailed
}

// viewUndo adds the state of the step's compensation.
func (r *Instance) viewUndo(v *StepView, t trail) {
	undoing := r.State == Compensating || r.State == Failed && !r.Halted()
	if t.last == nil && (!undoing || v.Index > r.CurrentStep || r.spared(v.Index)) {
		return
	}
	u := &CompensationView{
		Attempts: t.calls(), MaxAttempts: r.Def.CompensationPolicy(v.Index).MaxAttempts, StartedAt: t.first}
	v.Compensation = u
	current := r.current(v.Index, false)
	if current {
		u.Attempts = max(u.Attempts, r.sent())
	}
	switch {
	case t.last == nil && v.Index < r.CurrentStep:
		return // UndoStatePending; the step is still shown as done
	case current, t.last != nil && t.last.Status == LogRunning:
		v.State, u.State = StepStateCompensating, UndoStateRunning
	case t.last == nil: // the deadline passed before an answer arrived
		v.State, u.State, u.CompletedAt = StepStateCompensating, UndoStateFailed, r.CompletedAt
	case t.last.Status == LogSuccess:
		v.State, u.State, u.CompletedAt = StepStateCompensated, UndoStateCompleted, t.last.CompletedAt
	case t.last.Status == LogSkipped:
		u.State, u.CompletedAt = UndoStateSkipped, t.last.CompletedAt
		if t.last.Outcome == nil { // otherwise an operator has left the step uncompensated
			v.State = StepStateCompensated
		}
	default:
		v.State, u.State, u.CompletedAt = StepStateCompensating, UndoStateFailed, t.last.CompletedAt
	}
	if t.last != nil {
		u.Error = t.last.Error
	}
}

// inDoubt reports whether the action of a step may have been applied although no answer says so. Of
// the steps that are not done, only those in doubt must be undone.
func (r *Instance) inDoubt(v *StepView) bool {
	by := r.intervened(v.Index)
	switch {
	case r.outputs[v.Index] != nil:
		return false
	case by.Skipped:
		return by.Doubt
	case v.Index >= r.CurrentStep && (r.State.Forward() || r.Halted()):
		return r.Uncertain && v.Index <= r.reach()
	}
	return v.Compensation != nil
}

// spared reports whether the current compensation skips step i, because the step was skipped or
// because a retry runs forward again before step i is reached.
func (r *Instance) spared(i int) bool {
	by := r.intervened(i)
	return by.Skipped && !by.Doubt ||
		r.Interventions != nil && r.Interventions.RestartAt != nil && i < *r.Interventions.RestartAt
}
