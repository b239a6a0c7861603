package saga

import "github.com/skald-saga/skald/internal/audit/eventtype"

// Flags record that a saga must be compensated, or that its time is up: cancel, compensate, and
// deadlines. The saga's driver acts on them once no call is in flight.

// turned starts compensating a saga that was flagged while no call was in flight. A call that is
// recorded as RUNNING was sent, so only its answer can turn the saga back.
func (d *decision) turned() bool {
	switch {
	case d.After.awaited != nil:
		return d.waitOver()
	case d.After.recorded:
		return false
	case d.s.State.Forward() && d.s.EndCause != nil && d.After.bound():
		d.void() // the call is repeated
		return true
	case d.s.State.Forward() && d.s.EndCause != nil:
		if d.s.State == Pending && !d.s.Uncertain {
			d.end(d.s.EndCause.End()) // nothing was sent
			return true
		}
		if d.s.State == Pending {
			d.dispatched(d.m.Now)
		}
		d.turnBackHere()
		return true
	case d.s.State == Compensating && d.s.CompensationExpired:
		late := d.newError("SAGA_COMPENSATION_TIMEOUT", "deadline", "the compensation did not end before its deadline")
		d.dirtyEnd(late, ReasonUndoTimeout)
		return true
	case d.s.State == Compensating && d.s.repeats() && !d.s.ordered():
		d.beginRepeat()
		return true
	case !d.s.State.Terminal() && d.s.ordered():
		d.carryOut()
		return true
	case d.After.undecided():
		d.dispatched(d.m.Now)
		d.consider()
		return true
	}
	return false
}

// CompensateRequested is an operator's request to compensate everything and end the saga in
// COMPENSATED.
type CompensateRequested struct{ By, Reason string }

// CancelRequested is a user's request to compensate everything and end the saga in CANCELLED.
type CancelRequested struct{ By, Reason string }

// flag marks the saga for compensation. Only the saga's driver changes its state, because a call
// may be in flight. A saga that was never driven ends immediately.
func (d *decision) flag(cause Cause, code, kind, by, reason string) bool {
	if !turnable(&d.After) {
		return false
	}
	if d.After.bound() {
		d.pivot = true
		return false
	}
	text := map[Cause]string{CauseCancelled: "cancelled", CauseDeadline: "the deadline passed",
		CauseOperator: "compensation requested"}[cause]
	if by != "" {
		text += " by " + by
	}
	if reason != "" {
		text += ": " + reason
	}
	asked := map[Cause]eventtype.Type{CauseCancelled: eventtype.CancelAsked, CauseDeadline: eventtype.DeadlineReached,
		CauseOperator: eventtype.CompensationAsked}[cause]
	if e := d.tell(asked); by != "" || reason != "" {
		e.say(words{By: by, Reason: reason})
	}
	d.s.EndCause = &cause
	d.s.Error = d.following(d.newError(code, kind, text))
	switch cause {
	case CauseCancelled:
		d.s.CancelRequestedAt = &d.m.Now
	case CauseDeadline:
		d.s.TimedOutAt = &d.m.Now
	}
	if d.s.State == Pending && d.s.Attempt == 0 && d.s.LeaseOwner == nil {
		d.end(cause.End())
		return true
	}
	d.s.NextRunAt = &d.m.Now // wakes its owner or makes it claimable, immediately
	d.endStop()
	return true
}

func (d *decision) deadline(e DeadlinePassed) bool {
	if at := d.s.Deadline(); at == nil || !at.Equal(e.At) {
		return false
	}
	if d.s.State == Compensating && !d.s.CompensationExpired {
		d.tell(eventtype.DeadlineReached)
		d.s.CompensationExpired = true
		d.s.NextRunAt = &d.m.Now
		return true
	}
	if turnable(&d.After) && d.After.bound() && (d.s.TimedOutAt == nil || d.s.TimedOutAt.Before(e.At)) {
		d.lateAfterPivot()
		return true
	}
	return d.flag(CauseDeadline, "SAGA_TIMEOUT", "deadline", "", "")
}

// Pending describes a decision about the saga that has not been carried out yet, and when it will
// be; "" means none.
func (r *Instance) Pending() string {
	if r.State.Terminal() || !r.Flagged() && !r.ordered() {
		return ""
	}
	when := "this takes effect once no call is in flight"
	if r.SuspendedAt != nil {
		when = "it is suspended, so this takes effect once it is resumed"
	}
	return r.decided() + "; " + when
}

// decided describes a decision about the saga that has not been carried out yet.
func (r *Instance) decided() string {
	switch {
	case r.CompensationExpired && r.State == Compensating:
		return "the deadline of its compensation has passed"
	case r.Flagged() && *r.EndCause == CauseDeadline:
		return "its deadline has passed"
	case r.Flagged():
		return "compensation was requested (" + string(*r.EndCause) + ")"
	}
	return "an operator decided to " + string(r.Interventions.Order.Verb) + " its current step"
}
