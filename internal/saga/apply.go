package saga

import (
	"cmp"
	"fmt"
	"time"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga/expression"
)

// decision collects a Change while the rules below work on it.
type decision struct {
	Change
	s       *Saga // = &Change.After.Saga
	m       Moment
	why     string            // a more specific detail than "the saga is …"
	illegal *IllegalEdgeError // the first move that is not in the table, or nil
	pivot   bool              // the event is refused because of the saga's pivot
	passes  bool              // the step after the current one was already called
	// reach and lost describe the current step before the decision (Instance.reach, unanswered).
	reach, lost int
}

// newDecision starts the next version of r.
func newDecision(r *Instance, m Moment) *decision {
	d := &decision{
		Change: Change{Before: Precondition{Version: r.Version, Epoch: r.LeaseEpoch}, After: *r},
		m:      m,
		reach:  r.reach(), lost: r.unanswered(),
	}
	d.Audit = make([]AuditEvent, 0, 3)
	d.s = &d.After.Saga
	d.s.Version++
	d.s.UpdatedAt = m.Now
	return d
}

// refusal is the fault of an event that is not allowed in the state that r had before the event.
func (d *decision) refusal(r *Instance) *fault.Error {
	if r.Erased() {
		d.why = ErasedWhy
	}
	why := cmp.Or(d.why, r.Pending(), "this action is not allowed in this state")
	code := CodeStateConflict
	if d.pivot {
		code, why = CodePivotPassed, r.pivotWhy()
	}
	f := fault.New(fault.Conflict, code, "the saga is %s; %s", r.State, why).Allowing(r.AllowedActions())
	if d.illegal != nil {
		f = f.Because(d.illegal)
	}
	return f
}

// to moves the saga over one edge and records the audit event. If a move is not in the table,
// nothing of the decision reaches a store.
func (d *decision) to(next State) {
	if d.illegal == nil && !edge(d.s.State, next) {
		d.illegal = &IllegalEdgeError{From: d.s.State, To: next}
	}
	e := d.tell(nameOf(d.s.State, next))
	e.Old, e.New = d.s.State, next
	if e.Type == eventtype.StepStarted || e.Type == eventtype.StepFinished {
		e.StepIndex, e.StepName, e.Attempt = d.s.CurrentStep, d.After.Def.Steps[d.s.CurrentStep].Name, d.s.Attempt
	}
	d.s.State = next
}

// dispatched takes the edges implied by a sent call: a saga whose call has an outcome was running,
// even if its row does not show it yet. at is the time at which the call was sent.
func (d *decision) dispatched(at time.Time) {
	if d.s.State == Pending || d.s.State == StepCompleted {
		d.to(Running)
		d.Audit[len(d.Audit)-1].At = at
	}
	if d.s.StartedAt == nil {
		d.s.StartedAt = &d.m.Now
	}
	d.s.NextRunAt = nil
}

func (d *decision) answered(o Outcome) bool {
	if d.s.State.Terminal() || d.s.Attempt == 0 {
		return false
	}
	if o.Verdict == Later && d.answersLater(&o) {
		return true
	}
	if d.s.State == Compensating {
		d.undoAnswered(o)
		return true
	}
	d.dispatched(o.StartedAt)
	d.stepAnswered(d.affordable(o))
	return true
}

// stepAnswered applies the outcome of the current step's action.
func (d *decision) stepAnswered(o Outcome) {
	k := d.s.CurrentStep
	if o.Verdict == Done {
		d.log(Execute, o, LogSuccess, true)
		d.After = d.After.with(k, o.Output)
		d.s.Uncertain = false
		d.progress()
		if d.s.ordered() && d.s.Interventions.Order.Verb == FailStep && d.s.EndCause == nil {
			d.failed(d.orderError())
		}
		d.advance(k, eventtype.StepFinished)
		return
	}
	d.s.Failures++
	d.doubts(o)
	if d.s.EndCause != nil && d.After.bound() {
		d.void()
	}
	policy, past := d.After.policy(k), d.After.past()
	most := policy.MaxAttempts
	if past {
		policy = persists(policy, d.s.Failures)
	}
	ordered := d.s.ordered() && d.s.EndCause == nil
	giveUp := !ordered && gaveUp(policy, o, d.s.Failures)
	d.log(Execute, o, failedStatus(o), giveUp || d.s.EndCause != nil)
	switch {
	case d.s.EndCause != nil:
		d.tellOfFailure(eventtype.StepFailed, o, false)
	case ordered:
		d.tellOfFailure(eventtype.StepFailed, o, false)
		d.s.Attempt++
		d.carryOut()
		return
	case giveUp:
		d.tellOfFailure(eventtype.StepFailed, o, o.Verdict != Refused)
		failure := d.givenUp(o, fmt.Sprintf("step %q: ", d.After.Def.Steps[k].Name))
		if d.After.stops() {
			d.stop(failure)
			return
		}
		d.failed(failure)
	default:
		d.waitForRetry(policy, o)
		if past && d.s.Failures == most {
			d.raise(ReasonFailing, d.outcomeError(o, o.Message))
		}
		return
	}
	d.turnBackHere()
}

// failed records that the current step has failed permanently.
func (d *decision) failed(e *Error) {
	cause := CauseStepFailed
	d.s.EndCause, d.s.Error = &cause, d.following(e)
}

// advance leaves the finished step k. told is the type of its audit event.
func (d *decision) advance(k int, told eventtype.Type) {
	if d.s.EndCause != nil && (d.After.Def.Steps[k].Pivot || d.After.past()) {
		d.void()
	}
	switch {
	case d.s.EndCause != nil && !d.passes: // a flag was committed first; the outcome is kept and undone
		d.tellOfStep(told)
		d.turnBack(max(k, d.reach))
	case k+1 == d.s.TotalSteps:
		d.tellOfStep(told)
		d.s.CurrentStep = d.s.TotalSteps
		d.end(Completed)
	default:
		d.to(StepCompleted)
		d.Audit[len(d.Audit)-1].Type = told
		d.atStep(k+1, Execute)
		d.doubtNext(k)
		d.to(Running) // this commit also stores the intent to call k+1
		d.consider()
	}
}

// consider skips the current step, which has not been called yet, if its condition is false. The
// commit records the decision, so it is not made again after a restart.
func (d *decision) consider() {
	k := d.s.CurrentStep
	if !d.After.Def.Conditional(k) {
		return
	}
	is, err := d.After.Def.When(k, expression.Evaluate(mapped{r: &d.After, step: k, now: d.m.Now}))
	switch {
	case err != nil:
		d.stepAnswered(unmapped(err, d.m.Now))
	case !is:
		d.Logs = append(d.Logs, StepLog{
			ID: d.m.NewID(), SagaID: d.s.ID, StepIndex: k, StepName: d.After.Def.Steps[k].Name, Action: Execute,
			Attempt: d.s.Attempt, Status: LogSkipped, Final: true, Outcome: new(outcomeWhen), StartedAt: d.m.Now,
			CompletedAt: &d.m.Now, UpdatedAt: d.m.Now,
		})
		d.editStep(k, func(s *StepIntervention) { s.Skipped = true })
		d.advance(k, eventtype.StepSkipped)
	}
}

// outcomeWhen is the StepLog.Outcome of a step whose condition was false.
const outcomeWhen = "when"

// undoAnswered applies the outcome of the current step's compensation.
func (d *decision) undoAnswered(o Outcome) {
	k := d.s.CurrentStep
	if o.Verdict == Done {
		d.log(Compensate, o, LogSuccess, true)
		d.s.Uncertain = false
		d.tellLetter(dlq.Succeeded)
		d.progress()
		d.tellOfStep(eventtype.UndoCompleted)
		d.undone(k, d.s.Attempt, true)
		d.undoNext()
		return
	}
	d.s.Failures++
	d.doubts(o)
	policy := d.After.Def.CompensationPolicy(k)
	ordered := d.s.ordered() && !d.s.CompensationExpired
	giveUp := d.s.CompensationExpired || !ordered && gaveUp(policy, o, d.s.Failures)
	d.log(Compensate, o, failedStatus(o), giveUp)
	switch {
	case ordered:
		d.tellOfFailure(eventtype.UndoFailed, o, false)
		d.s.Attempt++
		d.carryOut()
		return
	case !giveUp:
		d.waitForRetry(policy, o)
		return
	}
	d.After.undoRefused = o.Verdict == Refused && !d.s.Uncertain
	d.tellOfFailure(eventtype.UndoFailed, o, o.Verdict != Refused)
	what := fmt.Sprintf("the compensation of step %q gave up: ", d.After.Def.Steps[k].Name)
	d.undoGaveUp(d.givenUp(o, what))
}

// gaveUp reports whether no further attempt may follow. A refusal is definite regardless of its
// class.
func gaveUp(p retry.Policy, o Outcome, failures int) bool {
	return o.Verdict == Refused || o.Last || !p.Allows(o.Class, failures)
}

// slow records the call in flight as RUNNING.
func (d *decision) slow(e Slow) bool {
	if d.s.State.Terminal() || d.s.Attempt == 0 || d.After.recorded || d.After.job() != nil {
		return false
	}
	if d.s.State == Compensating {
		d.s.NextRunAt = nil // driven, not waiting
	} else {
		d.dispatched(e.StartedAt)
	}
	d.Logs = append(d.Logs, d.attempt(d.After.Action(), Outcome{StartedAt: e.StartedAt}, LogRunning))
	d.After.recorded = true
	return true
}

// turnBack starts compensating at step from; -1 means that there is nothing to
// compensate.
func (d *decision) turnBack(from int) {
	d.dropOrder()
	d.to(Compensating)
	d.Audit[len(d.Audit)-1].say(words{Cause: *d.s.EndCause})
	d.startCompensation()
	d.undoFrom(from)
}

func (d *decision) startCompensation() {
	d.StartsCompensation = true
	if d.s.CompensationTimeoutMS == nil && d.m.CompensationTimeout > 0 {
		ms := d.m.CompensationTimeout.Milliseconds()
		d.s.CompensationTimeoutMS = &ms
	}
}

// undoFrom finds the highest step, not above from, that must be compensated, and makes it the
// current one. It records steps without a compensation as SKIPPED. If no step is left, it ends the
// saga or, for a retry, goes forward again. Every step below the first one was done or skipped,
// because steps run in order.
func (d *decision) undoFrom(from int) {
	low := 0
	if i := d.s.Interventions; i != nil && i.RestartAt != nil {
		low = *i.RestartAt
	}
	for k := min(from, len(d.After.Def.Steps)-1); k >= low; k-- {
		if by := d.After.intervened(k); by.Skipped && !by.Doubt {
			continue // never executed
		}
		if !d.After.Def.Steps[k].Compensation.None() {
			d.atStep(k, Compensate)
			d.tellOfStep(eventtype.UndoStarted)
			return
		}
		d.tellSkipped(k)
		d.Logs = append(d.Logs, StepLog{
			ID: d.m.NewID(), SagaID: d.s.ID, StepIndex: k, StepName: d.After.Def.Steps[k].Name, Action: Compensate,
			Attempt: 1 + d.After.base(k, Compensate), Status: LogSkipped, Final: true, StartedAt: d.m.Now, CompletedAt: &d.m.Now,
			UpdatedAt: d.m.Now,
		})
		d.undone(k, 1+d.After.base(k, Compensate), false)
	}
	if d.atBottom() {
		return
	}
	if i := d.s.Interventions; i != nil && i.RestartAt != nil {
		d.restart()
		return
	}
	d.end(d.s.EndCause.End())
}

// atStep makes the first call of step k, in one direction, the call in flight.
func (d *decision) atStep(k int, a Action) {
	d.dropOrder()
	d.s.CurrentStep = k
	d.s.Attempt, d.s.Failures, d.s.Uncertain = 1+d.After.base(k, a), 0, false
	d.After.undoRefused = false
	d.s.NextRunAt = nil
}

func (d *decision) waitForRetry(p retry.Policy, o Outcome) {
	at := d.m.Now.Add(p.Delay(d.s.Failures, d.m.Jitter, o.RetryAfter)).Truncate(time.Microsecond)
	d.s.NextRunAt = &at
	d.s.Attempt++
	e := d.tellOfStep(eventtype.RetryAttempted)
	e.Error = d.outcomeError(o, o.Message)
	e.say(words{Action: d.After.Action(), NextRunAt: &at})
}

func (d *decision) end(final State) {
	d.dropOrder()
	clean := final != Failed && (d.s.Interventions == nil || !d.s.Interventions.Unclean)
	switch {
	case d.s.State != Compensating:
	case final != Failed:
		d.tell(eventtype.CompensationCompleted)
	default:
		d.tell(eventtype.CompensationFailed)
	}
	d.to(final)
	d.Audit[len(d.Audit)-1].Error = d.s.Error
	d.s.Clean = &clean
	d.s.CompletedAt = &d.m.Now
	d.s.NextRunAt, d.s.LeaseOwner = nil, nil
	if d.s.SuspendedAt != nil {
		d.s.SuspendedAt, d.operate().Suspend = nil, new(false)
	}
	if d.s.Stopped() {
		d.edit().Stopped = nil
	}
	d.forgetRepeats(final)
	if final != Failed {
		d.s.NeedsAttention, d.s.AttentionReason = false, nil
	}
	if final == Completed {
		d.result()
	}
}
