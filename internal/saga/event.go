package saga

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

// Event is something that happened to a saga. Exactly the types below are events.
type Event interface{ event() }

// Answered is the outcome of the call in flight.
type Answered struct{ Outcome }

// Turned is the driver noticing a flag (cancel, deadline) while no call is in flight.
type Turned struct{}

// Slow is the call in flight taking so long that it should be visible: its
// step log is written as RUNNING and the answer will complete that row.
type Slow struct{ StartedAt time.Time }

// CancelRequested is a user's cancel: undo everything, end in CANCELLED.
type CancelRequested struct{ By, Reason string }

// CompensateRequested is an operator's order to turn back: undo everything, end in COMPENSATED.
type CompensateRequested struct{ By, Reason string }

// DeadlinePassed is Saga.TimeoutAt, or while compensating
// Saga.CompensationTimeoutAt, passing on the database's clock.
type DeadlinePassed struct{}

// ResumeRequested reopens a FAILED saga whose undo gave up.
type ResumeRequested struct{ By, Reason string }

// RetryRequested makes the next attempt of a saga that waits for it due now,
// with a fresh policy, or lets a failed saga go forward again.
type RetryRequested struct {
	By, Reason string
	// FromStep is the index of the step to begin with, nil: the one that failed.
	// Steps before the failed one are undone first, down to it.
	FromStep *int
	// Patch is a JSON merge patch (RFC 7386) of that step's input; nil: none.
	Patch json.RawMessage
	// NotApplied: the operator has made sure that the attempts so far were not applied.
	NotApplied bool
	// Logs are the saga's, all of them.
	Logs []StepLog
}

// StepOrdered is an operator's decision about the current step, whose index
// is Step. Actor and RequestID of the order are filled from the Moment.
type StepOrdered struct {
	Step int
	Order
}

// SuspendRequested keeps anything new from being sent.
type SuspendRequested struct{ By, Reason string }

// UnsuspendRequested ends a suspension. The deadline moves by its length,
// unless KeepDeadline.
type UnsuspendRequested struct {
	By, Reason   string
	KeepDeadline bool
}

// DeadlineSet gives the present phase a new deadline, TimeoutMS from now.
type DeadlineSet struct {
	By, Reason string
	TimeoutMS  int64
}

// CompletionForced ends a saga as completed. Result is canonical JSON or nil:
// then what the workflow declares, as far as it can be told.
type CompletionForced struct {
	By, Reason string
	Result     json.RawMessage
}

// FailureForced ends a saga as failed, at once.
type FailureForced struct{ By, Reason string }

// Acknowledged says that somebody has looked at a saga that needs attention.
type Acknowledged struct{ By, Reason string }

// Neglected says that a saga makes no progress, for this reason (a snake_case word).
type Neglected struct{ Reason string }

// Begun is the driver finding that the current step is a job run which has not
// been asked for yet.
type Begun struct{}

// JobRunChecked is the driver having looked after the job run in flight, which has
// not ended. Stopping: it was asked to stop.
type JobRunChecked struct{ Stopping bool }

func (Begun) event()               {}
func (JobRunChecked) event()       {}
func (RetryRequested) event()      {}
func (StepOrdered) event()         {}
func (SuspendRequested) event()    {}
func (UnsuspendRequested) event()  {}
func (DeadlineSet) event()         {}
func (CompletionForced) event()    {}
func (FailureForced) event()       {}
func (Acknowledged) event()        {}
func (Neglected) event()           {}
func (Answered) event()            {}
func (Turned) event()              {}
func (Slow) event()                {}
func (CancelRequested) event()     {}
func (CompensateRequested) event() {}
func (DeadlinePassed) event()      {}
func (ResumeRequested) event()     {}

// Moment is everything non-deterministic a decision needs.
type Moment struct {
	Now    time.Time // UTC, microseconds
	NewID  func() uuid.UUID
	Jitter float64 // [0,1)
	// CompensationTimeout applies to a saga that names none; 0: no deadline.
	CompensationTimeout time.Duration
	// Actor asks for it and RequestID names the API's request; both "" for the engine.
	Actor     string
	RequestID string
}

// Precondition is what must still hold when a change is written.
type Precondition struct {
	Version int64
	Epoch   int64
}

// Change is a decision: a store writes After, Logs, Audit and Key together if Before
// still holds for the saga's row, and else nothing.
type Change struct {
	Before Precondition
	After  Instance
	Logs   []StepLog
	Audit  []AuditEvent    // what the audit trail tells of the change, in order
	Key    *IdempotencyKey // the API's, nil for the engine's changes
	// StartsCompensation: the store sets CompensationTimeoutAt to the database's
	// clock plus After.CompensationTimeoutMS.
	StartsCompensation bool
	// Operated is nil for nearly every change.
	Operated *Operated
	// Letter is what the change tells of the saga's dead letter; nil for nearly
	// every change, and Operated is not nil when it is not. PostgreSQL writes what
	// comes of it (dlq.Letter.ApplyUpdate) with the rest. Of GaveUp, when no open letter
	// has its ID, it stores SourceUpdate.Letter and WithNewLetter instead; the store in
	// memory has no dead letters and stores WithoutLetter. Only the store knows which of
	// them holds, so whoever goes on from a saga that gave up reads it again.
	Letter *dlq.SourceUpdate
	// Run is the job run that the change begins; nil for changes of sagas without
	// jobs. PostgreSQL stores it with the rest, once; where its definition is not
	// there it stores none, and makes After due at once.
	Run *JobRunRequest
	// Steer is what becomes of the job run that the saga waited for before the
	// change; nil for nearly every change. PostgreSQL does it in the same transaction.
	Steer *RunSteer
}

// IdempotencyKey is a client's Idempotency-Key, stored in the transaction of
// what it stands for (invariant F01). Kept at least 24 hours.
type IdempotencyKey struct {
	TenantID  uuid.UUID
	Principal string // who asked
	Route     string // method and path template
	Key       string // at most 255 characters
	Hash      []byte // SHA-256 of method, path and canonical body
	SagaID    uuid.UUID
}

// Released is the change with the saga given up, so that any node may claim it
// when it is due: a long wait needs no owner, and a node that stops hands over.
func (c Change) Released(now time.Time) Change {
	s := &c.After.Saga
	if s.State.Terminal() || s.LeaseOwner == nil && s.NextRunAt != nil {
		return c
	}
	if s.NextRunAt == nil {
		s.NextRunAt = &now
	}
	if s.State == Running && s.Attempt == 1+c.After.base(s.CurrentStep, Execute) && s.CurrentStep > 0 && c.Run == nil &&
		c.begins() {
		s.State = StepCompleted // nothing of the next step was sent, so its start is not told either
		c.Audit = c.Audit[:len(c.Audit)-1]
	}
	s.LeaseOwner = nil
	return c
}

// WithoutRun is the change where the definition of the job that it asks for is not
// there: its saga is due at once, so that whoever drives it finds out.
func (c Change) WithoutRun() Change {
	at := c.After.UpdatedAt
	c.After.NextRunAt = &at
	return c
}

// WithNewLetter is the change of a saga that gives up while the letter that it names is
// not open any more, or not there: the saga names the new one.
func (c Change) WithNewLetter() Change { return c.naming(c.Letter.Letter.ID) }

// WithoutLetter is the change where there are no dead letters: the saga names none.
func (c Change) WithoutLetter() Change { return c.naming(uuid.Nil) }

func (c Change) naming(letter uuid.UUID) Change {
	own := *c.After.Interventions
	own.DeadLetter = letter
	c.After.Interventions = &own
	return c
}

// begins tells whether the last thing the change does is to pass on to a step.
func (c *Change) begins() bool {
	if len(c.Audit) == 0 {
		return false
	}
	last := &c.Audit[len(c.Audit)-1]
	return last.Type == StepStarted && last.Old == StepCompleted
}

// JobRunRequest is a job run that a change begins.
type JobRunRequest struct {
	// ID is also that of the RUNNING step log, which names the run that way.
	ID      uuid.UUID
	Job     string // name of the definition
	Args    []byte // canonical JSON
	Step    int
	Action  Action
	Attempt int
}

// RunSteer is what a change does to the job run that its saga waited for. The run
// may have been retried: it is done to the last of the chain, if that has not ended.
type RunSteer struct {
	ID uuid.UUID // of the chain's first run, as JobRun tells
	// Stop cancels a run that nobody has started, and asks the worker of one that runs.
	Stop  bool
	Actor string
	Why   string
	// Hold: true keeps the run, and its retries, from being claimed; false ends that.
	Hold *bool
}
