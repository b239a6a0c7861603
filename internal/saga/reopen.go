package saga

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/strictjson"
)

// ResumeRequested reopens a FAILED saga whose compensation gave up.
type ResumeRequested struct {
	By, Reason string
	// Step limits the request to the compensation of this step; nil means that all compensations
	// that gave up are repeated.
	Step *int
}

// resume reopens a failed saga to undo the remaining steps. It starts from the compensation that
// gave up, with a fresh retry policy, or from the step at which the saga was forced to fail.
func (d *decision) resume(e ResumeRequested) bool {
	if e.Step != nil && d.s.State == Compensating {
		return d.queue(*e.Step, e.By, e.Reason)
	}
	if !allows(ResumeCompensation, &d.After) {
		d.pivot = d.s.State == Failed && d.After.bound()
		return false
	}
	halted := d.s.Halted()
	if e.Step != nil {
		d.choose(*e.Step)
		if d.s.CurrentStep != *e.Step {
			return false
		}
	} else {
		d.takeAll()
	}
	d.tell(eventtype.ResumeAsked).say(words{By: e.By, Reason: e.Reason})
	d.reopen()
	if halted {
		d.turnHalted()
	} else {
		d.undoAgain()
	}
	return true
}

// reopen returns a failed saga to COMPENSATING.
func (d *decision) reopen() {
	d.alive()
	if d.s.Error != nil && d.s.Error.Cause != nil {
		d.s.Error = d.s.Error.Cause // its cause; a second unclean end must not be appended to the first
	}
	d.to(Compensating)
	d.startCompensation()
	d.s.NextRunAt = &d.m.Now
}

// alive clears the fields that mark the saga as ended.
func (d *decision) alive() {
	d.s.CompletedAt, d.s.Clean = nil, nil
	d.s.NeedsAttention, d.s.AttentionReason = false, nil
	d.s.CompensationExpired = false
	d.s.LeaseOwner = nil
	d.tellLetter(dlq.RetryStarted)
	if d.s.Halted() {
		d.edit().Halted = false
	}
}

// undoAgain repeats the compensation that gave up. Attempt keeps counting, because X-Saga-Attempt
// must only increase (invariant I7).
func (d *decision) undoAgain() {
	d.s.Attempt, d.s.Failures = d.s.Attempt+1, 0
	d.After.undoRefused = false
	d.tellOfStep(eventtype.UndoStarted)
}

// turnHalted starts the compensation of the steps that were done before the saga was forced
// to fail.
func (d *decision) turnHalted() {
	from := d.s.CurrentStep - 1
	if d.s.Uncertain {
		from = max(d.s.CurrentStep, d.reach)
	}
	d.undoFrom(from)
	if !d.s.State.Terminal() {
		d.s.NextRunAt = &d.m.Now
	}
}

// RetryRequested makes the next attempt of a waiting saga due now, with a fresh policy, or lets a
// failed saga go forward again.
type RetryRequested struct {
	By, Reason string
	// FromStep is the index of the first step to run again; nil means the step that failed. Steps
	// from FromStep up to the failed one are undone first.
	FromStep *int
	// Patch is a JSON merge patch (RFC 7396) for that step's input; nil means none.
	Patch json.RawMessage
	// NotApplied means that the operator has verified that no attempt so far was applied.
	NotApplied bool
	// Logs are all step logs of the saga.
	Logs []StepLog
}

// retry makes the next attempt due now, or makes a failed saga run forward again.
func (d *decision) retry(e RetryRequested) bool {
	if !allows(RetryVerb, &d.After) {
		if d.s.State == Failed {
			d.why = "compensation has begun or may have begun, so it must run to its end"
		}
		return false
	}
	if d.s.State == Failed {
		return d.retryFailed(e)
	}
	k := d.s.CurrentStep
	switch {
	case e.FromStep != nil && (*e.FromStep != k || d.s.State == Compensating):
		d.why = "only a failed saga can go back to another step"
		return false
	case e.Patch != nil && d.s.State == Compensating:
		d.why = "a compensation always gets the input of its step"
		return false
	case e.Patch != nil && d.s.LeaseOwner != nil:
		d.why = "its next attempt may be in flight: suspend the saga, then retry with the new input"
		return false
	case e.Patch != nil && d.s.Uncertain && !e.NotApplied:
		d.why = doubtful
		return false
	}
	d.tellOfStep(eventtype.RetryAsked).say(words{By: e.By, Reason: e.Reason, Patched: e.Patch != nil})
	if e.Patch != nil {
		in := strictjson.Merge(d.After.input(k), e.Patch)
		attempts := d.s.Attempt - 1
		d.editStep(k, func(s *StepIntervention) { s.Input, s.Base = in, attempts; s.Runs++ })
		d.s.Uncertain = false
	}
	d.again()
	d.endStop()
	return true
}

// again makes the next attempt of the current call due now, with the full number of attempts.
func (d *decision) again() {
	d.s.Failures, d.s.NextRunAt = 0, &d.m.Now
	if d.s.EndCause == nil {
		d.s.Error = nil // the error of a stop
	}
}

const doubtful = "an attempt may have been applied, and a new input would apply it twice: set not_applied if you have verified that it was not applied"

// retryFailed runs the saga forward again from step n, which is the failed step or an earlier one.
// Steps from n on that were done are undone first.
func (d *decision) retryFailed(e RetryRequested) bool {
	halted := d.s.Halted()
	failed := d.failedStep()
	n := failed
	if e.FromStep != nil {
		n = *e.FromStep
	}
	tried := slices.ContainsFunc(e.Logs, func(l StepLog) bool { return l.StepIndex == failed && l.Action == Compensate })
	last := d.mayHaveRun(failed, e.Logs)
	uncertain := halted && d.s.Uncertain || !halted && (tried || last > failed)
	switch {
	case n > failed:
		d.why = fmt.Sprintf("it has not passed step %q", d.After.Def.Steps[failed].Name)
		return false
	case n < failed && d.After.bound():
		d.pivot = true
		return false
	case e.Patch != nil && n == failed && uncertain && !e.NotApplied:
		d.why = doubtful
		return false
	}
	d.s.CancelRequestedAt = nil
	d.tell(eventtype.RetryAsked).say(words{
		By: e.By, Reason: e.Reason, FromStep: d.After.Def.Steps[n].Name, Patched: e.Patch != nil,
	})
	d.prepare(n, failed, last, e)
	done := n < failed || d.After.outputs[n] != nil // including a step that was forced to fail and then succeeded
	if done && (halted || n <= d.s.CurrentStep) {
		d.reopen()
		if halted {
			d.turnHalted()
		} else {
			d.undoAgain()
		}
		return true
	}
	d.alive()
	d.tellLetter(dlq.HandledManually) // nothing remains to be undone
	d.forward(n, uncertain)
	return true
}

// failedStep returns the step at which a failed saga stopped.
func (d *decision) failedStep() int {
	if d.s.Halted() {
		return d.s.CurrentStep
	}
	for k := range d.After.outputs {
		if d.After.outputs[k] == nil && !d.After.intervened(k).Skipped {
			return k
		}
	}
	return d.s.TotalSteps - 1 // every step was done, and then the saga was compensated on request
}

// mayHaveRun returns the last step of a failed saga that may have been called.
func (d *decision) mayHaveRun(failed int, logs []StepLog) int {
	if d.s.Halted() {
		return max(failed, d.reach)
	}
	last := max(failed, d.s.CurrentStep)
	for i := range logs {
		if l := &logs[i]; l.Action == Compensate && l.Attempt > d.After.base(l.StepIndex, Compensate) {
			last = max(last, l.StepIndex) // even if there was nothing to call
		}
	}
	return last
}

// prepare records where the next runs of the steps start. last is the last step that may have been
// called.
func (d *decision) prepare(n, failed, last int, e RetryRequested) {
	for k := range last + 1 {
		next := NextRun{Base: d.After.base(k, Execute), UndoBase: d.After.base(k, Compensate)}
		for i := range e.Logs {
			switch l := &e.Logs[i]; {
			case l.StepIndex != k:
			case l.Action == Execute:
				next.Base = max(next.Base, l.Attempt)
			case l.Attempt > next.UndoBase:
				next.UndoBase = l.Attempt
				next.Undone = next.Undone || l.Status != LogSkipped
			}
		}
		if d.s.Halted() && k == failed {
			next.Base = max(next.Base, d.s.Attempt)
		}
		if k == n && e.Patch != nil {
			next.Input = strictjson.Merge(d.After.input(k), e.Patch)
		}
		if k >= n || next.UndoBase > d.After.base(k, Compensate) {
			d.editStep(k, func(s *StepIntervention) { s.Next = &next })
		}
	}
	d.edit().RestartAt = &n
}

// undone records that the compensation of step k is over after the given number of attempts.
func (d *decision) undone(k, attempts int, called bool) {
	if called {
		d.After.undone = true
	}
	if i := d.s.Interventions; i != nil && i.RestartAt != nil {
		d.editStep(k, func(s *StepIntervention) {
			next := NextRun{}
			if s.Next != nil {
				next = *s.Next
			}
			next.UndoBase, next.Undone = attempts, next.Undone || called
			s.Next = &next
		})
	}
}

// restart runs the saga forward again after the necessary compensations.
func (d *decision) restart() {
	d.forward(*d.s.Interventions.RestartAt, false)
}

// forward starts again at step n. Every prepared step starts its next run, with a new idempotency
// key if its call has changed. uncertain means that step n may have been applied.
func (d *decision) forward(n int, uncertain bool) {
	i := d.edit()
	i.RestartAt = nil
	first := *i.Steps[n].Next
	anew := d.After.outputs[n] != nil || i.Steps[n].Skipped || first.Input != nil || d.s.State == Compensating
	for k, s := range i.Steps {
		if s.Next == nil {
			continue
		}
		if k >= n && anew {
			s.Runs++
			s.Base, s.Skipped, s.Doubt = s.Next.Base, false, false
		}
		if s.Next.Input != nil {
			s.Input = s.Next.Input
		}
		s.UndoBase = s.Next.UndoBase
		if s.Next.Undone {
			s.Undos++
		}
		s.Next = nil
		i.Steps[k] = s
	}
	d.After = d.After.without(n)
	d.After.undone = false
	d.s.EndCause, d.s.Error, d.s.CompensationExpired = nil, nil, false
	d.atStep(n, Execute)
	d.s.Attempt, d.s.Uncertain = first.Base+1, uncertain && !anew
	d.to(Running)
	if d.s.TimeoutMS != nil {
		d.deadlineIn(*d.s.TimeoutMS)
	}
	if !d.s.Uncertain {
		d.consider()
	}
	if d.s.LeaseOwner == nil && !d.s.State.Terminal() {
		d.s.NextRunAt = &d.m.Now
	}
}
