package jobrun

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// Chance supplies ids and random numbers to rules that stores call for many runs;
// stores create neither themselves. Both functions are safe for concurrent use.
type Chance struct {
	Jitter func() float64   // in [0,1)
	NewID  func() uuid.UUID // UUIDv7
}

// At is the Moment of one decision, by the database's clock.
func (c Chance) At(now time.Time) Moment {
	return Moment{Now: now.UTC(), Jitter: c.Jitter(), NewID: c.NewID}
}

// Precondition is what must still hold when a change is written.
type Precondition struct {
	State   State
	Version int64
}

// Change is how an event changes a run. A store writes all of it in one transaction if
// Before still holds, and otherwise nothing (W7, W8).
type Change struct {
	Before Precondition
	After  Run // the run as it is then
	// Events are the decisions to record, in order.
	Events []HistoryEvent
	// Attempt is the one that has ended although its run has not; nil: none.
	Attempt *Attempt
	// Retry is the row that follows (S5); nil: none.
	Retry *Run
	// LetterUpdate is the update for the dead letters: a new letter when the run has
	// given up, or the result for the letter that it retries; nil: none.
	LetterUpdate *dlq.SourceUpdate
	// Final: the chain of retries has ended with this run, so that a saga waiting for
	// it continues.
	Final bool
}

// Changes reports whether there is anything to write.
func (c *Change) Changes() bool { return len(c.Events) > 0 || c.After.Version != c.Before.Version }

// Instance is a run with what is needed to decide about it.
type Instance struct {
	Run
	Spec *Spec // its definition's, in the run's version
}

// decision gathers a Change while the rules work on it.
type decision struct {
	Change
	spec    *Spec
	m       Moment
	why     *fault.Error      // a refusal in other words than "the job run is …"
	illegal *IllegalEdgeError // the move that the table does not have; nil: none
}

// newDecision begins a change of r.
func newDecision(r *Instance, m Moment) *decision {
	return &decision{Change: Change{Before: Precondition{r.State, r.Version}, After: r.Run}, spec: r.Spec, m: m}
}

// refusal is the fault of an event that r, as it was, does not allow.
func (d *decision) refusal(r *Run, what string) *fault.Error {
	switch {
	case d.why != nil:
		return d.why
	case d.illegal != nil:
		return r.Conflict(what).Because(d.illegal)
	}
	return r.Conflict(what)
}

// can reports whether the table lets by move the run to a state.
func (d *decision) can(to State, by Mover) bool {
	if !CanMove(d.After.State, to, by) {
		d.illegal = &IllegalEdgeError{From: d.After.State, To: to, By: by}
		return false
	}
	return true
}

// tell records a decision about the run as it is by now.
func (d *decision) tell(e HistoryEvent) {
	e.At, e.Version, e.Attempt = d.m.Now, d.After.Version, d.After.Attempt
	d.Events = append(d.Events, e)
}

// epoch is what is recorded of who decides: the leader's.
func (d *decision) epoch(by Mover) int64 {
	if by == Leader {
		return d.m.Epoch
	}
	return 0
}

// trust takes the run out of doubt.
func (d *decision) trust() {
	d.After.Continuation, d.After.ConfirmStartedAt, d.After.ConfirmDeadlineAt = NoDoubt, nil, nil
}

// cancel ends a run that is with no worker, or was not started. Of a RUNNING one
// it asks the worker to stop, unless it is to be fenced (S9).
func (d *decision) cancel(in CancelRequested) bool {
	switch running := d.After.State == Running; {
	case running && in.Waiting:
		return true
	case running && !in.Force:
		d.askToStop(Operator, in.Actor, in.Reason)
		return true
	}
	return d.end(verdict{state: Canceled, by: Operator, actor: in.Actor, reason: in.Reason})
}

// askToStop asks the worker of a RUNNING run to stop it, once. The version stays:
// the worker's calls are as good as before.
func (d *decision) askToStop(by Mover, actor, reason string) {
	r := &d.After
	if r.CancelRequestedAt != nil {
		return
	}
	r.CancelRequestedAt, r.CancelReason, r.UpdatedAt = &d.m.Now, StoredReason(reason), d.m.Now
	d.tell(HistoryEvent{Kind: WasCancelAsk, Epoch: d.epoch(by), WorkerID: r.WorkerID, Actor: actor, Reason: reason})
}

// release gives a run back on behalf of its worker. A run with a requested cancel ends instead,
// because no other worker may execute it. A run whose worker could not keep its lease was lost,
// although its worker is left to report it: otherwise a run that makes its workers lose it would be
// claimed and given back forever.
func (d *decision) release(in Released) bool {
	r := &d.After
	switch {
	case r.CancelRequestedAt != nil:
		return d.end(verdict{state: Canceled, by: Worker, reason: r.CancelReason})
	case in.LeaseLost || r.ranOut(d.m.Now):
		return d.lose(Worker, HistoryEvent{Kind: WasReleased, Reason: in.Reason}, AttemptReleased, in.Settings)
	}
	return d.giveBack(Worker, HistoryEvent{Kind: WasReleased, Reason: in.Reason}, AttemptReleased)
}

// ranOut reports whether its worker has let the lease run out. The lease of a detached worker was
// ended for it, at the moment when the doubt began.
func (r *Run) ranOut(now time.Time) bool {
	return over(r.LeaseExpiresAt, 0, now) &&
		(r.ConfirmStartedAt == nil || r.LeaseExpiresAt.Before(*r.ConfirmStartedAt))
}

// reassign takes a run from its worker, of one that is with none it ends the wait.
// One that was to be canceled ends instead, as when its worker gives it back.
func (d *decision) reassign(in ReassignRequested) bool {
	r := &d.After
	what := HistoryEvent{Kind: WasReassigned, Actor: in.Actor, Reason: in.Reason}
	switch {
	case r.State == Running && !in.Force:
		d.why = fault.New(fault.Conflict, CodeConflict,
			"the job run is RUNNING and its process may still be working: set force to reassign it anyway").Allowing(r.Actions())
		return false
	case r.State != Orphaned && !d.can(Orphaned, Operator):
		return false
	case r.CancelRequestedAt != nil:
		return d.end(verdict{state: Canceled, by: Operator, actor: in.Actor, reason: r.CancelReason})
	case r.State == Orphaned:
		d.hasten(what)
		return true
	}
	return d.giveBack(Operator, what, AttemptReassigned)
}

// giveBack takes the run from its worker, to be claimable immediately. No budget is
// used. The token stays on record until the next worker gets one.
func (d *decision) giveBack(by Mover, what HistoryEvent, outcome string) bool {
	r := &d.After
	if !d.can(Orphaned, by) {
		return false
	}
	d.Attempt = &Attempt{EndedAt: &d.m.Now, Outcome: outcome, Reason: what.Reason}
	what.From, what.To, what.WorkerID = r.State, Orphaned, r.WorkerID
	r.State, r.Version, r.AvailableAt, r.AdmittedAt, r.UpdatedAt = Orphaned, r.Version+1, d.m.Now, &d.m.Now, d.m.Now
	d.trust()
	d.tell(what)
	return true
}

// hasten ends the wait of a run that has lost its worker, unless it is over.
func (d *decision) hasten(what HistoryEvent) {
	r := &d.After
	if r.AdmittedAt != nil && !r.AvailableAt.After(d.m.Now) {
		return
	}
	r.Version, r.AvailableAt, r.AdmittedAt, r.UpdatedAt = r.Version+1, d.m.Now, &d.m.Now, d.m.Now
	d.tell(what)
}

// StoredReason returns a reason as it is stored: cleaned, and cut to MaxReason characters.
func StoredReason(reason string) string {
	return plaintext.Text(reason, plaintext.Characters(MaxReason))
}
