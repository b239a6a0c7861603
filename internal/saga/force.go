package saga

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/saga/expression"
)

// Acknowledged means that an operator has seen that the saga needs attention.
type Acknowledged struct{ By, Reason string }

// acknowledge clears the need for attention after an operator has seen it.
func (d *decision) acknowledge(e Acknowledged) bool {
	if !allows(Acknowledge, &d.After) {
		return false
	}
	d.s.NeedsAttention, d.s.AttentionReason = false, nil
	d.tell(eventtype.AttentionCleared).say(words{By: e.By, Reason: e.Reason})
	return true
}

// neglected marks a saga that makes no progress as needing attention.
func (d *decision) neglected(e Neglected) bool {
	if d.s.State.Terminal() || d.s.NeedsAttention {
		return false
	}
	d.s.NeedsAttention, d.s.AttentionReason = true, &e.Reason
	d.tell(eventtype.AttentionRaised).say(words{Reason: e.Reason})
	return true
}

// progress records that the saga makes progress, and clears an attention reason that claims the
// opposite.
func (d *decision) progress() {
	if d.s.NeedsAttention {
		d.s.NeedsAttention, d.s.AttentionReason = false, nil
		d.tell(eventtype.AttentionCleared)
	}
}

// SuspendRequested stops new calls from being sent.
type SuspendRequested struct{ By, Reason string }

// suspend stops new calls of the saga. The call in flight is finished and recorded.
func (d *decision) suspend(e SuspendRequested) bool {
	if !allows(SuspendVerb, &d.After) {
		return false
	}
	d.s.SuspendedAt, d.operate().Suspend = &d.m.Now, new(true)
	d.tell(eventtype.Suspended).say(words{By: e.By, Reason: e.Reason})
	return true
}

// UnsuspendRequested ends a suspension. The deadline is extended by the duration of the suspension,
// unless KeepDeadline is set.
type UnsuspendRequested struct {
	By, Reason   string
	KeepDeadline bool
}

func (d *decision) unsuspend(e UnsuspendRequested) bool {
	if !allows(ResumeVerb, &d.After) {
		return false
	}
	if at := d.s.Deadline(); at != nil && !e.KeepDeadline && !d.s.DeadlineCounts() {
		// Both times come from the database, and so will the new deadline.
		d.deadlineIn(max(at.Sub(*d.s.SuspendedAt), 0).Milliseconds())
	}
	d.s.SuspendedAt, d.operate().Suspend = nil, new(false)
	d.tell(eventtype.Unsuspended).say(words{By: e.By, Reason: e.Reason})
	if d.s.Stopped() { // resuming ends a stop in the same way as a retry
		d.edit().Stopped = nil
		d.progress()
		d.again()
	}
	return true
}

// DeadlineSet gives the current phase a new deadline, TimeoutMS from now.
type DeadlineSet struct {
	By, Reason string
	TimeoutMS  int64
}

func (d *decision) setDeadline(e DeadlineSet) bool {
	if !allows(ExtendDeadline, &d.After) {
		return false
	}
	d.deadlineIn(e.TimeoutMS)
	d.tell(eventtype.DeadlineChanged).say(words{By: e.By, Reason: e.Reason, Deadline: d.s.Deadline()})
	return true
}

// deadlineIn sets the deadline of the current phase. The store sets it again according to its own
// clock.
func (d *decision) deadlineIn(ms int64) {
	at := d.m.Now.Add(time.Duration(ms) * time.Millisecond)
	*d.s.phaseDeadline(), d.operate().DeadlineInMS = &at, &ms
}

// CompletionForced ends a saga as completed. Result is canonical JSON. If it is nil, the result is
// the one declared by the workflow, as far as the outputs so far determine it.
type CompletionForced struct {
	By, Reason string
	Result     json.RawMessage
}

// forceCompletion ends the saga as completed, regardless of which steps were done.
func (d *decision) forceCompletion(e CompletionForced) bool {
	if !allows(ForceComplete, &d.After) {
		return false
	}
	d.tell(eventtype.ForceAsked).say(words{By: e.By, Reason: e.Reason, Verb: string(ForceComplete)})
	if d.s.State == Pending {
		d.dispatched(d.m.Now)
	}
	d.abandon(e.By)
	d.s.Error = nil // the error of a stop
	d.s.CurrentStep = d.s.TotalSteps
	if e.Result != nil {
		d.s.Result, d.operate().Result = e.Result, true
	}
	d.end(Completed)
	return true
}

// FailureForced ends a saga as failed, immediately.
type FailureForced struct{ By, Reason string }

// forceFailure ends the saga as failed. Its effects may remain.
func (d *decision) forceFailure(e FailureForced) bool {
	if !allows(ForceFail, &d.After) {
		return false
	}
	d.tell(eventtype.ForceAsked).say(words{By: e.By, Reason: e.Reason, Verb: string(ForceFail)})
	if d.s.State == Pending {
		d.dispatched(d.m.Now)
	}
	d.abandon(e.By)
	if d.s.State != Compensating {
		d.edit().Halted = true
		if d.s.EndCause == nil {
			cause := CauseOperator
			d.s.EndCause = &cause
		}
	}
	text := "forced to fail"
	if e.By != "" {
		text += " by " + e.By
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	d.dirtyEnd(d.newError(forcedError, typeOperator, text), ReasonForced)
	return true
}

// forcedError is the error code of a saga that was forced to fail.
const forcedError = "SAGA_FORCE_FAILED"

// abandon records the call that may be in flight and whose answer will be ignored. Such a call may
// exist even if the saga is waiting for a due time, because that time passes by the driver's clock.
func (d *decision) abandon(by string) {
	if d.s.LeaseOwner == nil && d.After.JobRun() == uuid.Nil && d.After.awaited == nil {
		return
	}
	a := d.After.Action()
	d.s.Uncertain = true
	step := d.After.Def.Steps[d.s.CurrentStep].Name
	if step == "" { // the definition cannot be read, so no log may claim a step name
		return
	}
	text := fmt.Sprintf("an operator ended the saga before the response for step %q arrived", step)
	d.logByHand(a, LogFailed, Order{By: by}, d.newError("abandoned", typeOperator, text))
	d.Logs[len(d.Logs)-1].Completes = d.After.recorded
	if run := d.After.JobRun(); run != uuid.Nil {
		d.Steer = &RunSteer{ID: run, Stop: true, Actor: d.m.Actor, Why: text}
	}
	d.After.recorded, d.After.awaited = false, nil
}

// result computes the declared result of a completed saga.
func (d *decision) result() {
	if d.s.Result != nil || d.After.Def.Output == nil {
		return
	}
	result, missing, computed := d.After.Def.Outcome(expression.Evaluate(mapped{r: &d.After, step: -1}))
	if !computed {
		result, missing = d.After.Def.Result(d.s.Payload, d.After.Outputs())
	}
	d.s.Result, d.operate().Result = result, true
	if missing != nil {
		d.Audit[len(d.Audit)-1].say(words{Missing: missing})
	}
}
