package saga

import (
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

// Event is something that happened to a saga. Those of its driver, of participants and of the clock are below; each
// order of an operator is declared beside its rule. event returns its verb (actions.go), "" for all others.
type Event interface{ event() Verb }

// Answered is the outcome of the call in flight.
type Answered struct{ Outcome }

// Passed is the outcome of a step that was done, of which the driver has held the change while it went on: the
// step after it was called already, so a flag turns the saga only after that one's outcome.
type Passed struct{ Outcome }

// Forgotten means that the driver has lost the outcomes that it held: the call in flight and those after it, as far
// as definitions allow, may have been made. The driver lives; those of dead nodes are forgotten by the claim.
type Forgotten struct{}

// Turned means that the driver has noticed a flag (cancel, deadline) while no call is in flight.
type Turned struct{}

// Slow means that the call in flight is taking so long that it must be visible. Its step log is
// written as RUNNING, and the answer will complete that row.
type Slow struct{ StartedAt time.Time }

// DeadlinePassed means that Saga.TimeoutAt, or while compensating Saga.CompensationTimeoutAt, has
// passed on the database's clock. At is the deadline that was found to have passed: the event is
// refused if it is no longer the one of the current phase, because the saga has begun to
// compensate, or its deadline was moved, between the look at the clock and the load.
type DeadlinePassed struct{ At time.Time }

// Neglected means that the saga makes no progress. The reason is a snake_case word.
type Neglected struct{ Reason string }

// Begun means that the driver has found that the current step is a job run that was not requested
// yet.
type Begun struct{}

// JobRunChecked means that the driver has checked on the job run in flight, which has not ended.
// Stopping: the run was asked to stop.
type JobRunChecked struct{ Stopping bool }

// Parked means that the gate of the participant of the next call does not let it through: the saga
// waits without an attempt or a failure. Until is when it looks again if nothing lets it through
// before.
type Parked struct {
	Participant string
	Until       time.Time
}

// Reported is what a participant has reported of an attempt that it had answered "later" (callback.go).
type Reported struct {
	Attempt reported.Attempt
	// Beat is the progress that a heartbeat carries; nil: it is the outcome of the attempt, without times and request.
	Beat    *reported.Progress
	Outcome Outcome
}

func (Answered) event() Verb       { return "" }
func (Reported) event() Verb       { return "" }
func (Passed) event() Verb         { return "" }
func (Forgotten) event() Verb      { return "" }
func (Parked) event() Verb         { return "" }
func (Turned) event() Verb         { return "" }
func (Slow) event() Verb           { return "" }
func (DeadlinePassed) event() Verb { return "" }
func (Neglected) event() Verb      { return "" }
func (Begun) event() Verb          { return "" }
func (JobRunChecked) event() Verb  { return "" }

// Moment carries everything non-deterministic that a decision needs.
type Moment struct {
	Now    time.Time // UTC, microseconds
	NewID  func() uuid.UUID
	Jitter float64 // [0,1)
	// CompensationTimeout applies to a saga that names none; 0: no deadline.
	CompensationTimeout time.Duration
	Budget              Budget
	// Actor is who requests the change and RequestID the API request; both are "" for the
	// engine.
	Actor     string
	ActorName string // what people call the actor; "": unknown
	RequestID string
}

// Precondition is what must still hold when a change is written.
type Precondition struct {
	Version int64
	Epoch   int64
}

// Change is a decision. A store writes After, Logs, Audit and Key in one transaction if
// Before still holds for the saga's row, and otherwise nothing.
type Change struct {
	Before Precondition
	After  Instance
	Logs   []StepLog
	Audit  []AuditEvent     // the audit events of the change, in order
	Key    *idempotency.Key // the API's, nil for the engine's changes
	// StartsCompensation: the store sets CompensationTimeoutAt to the database's
	// clock plus After.CompensationTimeoutMS.
	StartsCompensation bool
	// Operated is nil for nearly every change.
	Operated *Operated
	// Letter is the update to the saga's dead letter; nil for nearly every change, and if it is
	// set, Operated is too. PostgreSQL writes the result (dlq.Apply) in the same transaction.
	// For GaveUp without an open letter of that ID it stores SourceUpdate.Letter and
	// WithNewLetter instead; the memory store has no dead letters and stores WithoutLetter.
	// Only the store can tell which case applies, so after a compensation gave up the saga must
	// be read again before the next decision.
	Letter *dlq.SourceUpdate
	// Run is the job run that the change requests; nil for sagas without jobs.
	// PostgreSQL stores it once, in the same transaction. If its definition does not
	// exist, no run is stored and After becomes due immediately.
	Run *JobRunRequest
	// Steer is what the change does to the job run that the saga was waiting for; nil
	// for nearly every change. PostgreSQL does it in the same transaction.
	Steer *RunSteer
	// Park is the participant at whose gate the saga waits after the change; "": it waits at none.
	// The store records it with the call that waits, in the same transaction.
	Park string
}

// Released returns the change with the saga's ownership released, so that any node may
// claim it when it is due: during a long wait it needs no owner, and a stopping node
// hands its sagas over.
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
		s.State = StepCompleted // nothing of the next step was sent, so its start is not recorded either
		c.Audit = c.Audit[:len(c.Audit)-1]
	}
	s.LeaseOwner = nil
	return c
}

// WithoutRun returns the change for the case that the definition of the requested job does not
// exist: the saga is due immediately, so that its driver detects this.
func (c Change) WithoutRun() Change {
	at := c.After.UpdatedAt
	c.After.NextRunAt = &at
	return c
}

// WithNewLetter returns the change for the case that the letter of an earlier failure is closed
// or no longer exists: the saga refers to the new letter.
func (c Change) WithNewLetter() Change { return c.naming(c.Letter.Letter.ID) }

// WithoutLetter returns the change for stores without dead letters: the saga refers to
// none.
func (c Change) WithoutLetter() Change { return c.naming(uuid.Nil) }

func (c Change) naming(letter uuid.UUID) Change {
	own := *c.After.Interventions
	if step := c.Letter.Letter.Link.StepIndex; step != c.After.CurrentStep || own.DeadLetter == uuid.Nil {
		if l, left := own.Left[step]; left { // the saga has gone on
			own.Left = maps.Clone(own.Left)
			l.Letter = letter
			own.Left[step] = l
			c.After.Interventions = &own
			return c
		}
	}
	own.DeadLetter = letter
	c.After.Interventions = &own
	return c
}

// begins reports whether the change ends with the start of a step.
func (c *Change) begins() bool {
	if len(c.Audit) == 0 {
		return false
	}
	last := &c.Audit[len(c.Audit)-1]
	return last.Type == eventtype.StepStarted && last.Old == StepCompleted
}

// JobRunRequest is a job run that a change requests.
type JobRunRequest struct {
	// ID is also that of the RUNNING step log, which names the run that way.
	ID      uuid.UUID
	Job     string // name of the definition
	Args    []byte // canonical JSON
	Step    int
	Action  Action
	Attempt int
}

// RunSteer is what a change does to the job run that its saga was waiting for. If the
// run was retried, it applies to the last run of the chain, unless that has ended.
type RunSteer struct {
	ID uuid.UUID // of the chain's first run, as returned by JobRun
	// Stop cancels a run that was not started; the worker of a running one is asked to
	// stop.
	Stop  bool
	Actor string
	Why   string
	// Hold: true prevents the run and its retries from being claimed; false allows it
	// again; nil changes nothing.
	Hold *bool
}
