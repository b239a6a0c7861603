package jobrun

import (
	"fmt"
	"time"
)

// Reasons why the leader ends an assignment or puts it in doubt.
const (
	NeverStarted = "it was not started before its lease expired"
	Unconfirmed  = "its lease expired and was not confirmed in time"
	LeaseRanOut  = "its lease expired"
	WasDetached  = "its worker was detached"
)

// decided applies the leader's decision about a run that has not been started.
func (d *decision) decided(in Decided) bool {
	running := d.After.State == Running
	switch in.Step {
	case StepAskCancel:
		if running {
			if d.After.CancelRequestedAt == nil {
				d.After.Version++
			}
			d.askToStop(Leader, "", in.Reason)
		}
		return running
	case StepSkip:
		return d.end(verdict{state: Skipped, by: Leader, reason: in.Reason})
	case StepCancel:
		return !running && d.end(verdict{state: Canceled, by: Leader, reason: in.Reason})
	}
	return false
}

// leaseExpired ends an assignment that was not started in time (J-33, S8), puts a RUNNING run with
// an expired lease in doubt (S2), and ends the assignment of a run that was not confirmed in time.
func (d *decision) leaseExpired(s Settings) {
	r, now := &d.After, d.m.Now
	switch {
	case r.State == Assigned && over(r.LeaseExpiresAt, s.Seconds(ReassignAfter), now):
		d.orphan(NeverStarted, s)
	case r.State == Running && r.Continuation == Confirming && over(r.ConfirmDeadlineAt, 0, now):
		d.orphan(Unconfirmed, s)
	case r.State == Running && r.Continuation != Confirming && over(r.LeaseExpiresAt, 0, now):
		d.doubt(s)
		d.tell(HistoryEvent{
			Kind:     WasDoubted,
			From:     Running,
			To:       Running,
			Epoch:    d.m.Epoch,
			WorkerID: r.WorkerID,
			Reason:   LeaseRanOut,
		})
	}
}

// over reports whether d has passed since a moment. It returns false if the moment is nil.
func over(at *time.Time, more time.Duration, now time.Time) bool {
	return at != nil && !at.Add(more).After(now)
}

// orphan takes a run from a worker that has lost it. This uses up one of the run's assignments, and
// the run backs off before the next claim. The token remains on record, so that a late worker
// learns that it has lost the run (J3).
func (d *decision) orphan(reason string, s Settings) {
	d.lose(Leader, HistoryEvent{Kind: WasOrphaned, Reason: reason}, AttemptOrphaned, s)
}

// lose ends an assignment as a loss. It returns false if the table has no such transition.
func (d *decision) lose(by Mover, what HistoryEvent, outcome string, s Settings) bool {
	r := &d.After
	if !d.can(Orphaned, by) {
		return false
	}
	d.Attempt = &Attempt{EndedAt: &d.m.Now, Outcome: outcome, Reason: what.Reason}
	what.From, what.To, what.Epoch, what.WorkerID = r.State, Orphaned, d.epoch(by), r.WorkerID
	r.State, r.Version, r.LossesUsed, r.AdmittedAt = Orphaned, r.Version+1, r.LossesUsed+1, nil
	r.AvailableAt, r.UpdatedAt = d.m.Now.Add(s.Seconds(OrphanBackoff)), d.m.Now
	d.trust()
	d.tell(what)
	return true
}

// doubt puts a RUNNING run in doubt: until a deadline, its worker may confirm it.
func (d *decision) doubt(s Settings) {
	r, now := &d.After, d.m.Now
	if r.Continuation != Confirming {
		r.ConfirmStartedAt, r.ConfirmDeadlineAt = &now, new(now.Add(s.Seconds(ConfirmFor)))
	}
	r.Version, r.Continuation, r.UpdatedAt = r.Version+1, Confirming, now
}

// workerDetached ends the leases of the worker's runs. RUNNING runs are then in doubt, and the next
// sweep orphans the runs that were not started.
func (d *decision) workerDetached(in Detached) {
	r := &d.After
	if r.State.Phase() != Held {
		return
	}
	if r.LeaseExpiresAt == nil || r.LeaseExpiresAt.After(d.m.Now) {
		r.LeaseExpiresAt = &d.m.Now
	}
	if r.State != Running {
		r.Version, r.UpdatedAt = r.Version+1, d.m.Now
		return
	}
	d.doubt(in.Settings)
	d.tell(HistoryEvent{
		Kind: WasDoubted, From: Running, To: Running, WorkerID: r.WorkerID, Actor: in.Actor, Reason: WasDetached,
	})
}

// lossesExhausted ends an orphaned run whose loss budget is exhausted.
func (d *decision) lossesExhausted() {
	r := &d.After
	if r.State == Orphaned && r.LossesUsed >= r.MaxLosses && r.CancelRequestedAt == nil {
		d.end(verdict{state: Failed, by: Leader, err: &Error{
			Code: ErrLost, Message: fmt.Sprintf("it reached its limit of lost assignments (%d of %d)", r.LossesUsed, r.MaxLosses),
		}})
	}
}

// timeoutPassed ends a RUNNING run that has exceeded its timeout and that its worker has not ended.
func (d *decision) timeoutPassed(s Settings) {
	r := &d.After
	timeout := time.Duration(r.TimeoutMS) * time.Millisecond
	if r.State == Running && timeout > 0 && over(r.StartedAt, timeout+s.Seconds(TimeoutGrace), d.m.Now) {
		d.end(verdict{state: TimedOut, by: Leader, err: &Error{
			Code: ErrTimedOut, Message: fmt.Sprintf("it did not end within %s", timeout), Retryable: true,
		}})
	}
}

// cancelExpired ends a run whose cancel was requested: after the grace period, or immediately if
// its worker is lost.
func (d *decision) cancelExpired(s Settings) {
	r := &d.After
	switch {
	case r.State == Running && over(r.CancelRequestedAt, s.Seconds(CancelGrace), d.m.Now):
		d.end(verdict{state: Canceled, by: Leader, reason: because("its worker did not stop it in time", r.CancelReason)})
	case r.State == Orphaned && r.CancelRequestedAt != nil:
		d.end(verdict{state: Canceled, by: Leader, reason: because("its worker is lost", r.CancelReason)})
	}
}

// because appends the reason of the request to a description of what happened.
func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}
