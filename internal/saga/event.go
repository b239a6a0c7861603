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

// Event is something that happened to a saga. The events of its driver, of participants and of the
// clock are defined below; each operator event is declared next to its rule. event returns its verb
// (actions.go), or "" for all other events.
type Event interface{ event() Verb }

// Answered is the outcome of the call in flight.
type Answered struct{ Outcome }

// Passed is the outcome of a step that was done and whose change the driver held while it
// continued. The next step was already called, so a flag turns the saga back only after the outcome
// of that call.
type Passed struct{ Outcome }

// Forgotten means that the driver has lost the outcomes that it held. The call in flight, and the
// calls after it as far as the definition allows, may have been made. The driver is alive; if a
// node dies, the claim does this for its sagas.
type Forgotten struct{}

// Turned means that the driver has noticed a flag (cancel, deadline) while no call is in flight.
type Turned struct{}

// Slow means that the call in flight is taking so long that it must become visible. Its step log is
// written as RUNNING, and the answer will complete that row.
type Slow struct{ StartedAt time.Time }

// DeadlinePassed means that Saga.TimeoutAt, or while compensating Saga.CompensationTimeoutAt, has
// passed on the database's clock. At is the deadline that was found to have passed. The event is
// refused if At is no longer the deadline of the current phase, because between that check and the
// load the saga began to compensate or its deadline was moved.
type DeadlinePassed struct{ At time.Time }

// Neglected means that the saga is making no progress. The reason is a snake_case word.
type Neglected struct{ Reason string }

// Begun means that the driver has found that the current step is a job run that has not been
// requested yet.
type Begun struct{}

// JobRunChecked means that the driver has checked the job run in flight, and it has not ended.
// Stopping means that the run was asked to stop.
type JobRunChecked struct{ Stopping bool }

// Parked means that the gate of the next call's participant does not let the call through. The saga
// waits without using an attempt or recording a failure. Until is when it checks again if nothing
// lets it through earlier.
type Parked struct {
	Participant string
	Until       time.Time
}

// Reported is a participant's report about an attempt that it had answered with "later"
// (callback.go).
type Reported struct {
	Attempt reported.Attempt
	// Beat is the progress that a heartbeat carries. If it is nil, the report is the outcome of the
	// attempt, without times and request.
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
	// CompensationTimeout applies to sagas that set none; 0 means no deadline.
	CompensationTimeout time.Duration
	Budget              Budget
	// Actor is the caller who requests the change, and RequestID is the API request; both are ""
	// for the engine.
	Actor     string
	ActorName string // the actor's display name; "" means unknown
	RequestID string
}

// Precondition must still hold when a change is written.
type Precondition struct {
	Version int64
	Epoch   int64
}

// Change is a decision. If Before still holds for the saga's row, a store writes After, Logs, Audit
// and Key in one transaction; otherwise it writes nothing.
type Change struct {
	Before Precondition
	After  Instance
	Logs   []StepLog
	Audit  []AuditEvent     // the audit events of the change, in order
	Key    *idempotency.Key // the API request's key, nil for the engine's changes
	// StartsCompensation tells the store to set CompensationTimeoutAt to the database's clock plus
	// After.CompensationTimeoutMS.
	StartsCompensation bool
	// Operated is nil for nearly every change.
	Operated *Operated
	// Letter is the update to the saga's dead letter. It is nil for nearly every change; if it is
	// set, Operated is set as well. PostgreSQL writes the result (dlq.Apply) in the same
	// transaction. For GaveUp without an open letter of that ID, it stores SourceUpdate.Letter and
	// WithNewLetter instead. The memory store has no dead letters and stores WithoutLetter. Only
	// the store can tell which case applies, so after a compensation has given up, the saga must be
	// read again before the next decision.
	Letter *dlq.SourceUpdate
	// Run is the job run that the change requests; nil for sagas without jobs.
	// PostgreSQL stores it once, in the same transaction. If its definition does not
	// exist, no run is stored and After becomes due immediately.
	Run *JobRunRequest
	// Steer is the effect of the change on the job run that the saga was waiting for; nil for
	// nearly every change. PostgreSQL applies it in the same transaction.
	Steer *RunSteer
	// Park is the participant at whose gate the saga waits after the change; "" means none. The
	// store records it, with the call that waits, in the same transaction.
	Park string
}

// Released returns the change with the saga's ownership released, so that any node may claim the
// saga when it is due. A saga needs no owner during a long wait, and a stopping node hands its
// sagas over.
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
		s.State = StepCompleted // the call of the next step was not sent, so its start is not recorded
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

// WithNewLetter returns the change for the case that the letter of an earlier failure is closed or
// no longer exists. The saga then refers to the new letter.
func (c Change) WithNewLetter() Change { return c.naming(c.Letter.Letter.ID) }

// WithoutLetter returns the change for stores without dead letters. The saga then refers to no
// letter.
func (c Change) WithoutLetter() Change { return c.naming(uuid.Nil) }

func (c Change) naming(letter uuid.UUID) Change {
	own := *c.After.Interventions
	if step := c.Letter.Letter.Link.StepIndex; step != c.After.CurrentStep || own.DeadLetter == uuid.Nil {
		if l, left := own.Left[step]; left { // the saga has continued
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
	// ID is also the id of the RUNNING step log, which identifies the run in this way.
	ID      uuid.UUID
	Job     string // name of the definition
	Args    []byte // canonical JSON
	Step    int
	Action  Action
	Attempt int
}

// RunSteer is the effect of a change on the job run that its saga was waiting for. If the run was
// retried, it applies to the last run of the chain, unless that run has ended.
type RunSteer struct {
	ID uuid.UUID // the chain's first run, as returned by JobRun
	// Stop cancels a run that has not started; the worker of a running one is asked to stop.
	Stop  bool
	Actor string
	Why   string
	// Hold: true prevents the run and its retries from being claimed; false allows it
	// again; nil changes nothing.
	Hold *bool
}
