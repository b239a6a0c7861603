package saga

import (
	"cmp"
	"time"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

// A participant that cannot answer immediately answers "later" and reports the outcome to the
// callback URL of the call (decision 0163). Until then the attempt keeps its RUNNING step log,
// which has an outcome code of its own. The saga has no owner and is due at the end of the wait, so
// it is never forgotten (invariant I1) and nothing polls. A report is written against the version
// that it was checked against, and completes that log. It decides at most one attempt, and only
// once (invariant I20).

// answersLater starts the wait for a report. If the saga must continue without it, o becomes the
// outcome of a wait that has ended.
func (d *decision) answersLater(o *Outcome) (waits bool) {
	r := &d.After
	if r.Flagged() || r.ordered() || d.laterWait() == 0 {
		*o = d.unreported(*o)
		return false
	}
	if d.s.State != Compensating {
		d.dispatched(o.StartedAt)
	}
	l := d.attempt(r.Action(), *o, LogRunning)
	l.Outcome = new(reported.CodeLater)
	d.s.Uncertain = d.s.Uncertain || o.InDoubt
	d.await(l)
	return true
}

// await makes the saga wait for a report from now on. l is the step log of the attempt.
func (d *decision) await(l StepLog) {
	d.Logs = append(d.Logs, l)
	l.Completes = false
	d.After.recorded, d.After.awaited = true, &l
	until := d.m.Now.Add(d.laterWait()).Truncate(time.Microsecond)
	d.s.NextRunAt, d.s.LeaseOwner = &until, nil
}

// laterWait returns how long the current call may wait for a report. It is 0 if the rules of the
// call do not announce a report.
func (d *decision) laterWait() time.Duration {
	return d.After.Def.LaterWait(d.s.CurrentStep, d.s.State == Compensating)
}

// waitOver ends a wait without a report, because its time has passed or the saga must continue
// without it.
func (d *decision) waitOver() bool {
	r := &d.After
	ends := r.Flagged() || r.ordered()
	if !ends && (d.s.SuspendedAt != nil || d.s.NextRunAt != nil && d.s.NextRunAt.After(d.m.Now)) {
		return false
	}
	d.s.NextRunAt = nil
	d.reportedAs(d.unreported(r.awaited.outcome()))
	return true
}

// outcome returns an outcome with the details of the call that the attempt's log contains.
func (l *StepLog) outcome() Outcome {
	return Outcome{Request: l.Request, Parts: l.Parts, StartedAt: l.StartedAt}
}

// unreported returns the outcome of an attempt whose report is no longer awaited.
func (d *decision) unreported(o Outcome) Outcome {
	o.Verdict, o.Class, o.EndedAt = Unknown, retry.Timeout, d.m.Now
	o.Code, o.Message = reported.CodeExpired, "the participant answered later, but no report or heartbeat arrived within "+
		d.laterWait().String()
	if r := &d.After; r.Flagged() || r.ordered() {
		o.Code, o.Message = reported.CodeEnded, "the wait for its report has ended: "+r.decided()
	}
	return o
}

// reported applies a report.
func (d *decision) reported(e Reported) bool {
	r := &d.After
	if r.awaited == nil || d.s.State.Terminal() || e.Attempt != r.InFlight() {
		return false
	}
	if e.Beat != nil {
		if r.Flagged() || r.ordered() {
			return false // the wait is over as soon as a driver notices it
		}
		l := *r.awaited
		beat := *e.Beat
		beat.At = d.m.Now
		if last := reported.ProgressIn(l.Response); last != nil {
			beat.Percent = cmp.Or(beat.Percent, last.Percent)
			beat.Message = cmp.Or(beat.Message, last.Message)
		}
		l.Response, l.UpdatedAt, l.Completes = beat.Stored(), d.m.Now, true
		d.await(l)
		return true
	}
	o, sent := e.Outcome, r.awaited.outcome()
	o.Request, o.Parts, o.StartedAt, o.EndedAt = sent.Request, sent.Parts, sent.StartedAt, d.m.Now
	d.s.NextRunAt = nil
	d.reportedAs(o)
	return true
}

// reportedAs applies the outcome of an attempt whose report the saga was waiting for.
func (d *decision) reportedAs(o Outcome) {
	if d.s.State == Compensating {
		d.undoAnswered(o)
		return
	}
	d.stepAnswered(d.affordable(o))
}

// Awaited returns the log of the attempt whose report the saga is waiting for, or nil if there is
// none.
func (r *Instance) Awaited() *StepLog { return r.awaited }

// InFlight is the attempt in flight, as identified by a callback URL.
func (r *Instance) InFlight() reported.Attempt {
	return reported.Attempt{
		Tenant: r.Tenant.ID, Saga: r.ID, Step: r.CurrentStep, Undo: r.State == Compensating, Number: r.Attempt,
	}
}
