package saga

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/strictjson"
)

// OutcomeOperator is the StepLog.Outcome of an operator's decision.
const OutcomeOperator = "operator"

// StepOrdered is an operator's decision about the current step, whose index is Step. Actor and
// RequestID of the order are filled in from the Moment.
type StepOrdered struct {
	Step int
	Order
}

// order accepts an operator's decision about the current step. While the saga is driven, a call may
// be in flight, so the order waits for its outcome, as a flag does. If the call succeeds, its
// outcome stands.
func (d *decision) order(e StepOrdered) bool {
	verb := orderVerbs[e.Verb]
	d.pivot = e.Verb == FailStep && orderable(&d.After) && d.After.past()
	switch {
	case !allows(verb, &d.After), e.Verb == UndoneStep && d.s.State != Failed:
		return false
	case e.Step != d.s.CurrentStep && !d.leftToOrder(e.Step):
		d.why = fmt.Sprintf("its current step is %q", d.After.Def.Steps[d.s.CurrentStep].Name)
		return false
	case e.Verb == CompleteStep && d.m.Budget.Saga > 0 && int64(d.After.held()+len(e.Output)) > d.m.Budget.Saga:
		d.why = fmt.Sprintf("with this output, it would be larger than limits.max_saga_bytes allows (%d)", d.m.Budget.Saga)
		return false
	}
	if e.Step != d.s.CurrentStep {
		d.choose(e.Step)
	}
	o := e.Order
	o.Actor, o.ActorName, o.RequestID = d.m.Actor, d.m.ActorName, d.m.RequestID
	d.tellOfStep(eventtype.StepOrder).say(words{
		By: o.By, Reason: o.Reason, Verb: string(o.Verb), Action: d.After.Action(),
	})
	if d.s.State == Failed {
		d.reopen()
		d.s.Attempt, d.s.Failures, d.After.undoRefused = d.s.Attempt+1, 0, false
	}
	d.edit().Order = &o
	if d.s.LeaseOwner == nil && d.After.JobRun() == uuid.Nil && d.After.awaited == nil {
		d.carryOut()
	}
	d.endStop()
	if !d.s.State.Terminal() { // wakes its owner or makes it claimable, immediately
		d.s.NextRunAt = &d.m.Now
	}
	return true
}

// dropOrder forgets an order whose step is no longer the current one.
func (d *decision) dropOrder() {
	if d.s.ordered() {
		d.edit().Order = nil
	}
}

// orderError is the error of a step that an operator caused to fail.
func (d *decision) orderError() *Error {
	o := d.s.Interventions.Order
	text := fmt.Sprintf("step %q: failed manually", d.After.Def.Steps[d.s.CurrentStep].Name)
	if o.By != "" {
		text += " by " + o.By
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return d.newError("SAGA_STEP_FAILED_BY_HAND", typeOperator, text)
}

// carryOut executes the order. No call of the current step is in flight. Attempt is the number of a
// call that was never made, and the order's log uses that number.
func (d *decision) carryOut() {
	o, failure := *d.s.Interventions.Order, d.orderError()
	d.m.Actor, d.m.ActorName, d.m.RequestID = o.Actor, o.ActorName, o.RequestID
	d.edit().Order = nil
	k := d.s.CurrentStep
	if d.s.State == Compensating {
		if d.s.repeats() {
			d.edit().Repeat = false
		}
		d.carryOutUndo(o, failure)
		return
	}
	if o.Verb != FailStep {
		d.s.Error = nil // the error of a stop
	}
	d.dispatched(d.m.Now)
	switch o.Verb {
	case CompleteStep:
		d.logByHand(Execute, LogSuccess, o, nil)
		d.After = d.After.with(k, o.Output)
		d.progress()
		d.advance(k, eventtype.StepFinished)
	case SkipStep:
		d.logByHand(Execute, LogSkipped, o, nil)
		doubt := d.s.Uncertain
		d.editStep(k, func(s *StepIntervention) { s.Skipped, s.Doubt = true, doubt })
		d.progress()
		d.advance(k, eventtype.StepSkipped)
	case FailStep:
		d.logByHand(Execute, LogFailed, o, failure)
		d.tellOfStep(eventtype.StepFailed).Error = failure
		d.failed(failure)
		d.turnBackHere()
	}
}

// carryOutUndo executes an order about the compensation of the current step.
func (d *decision) carryOutUndo(o Order, failure *Error) {
	k := d.s.CurrentStep
	switch o.Verb {
	case CompleteStep:
		d.logByHand(Compensate, LogSuccess, o, nil)
		d.tellOfStep(eventtype.UndoCompleted)
	case SkipStep:
		d.logByHand(Compensate, LogSkipped, o, nil)
		d.tellOfStep(eventtype.UndoCompleted).say(words{By: o.By, Reason: o.Reason, Skipped: true})
		d.edit().Unclean = true // the step's effect remains
	case UndoneStep:
		d.logByHand(Compensate, LogSkipped, o, nil)
		d.tellOfStep(eventtype.UndoCompleted).say(words{By: o.By, Reason: o.Reason, Skipped: true, Verb: string(o.Verb)})
	case FailStep:
		d.logByHand(Compensate, LogFailed, o, failure)
		d.tellOfStep(eventtype.UndoFailed).Error = failure
		d.undoGaveUp(failure)
		return
	}
	d.tellLetter(dlq.HandledManually)
	d.progress()
	d.undone(k, d.s.Attempt, true)
	d.undoNext()
}

// account returns a JSON object with the person who gave the order and the reason.
func (o *Order) account() json.RawMessage {
	doc, err := strictjson.Encode(struct {
		By        string `json:"by,omitempty"`
		Actor     string `json:"actor,omitempty"`
		ActorName string `json:"actor_name,omitempty"`
		Reason    string `json:"reason,omitempty"`
	}{o.By, o.Actor, o.ActorName, o.Reason})
	if err != nil { // cannot happen: the API rejects text that JSON cannot encode
		return json.RawMessage(`{}`)
	}
	return doc
}

// logByHand appends the step log of an operator's decision.
func (d *decision) logByHand(a Action, status LogStatus, o Order, e *Error) {
	l := StepLog{
		ID: d.m.NewID(), SagaID: d.s.ID, StepIndex: d.s.CurrentStep, StepName: d.After.Def.Steps[d.s.CurrentStep].Name,
		Action: a, Attempt: d.s.Attempt, Status: status, Final: true, Outcome: new(OutcomeOperator), Error: e,
		StartedAt: d.m.Now, CompletedAt: &d.m.Now, UpdatedAt: d.m.Now,
	}
	switch {
	case status == LogSuccess:
		l.Response = o.Output
	case o.Verb == UndoneStep: // as if there were nothing to call, but with the operator recorded
		l.Outcome, l.Response = nil, o.account()
	}
	d.Logs = append(d.Logs, l)
}
