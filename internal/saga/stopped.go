package saga

import (
	"math"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/retry"
)

// A failed step may suspend its saga for an operator instead of compensating it (on_failure:
// suspend). After the pivot of its workflow, a saga is never compensated (decision 0147).

// past reports whether the saga has passed its pivot, after which nothing is undone.
func (r *Instance) past() bool {
	if r.Def == nil || !r.State.Forward() && !r.Halted() {
		return false
	}
	pivot := r.Def.Pivot()
	return pivot >= 0 && r.CurrentStep > pivot
}

// bound reports whether the saga must not be compensated unless an operator states that its pivot
// was not done. This is the case if the saga has passed the pivot or may have passed it, and the
// pivot itself cannot be undone.
func (r *Instance) bound() bool {
	if r.past() {
		return true
	}
	if r.Def == nil || r.CurrentStep >= len(r.Def.Steps) || !r.State.Forward() && !r.Halted() {
		return false
	}
	step := &r.Def.Steps[r.CurrentStep]
	return step.Pivot && r.Uncertain && step.Compensation.None()
}

// stops reports whether the failure of the current step suspends the saga.
func (r *Instance) stops() bool { return r.bound() || r.Def.SuspendsOn(r.CurrentStep) }

// pivotWhy returns the reason why a bound saga is not compensated.
func (r *Instance) pivotWhy() string {
	pivot := r.Def.Steps[r.Def.Pivot()].Name
	if r.past() {
		return "its pivot, step \"" + pivot + "\", is done, so it can only go forward"
	}
	return "its pivot, step \"" + pivot + "\", may be done and cannot be undone: retry or complete the step, or let it " +
		"fail if you have verified that it was not done"
}

// OnlyForward returns the reason why the saga must not be compensated, as a phrase; "" means that
// it may be.
func (r *Instance) OnlyForward() string {
	if !r.bound() {
		return ""
	}
	return r.pivotWhy()
}

// stop suspends the saga at its current step, which has failed because of e. Attempt becomes the
// number of the next call, which an operator may order. The deadline keeps running.
func (d *decision) stop(e *Error) {
	d.edit().Stopped = &Stop{Besides: d.s.SuspendedAt != nil}
	if d.s.SuspendedAt == nil {
		d.s.SuspendedAt, d.operate().Suspend = &d.m.Now, new(true)
		d.tell(eventtype.Suspended)
	}
	d.s.Attempt++
	d.s.NextRunAt = &d.m.Now
	d.s.Error = e
	d.raise(ReasonStepFailed, e)
}

// endStop lets a stopped saga continue, unless an operator has also suspended it. Error is kept for
// operators who then compensate the saga because of it.
func (d *decision) endStop() {
	if !d.s.Stopped() {
		return
	}
	if !d.s.Interventions.Stopped.Besides {
		d.s.SuspendedAt, d.operate().Suspend = nil, new(false)
		d.tell(eventtype.Unsuspended)
	}
	d.edit().Stopped = nil
	d.progress()
}

// following returns e with the error that had stopped the saga earlier as its cause.
func (d *decision) following(e *Error) *Error {
	if d.s.Error == nil {
		return e
	}
	c := *e
	c.Cause = d.s.Error
	return &c
}

// raise marks the saga as needing attention because of reason. e may be nil.
func (d *decision) raise(reason string, e *Error) {
	d.s.NeedsAttention, d.s.AttentionReason = true, &reason
	told := d.tell(eventtype.AttentionRaised)
	told.Error = e
	told.say(words{Reason: reason})
}

// lateAfterPivot records that the deadline of a saga that can no longer be compensated has passed.
func (d *decision) lateAfterPivot() {
	d.tell(eventtype.DeadlineReached)
	d.s.TimedOutAt = &d.m.Now
	if at := d.s.TimeoutAt; at.After(d.m.Now) { // according to the database's clock
		d.s.TimedOutAt = at // so that the same deadline does not pass twice (Ownership.Overdue)
	}
	if !d.s.NeedsAttention {
		d.raise(ReasonPivotDeadline, nil)
	}
}

// void drops the flag of a saga that was to be compensated, because its pivot has since been done
// or may have been done.
func (d *decision) void() {
	reason := ReasonPivotCancel
	if *d.s.EndCause == CauseDeadline {
		reason = ReasonPivotDeadline
	}
	d.s.EndCause, d.s.Error, d.s.CancelRequestedAt = nil, nil, nil
	d.raise(reason, nil)
}

// persists turns p into the policy of a step after the pivot. It never gives up because of the
// number of attempts; after max_attempts it uses the longest interval.
func persists(p retry.Policy, failures int) retry.Policy {
	if failures >= p.MaxAttempts {
		p.InitialIntervalMS = max(p.InitialIntervalMS, p.MaxIntervalMS)
	}
	p.MaxAttempts = math.MaxInt
	return p
}
