package saga

import (
	"encoding/json"
	"maps"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
)

// Interventions contains all changes that operators have made to one saga. Later calls depend on
// it. It is stored with the head row, so that retries, takeovers and restarts send the same bytes.
// It is nil for nearly every saga.
type Interventions struct {
	Steps map[int]StepIntervention `json:"steps,omitempty"` // by step index
	// Order is an operator's decision about the current step. It is carried out once no call of
	// that step is in flight.
	Order *Order `json:"order,omitempty"`
	// RestartAt means that the compensation in progress ends at this step, which is then executed
	// again, followed by all later steps.
	RestartAt *int `json:"restart_at,omitempty"`
	// Halted means that the saga was forced to fail while running forward. No step was compensated,
	// and CurrentStep, Attempt and Uncertain are those of the forward run.
	Halted bool `json:"halted,omitempty"`
	// Unclean means that an operator skipped a compensation, so effects may remain in any end
	// state.
	Unclean bool `json:"unclean,omitempty"`
	// DeadLetter is the open letter of the compensation that gave up; Nil means none. RetriedBy is
	// the operator who had it retried; "" if unknown.
	DeadLetter uuid.UUID `json:"dead_letter,omitzero"`
	RetriedBy  string    `json:"retried_by,omitempty"`
	// Left contains, by step, the earlier compensations that gave up and are still open. The saga
	// continued without them (on_compensation_failure: go_on).
	Left map[int]LeftUndo `json:"left,omitempty"`
	// Reached is set while the current step is one of the steps in Left again, or was when the saga
	// ended. It is the step that the compensation had reached in its order. That step and all later
	// ones are compensated or open.
	Reached *int `json:"reached,omitempty"`
	// Repeat means that the compensation of the current step, which gave up, must be repeated.
	Repeat bool `json:"repeat,omitempty"`
	// Stopped is set if the saga is suspended at its current step because that step failed;
	// otherwise it is nil.
	Stopped *Stop `json:"stopped,omitempty"`
}

// LeftUndo is a compensation that gave up and was left open.
type LeftUndo struct {
	Letter    uuid.UUID `json:"letter,omitzero"` // the open dead letter
	Attempt   int       `json:"attempt"`         // the last attempt
	Uncertain bool      `json:"uncertain,omitempty"`
	Refused   bool      `json:"refused,omitempty"`
	Code      string    `json:"code,omitempty"` // the code and class of its error
	Class     string    `json:"class,omitempty"`
	// Again means that it is repeated once the compensation of the current step is over.
	Again bool `json:"again,omitempty"`
}

// Stop is a suspension caused by the failure of a step.
type Stop struct {
	// Besides means that an operator had already suspended the saga. That suspension outlasts the
	// stop.
	Besides bool `json:"besides,omitempty"`
}

// StepIntervention contains everything that operators have changed about one step.
type StepIntervention struct {
	// Runs counts how often an operator turned the action into a new call, which requires a new
	// idempotency key. Undos is the same count for the compensation.
	Runs  int `json:"runs,omitempty"`
	Undos int `json:"undos,omitempty"`
	// Base is the number of attempts of the action that belong to earlier runs, whose step logs do
	// not count for the current run. UndoBase is the same for the compensation.
	Base     int `json:"base,omitempty"`
	UndoBase int `json:"undo_base,omitempty"`
	// Input replaces the saga's payload for this step. It is canonical JSON; nil means no
	// replacement.
	Input json.RawMessage `json:"input,omitempty"`
	// Next holds the values that the fields above take when compensation has reached RestartAt.
	Next *NextRun `json:"next,omitempty"`
	// Skipped means that the step counts as passed without having been done. Doubt means that it
	// may nevertheless have been applied, and is compensated as if it had been.
	Skipped bool `json:"skipped,omitempty"`
	Doubt   bool `json:"doubt,omitempty"`
}

// NextRun contains the values that are known in advance for the next run of a step.
type NextRun struct {
	Base     int             `json:"base,omitempty"`
	UndoBase int             `json:"undo_base,omitempty"`
	Undone   bool            `json:"undone,omitempty"` // its compensation was called
	Input    json.RawMessage `json:"input,omitempty"`
}

// OrderVerb is an operator's decision about the current step.
type OrderVerb string

// The verbs of orders. While a step is being compensated, they apply to its compensation.
const (
	SkipStep     OrderVerb = "skip"     // continue without it
	CompleteStep OrderVerb = "complete" // it was done outside Skald
	FailStep     OrderVerb = "fail"     // make no further attempt
	// UndoneStep means that the compensation that gave up is no longer needed, because the step was
	// undone outside Skald. It is only for failed sagas.
	UndoneStep OrderVerb = "undone"
)

// Order is an operator's decision about the current step.
type Order struct {
	Verb      OrderVerb       `json:"verb"`
	Output    json.RawMessage `json:"output,omitempty"` // for CompleteStep; canonical JSON or nil
	By        string          `json:"by,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Actor     string          `json:"actor,omitempty"` // for the audit trail
	ActorName string          `json:"actor_name,omitempty"`
	RequestID string          `json:"request_id,omitempty"`
}

// Operated is the part of a change that only occurs when an operator acts or when a saga with a
// declared output ends. A store writes it in the same transaction.
type Operated struct {
	// Suspend sets SuspendedAt to the database's time (true) or to nil (false).
	Suspend *bool
	// DeadlineInMS sets the deadline of Change.After's phase to the database's time plus this many
	// milliseconds.
	DeadlineInMS *int64
	// Interventions and Result mean that these fields of Change.After are written.
	Interventions bool
	Result        bool
}

// intervened returns the changes that operators have made to step k.
func (r *Instance) intervened(k int) StepIntervention {
	if r.Interventions == nil {
		return StepIntervention{}
	}
	return r.Interventions.Steps[k]
}

// Halted reports whether a FAILED saga was stopped while running forward.
func (s *Saga) Halted() bool { return s.Interventions != nil && s.Interventions.Halted }

// Stopped reports whether the saga is suspended at a step that has failed.
func (s *Saga) Stopped() bool { return s.Interventions != nil && s.Interventions.Stopped != nil }

// repeats reports whether the compensation of the current step, which was left open, must be
// repeated.
func (s *Saga) repeats() bool { return s.Interventions != nil && s.Interventions.Repeat }

// DeadlineCounts reports whether time counts towards the saga's deadline. During a suspension it
// does so only if the failure of a step caused the suspension.
func (s *Saga) DeadlineCounts() bool {
	return s.SuspendedAt == nil || s.Stopped() && !s.Interventions.Stopped.Besides
}

// ordered reports whether an operator's order is waiting to be carried out.
func (s *Saga) ordered() bool { return s.Interventions != nil && s.Interventions.Order != nil }

// input returns the payload of step k: the saga's payload, unless an operator has patched it
// (requirement S1-08: a step without a mapping gets the saga's).
func (r *Instance) input(k int) json.RawMessage {
	if in := r.intervened(k).Input; in != nil {
		return in
	}
	return r.Payload
}

// base returns the number of attempts of a step's action or compensation that belong to earlier
// runs of the step.
func (r *Instance) base(k int, a Action) int {
	if a == Compensate {
		return r.intervened(k).UndoBase
	}
	return r.intervened(k).Base
}

// AttemptsOf returns the number of attempts in the current run of the current step's action or
// compensation, including the one in flight.
func (r *Instance) AttemptsOf(a Action) int { return r.Attempt - r.base(r.CurrentStep, a) }

// policy returns the retry policy of step k's action.
func (r *Instance) policy(k int) retry.Policy { return r.Def.ActionRetry(k, r.RetryPolicy) }

// operate returns the change's Operated, creating it if needed.
func (d *decision) operate() *Operated {
	if d.Operated == nil {
		d.Operated = &Operated{}
	}
	return d.Operated
}

// edit returns a copy of the saga's interventions that may be changed.
func (d *decision) edit() *Interventions {
	if op := d.operate(); !op.Interventions {
		op.Interventions = true
		c := Interventions{}
		if d.s.Interventions != nil {
			c = *d.s.Interventions
			c.Steps, c.Left = maps.Clone(c.Steps), maps.Clone(c.Left)
		}
		d.s.Interventions = &c
	}
	return d.s.Interventions
}

// editStep changes the interventions for step k.
func (d *decision) editStep(k int, change func(*StepIntervention)) {
	i := d.edit()
	s := i.Steps[k]
	change(&s)
	if i.Steps == nil {
		i.Steps = map[int]StepIntervention{}
	}
	i.Steps[k] = s
}
