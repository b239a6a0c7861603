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

// Change is how an input changes a run. A store writes all of it in one transaction if
// Before still holds, and otherwise nothing (W7, W8).
type Change struct {
	Before Precondition
	Run    Run // as it is then
	// Events are the decisions to record, in order.
	Events []Event
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
func (c *Change) Changes() bool { return len(c.Events) > 0 || c.Run.Version != c.Before.Version }

// Apply decides how in changes r. It covers every change of a single run after its
// creation. Statements that change many rows at once (claims, starts, renewals, and
// successes without consequences) take their conditions from the same table. spec is
// the run's definition in the run's version. Apply never changes r. Its only fault is a
// Conflict when the state does not allow in.
func Apply(r Run, spec *Spec, in Input, m Moment) (Change, error) {
	d := &decision{Change: Change{Before: Precondition{r.State, r.Version}, Run: r}, spec: spec, m: m}
	if refusal := d.apply(in); refusal != nil {
		return Change{Before: d.Before, Run: r}, refusal
	}
	return d.Change, nil
}

// decision gathers a Change while the rules work on it.
type decision struct {
	Change
	spec *Spec
	m    Moment
}

func (d *decision) apply(in Input) *fault.Error {
	ok, what := true, "ended like this"
	switch in := in.(type) {
	case Reported:
		ok = d.end(in.verdict())
	case Released:
		ok, what = d.release(in), "given back"
	case CancelAcknowledged:
		ok, what = d.end(verdict{state: Canceled, by: Worker, reason: d.Run.CancelReason}), "canceled"
	case CancelRequested:
		ok, what = d.cancel(in), "canceled"
	case ReassignRequested:
		return d.reassign(in)
	case Decided:
		ok, what = d.decided(in), "skipped or canceled"
	case Withdrawn:
		ok, what = d.end(verdict{state: Skipped, by: Operator, actor: in.Actor, reason: in.Reason}), "withdrawn"
	case LeaseExpired:
		d.leaseExpired(in.Settings)
	case Detached:
		d.workerDetached(in)
	case LossesExhausted:
		d.lossesExhausted()
	case TimeoutPassed:
		d.timeoutPassed(in.Settings)
	case CancelExpired:
		d.cancelExpired(in.Settings)
	}
	if !ok {
		return d.Run.Conflict(what)
	}
	return nil
}

// tell records a decision about the run as it is by now.
func (d *decision) tell(e Event) {
	e.At, e.Version, e.Attempt = d.m.Now, d.Run.Version, d.Run.Attempt
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
	d.Run.Continuation, d.Run.ConfirmStartedAt, d.Run.ConfirmDeadlineAt = NoDoubt, nil, nil
}

// cancel ends a run that is with no worker, or was not started. Of a RUNNING one
// it asks the worker to stop, unless it is to be fenced (S9).
func (d *decision) cancel(in CancelRequested) bool {
	switch running := d.Run.State == Running; {
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
	r := &d.Run
	if r.CancelRequestedAt != nil {
		return
	}
	r.CancelRequestedAt, r.CancelReason, r.UpdatedAt = &d.m.Now, StoredReason(reason), d.m.Now
	d.tell(Event{Kind: WasCancelAsk, Epoch: d.epoch(by), WorkerID: r.WorkerID, Actor: actor, Reason: reason})
}

// release gives a run back on behalf of its worker. A run with a requested cancel ends instead,
// because no other worker may execute it. A run whose worker could not keep its lease was lost,
// although its worker is left to report it: otherwise a run that makes its workers lose it would be
// claimed and given back forever.
func (d *decision) release(in Released) bool {
	r := &d.Run
	switch {
	case r.CancelRequestedAt != nil:
		return d.end(verdict{state: Canceled, by: Worker, reason: r.CancelReason})
	case in.LeaseLost || r.ranOut(d.m.Now):
		return d.lose(Worker, Event{Kind: WasReleased, Reason: in.Reason}, AttemptReleased, in.Settings)
	}
	return d.giveBack(Worker, Event{Kind: WasReleased, Reason: in.Reason}, AttemptReleased)
}

// ranOut reports whether its worker has let the lease run out. The lease of a detached worker was
// ended for it, at the moment when the doubt began.
func (r *Run) ranOut(now time.Time) bool {
	return over(r.LeaseExpiresAt, 0, now) &&
		(r.ConfirmStartedAt == nil || r.LeaseExpiresAt.Before(*r.ConfirmStartedAt))
}

// reassign takes a run from its worker, of one that is with none it ends the wait.
// One that was to be canceled ends instead, as when its worker gives it back.
func (d *decision) reassign(in ReassignRequested) *fault.Error {
	r := &d.Run
	ok := true
	what := Event{Kind: WasReassigned, Actor: in.Actor, Reason: in.Reason}
	switch {
	case r.State == Running && !in.Force:
		return fault.New(fault.Conflict, CodeConflict,
			"the job run is RUNNING and its process may still be working: set force to reassign it anyway").Allowing(r.Actions())
	case r.State != Orphaned && !CanMove(r.State, Orphaned, Operator):
		ok = false
	case r.CancelRequestedAt != nil:
		ok = d.end(verdict{state: Canceled, by: Operator, actor: in.Actor, reason: r.CancelReason})
	case r.State == Orphaned:
		d.hasten(what)
	default:
		ok = d.giveBack(Operator, what, AttemptReassigned)
	}
	if !ok {
		return r.Conflict("reassigned")
	}
	return nil
}

// giveBack takes the run from its worker, to be claimable immediately. No budget is
// used. The token stays on record until the next worker gets one.
func (d *decision) giveBack(by Mover, what Event, outcome string) bool {
	r := &d.Run
	if !CanMove(r.State, Orphaned, by) {
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
func (d *decision) hasten(what Event) {
	r := &d.Run
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
