package jobrun

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// Chance supplies ids and random numbers to rules that stores apply to many runs at once, because
// stores do not generate them. Both functions are safe for concurrent use.
type Chance struct {
	Jitter func() float64   // in [0,1)
	NewID  func() uuid.UUID // UUIDv7
}

// At returns the Moment of one decision, with the database's time.
func (c Chance) At(now time.Time) Moment {
	return Moment{Now: now.UTC(), Jitter: c.Jitter(), NewID: c.NewID}
}

// Precondition is what must still hold when a change is written.
type Precondition struct {
	State   State
	Version int64
}

// Change is the effect of an event on a run. If Before still holds, a store writes the whole change
// in one transaction; otherwise it writes nothing (W7, W8).
type Change struct {
	Before Precondition
	After  Run // the run before the event
	// Events are the decisions to record, in order.
	Events []HistoryEvent
	// Attempt is the attempt that ended while the run did not; nil: none.
	Attempt *Attempt
	// Retry is the new run that retries this one (S5); nil: none.
	Retry *Run
	// LetterUpdate updates the dead letters, with a new letter if the run has given up, or with the
	// result of the retried letter; nil: none.
	LetterUpdate *dlq.SourceUpdate
	// Final reports that this run was the last of its chain of retries, so that a saga that waits
	// for it can continue.
	Final bool
}

// Changes reports whether there is anything to write.
func (c *Change) Changes() bool { return len(c.Events) > 0 || c.After.Version != c.Before.Version }

// Instance is a run with the data needed to decide about it.
type Instance struct {
	Run
	Spec *Spec // the definition's spec, in the version of the run
}

// decision accumulates a Change while the rules are applied.
type decision struct {
	Change
	spec    *Spec
	m       Moment
	why     *fault.Error      // replaces the default message "the job run is …"; nil: default
	illegal *IllegalEdgeError // the transition that is not in the table; nil: none
}

// newDecision starts a change of r.
func newDecision(r *Instance, m Moment) *decision {
	return &decision{Change: Change{Before: Precondition{r.State, r.Version}, After: r.Run}, spec: r.Spec, m: m}
}

// refusal returns the fault for an event that the state of r does not allow.
func (d *decision) refusal(r *Run, what string) *fault.Error {
	switch {
	case d.why != nil:
		return d.why
	case d.illegal != nil:
		return r.Conflict(what).Because(d.illegal)
	}
	return r.Conflict(what)
}

// can reports whether the table allows the mover by to move the run to the state.
func (d *decision) can(to State, by Mover) bool {
	if !CanMove(d.After.State, to, by) {
		d.illegal = &IllegalEdgeError{From: d.After.State, To: to, By: by}
		return false
	}
	return true
}

// tell records an event of the run in its current state.
func (d *decision) tell(e HistoryEvent) {
	e.At, e.Version, e.Attempt = d.m.Now, d.After.Version, d.After.Attempt
	d.Events = append(d.Events, e)
}

// epoch returns the epoch to record with a decision: the leader's, or 0 for other movers.
func (d *decision) epoch(by Mover) int64 {
	if by == Leader {
		return d.m.Epoch
	}
	return 0
}

// trust ends the doubt about the run.
func (d *decision) trust() {
	d.After.Continuation, d.After.ConfirmStartedAt, d.After.ConfirmDeadlineAt = NoDoubt, nil, nil
}

// cancel ends a run that has not been started or that no worker holds. For a RUNNING run it asks
// the worker to stop, or fences the worker if the cancel is forced (S9).
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

// askToStop asks the worker of a RUNNING run to stop it, at most once. The version does not change,
// so that the worker's calls remain valid.
func (d *decision) askToStop(by Mover, actor, reason string) {
	r := &d.After
	if r.CancelRequestedAt != nil {
		return
	}
	r.CancelRequestedAt, r.CancelReason, r.UpdatedAt = &d.m.Now, StoredReason(reason), d.m.Now
	d.tell(HistoryEvent{Kind: WasCancelAsk, Epoch: d.epoch(by), WorkerID: r.WorkerID, Actor: actor, Reason: reason})
}

// release returns a run on behalf of its worker. If a cancel was requested, the run ends instead,
// because no other worker may execute it. If the worker could not renew its lease, this counts as a
// loss even though the worker reports it. Otherwise a run that makes its workers lose their leases
// would be claimed and released forever.
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

// ranOut reports whether the worker let the lease expire. When a worker is detached, its leases end
// at the moment when the doubt begins; that does not count.
func (r *Run) ranOut(now time.Time) bool {
	return over(r.LeaseExpiresAt, 0, now) &&
		(r.ConfirmStartedAt == nil || r.LeaseExpiresAt.Before(*r.ConfirmStartedAt))
}

// reassign takes a run from its worker, or ends the wait of a run that no worker holds. If a cancel
// was requested, the run ends instead, as it does on release.
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

// giveBack takes the run from its worker and makes it claimable immediately. It does not charge the
// failure or loss budget. The token remains on record until the next assignment.
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

// hasten ends the wait of an orphaned run unless the wait is already over.
func (d *decision) hasten(what HistoryEvent) {
	r := &d.After
	if r.AdmittedAt != nil && !r.AvailableAt.After(d.m.Now) {
		return
	}
	r.Version, r.AvailableAt, r.AdmittedAt, r.UpdatedAt = r.Version+1, d.m.Now, &d.m.Now, d.m.Now
	d.tell(what)
}

// StoredReason returns a reason in its stored form: cleaned, and cut to MaxReason characters.
func StoredReason(reason string) string {
	return plaintext.Text(reason, plaintext.Characters(MaxReason))
}
