package sagaapi

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga"
)

// RetrySaga makes the next attempt of a step immediately, or makes a failed saga run forward again.
func (s *Handlers) RetrySaga(ctx context.Context, in api.RetrySagaRequestObject) (api.Response, error) {
	b := in.Body
	if b == nil {
		b = &api.RetryInput{}
	}
	by, reason := wordsOf(ctx, b.RequestedBy, b.Reason)
	return s.act(ctx, action{in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, in.Params.DryRun,
		func(run *saga.Instance, logs []saga.StepLog) (saga.Event, error) {
			e := saga.RetryRequested{By: by, Reason: reason, Patch: b.InputPatch, NotApplied: b.NotApplied != nil &&
				*b.NotApplied, Logs: logs}
			if b.FromStep != nil {
				k, known := stepOf(run, stepName(b.FromStep))
				if !known {
					return nil, noStep(fault.Invalid).With(fault.Field{Pointer: "/from_step", Code: "not_found", Message: "the workflow has no such step"})
				}
				e.FromStep = &k
			}
			return e, nil
		}})
}

// stepName parses the name of a step, or its index as a number.
func stepName(j json.RawMessage) string {
	var name string
	if json.Unmarshal(j, &name) == nil {
		return name
	}
	return string(j)
}

// stepOf finds a step by its name, or by its index if no step has that name.
func stepOf(run *saga.Instance, name string) (index int, known bool) {
	for k := range run.Def.Steps {
		if run.Def.Steps[k].Name == name {
			return k, true
		}
	}
	k, err := strconv.ParseUint(name, 10, 31)
	return int(k), err == nil && int(k) < len(run.Def.Steps)
}

func noStep(kind fault.Kind) *fault.Error {
	return fault.New(kind, saga.CodeNoStep, "the saga's workflow has no such step")
}

// SkipStep makes a saga continue without its current step.
func (s *Handlers) SkipStep(ctx context.Context, in api.SkipStepRequestObject) (api.Response, error) {
	by, reason := wordsOf(ctx, in.Body.RequestedBy, &in.Body.Reason)
	return s.act(ctx, action{in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, in.Params.DryRun,
		ordered(in.Step, saga.Order{Verb: saga.SkipStep, By: by, Reason: reason})})
}

// CompleteStep records the current step as done outside Skald.
func (s *Handlers) CompleteStep(ctx context.Context, in api.CompleteStepRequestObject) (api.Response, error) {
	by, reason := wordsOf(ctx, in.Body.RequestedBy, &in.Body.Reason)
	o := saga.Order{Verb: saga.CompleteStep, By: by, Reason: reason, Output: in.Body.Output}
	if string(o.Output) == "null" {
		o.Output = nil
	}
	return s.act(ctx, action{in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, in.Params.DryRun,
		ordered(in.Step, o)})
}

// FailStep fails the current step without another attempt.
func (s *Handlers) FailStep(ctx context.Context, in api.FailStepRequestObject) (api.Response, error) {
	by, reason := wordsOf(ctx, in.Body.RequestedBy, &in.Body.Reason)
	return s.act(ctx, action{in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, in.Params.DryRun,
		ordered(in.Step, saga.Order{Verb: saga.FailStep, By: by, Reason: reason})})
}

// ordered returns the event for an operator's decision on the step named in the path.
func ordered(step string, o saga.Order) func(*saga.Instance, []saga.StepLog) (saga.Event, error) {
	return func(run *saga.Instance, _ []saga.StepLog) (saga.Event, error) {
		k, known := stepOf(run, step)
		if !known {
			return nil, noStep(fault.NotFound)
		}
		return saga.StepOrdered{Step: k, Order: o}, nil
	}
}

// SuspendSaga prevents a saga from sending new calls.
func (s *Handlers) SuspendSaga(ctx context.Context, in api.SuspendSagaRequestObject) (api.Response, error) {
	by, reason := words(ctx, in.Body)
	return s.act(ctx, action{in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, in.Params.DryRun,
		always(saga.SuspendRequested{By: by, Reason: reason})})
}

// ResumeSaga ends a suspension.
func (s *Handlers) ResumeSaga(ctx context.Context, in api.ResumeSagaRequestObject) (api.Response, error) {
	b := in.Body
	if b == nil {
		b = &api.ResumeInput{}
	}
	by, reason := wordsOf(ctx, b.RequestedBy, b.Reason)
	return s.act(ctx, action{in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, in.Params.DryRun,
		always(saga.UnsuspendRequested{By: by, Reason: reason, KeepDeadline: b.KeepDeadline != nil && *b.KeepDeadline})})
}

// ExtendDeadline sets a new deadline for the current phase.
func (s *Handlers) ExtendDeadline(ctx context.Context, in api.ExtendDeadlineRequestObject) (api.Response, error) {
	by, reason := wordsOf(ctx, in.Body.RequestedBy, in.Body.Reason)
	e := saga.DeadlineSet{By: by, Reason: reason}
	switch b := in.Body; {
	case b.TimeoutMS != nil:
		e.TimeoutMS = *b.TimeoutMS
	default: // the contract requires one of the two
		if e.TimeoutMS = b.Until.Sub(s.Now()).Milliseconds(); e.TimeoutMS < 1 || e.TimeoutMS > maxDeadline.Milliseconds() {
			return nil, httpkit.SchemaFault(fault.Field{Pointer: "/until", Code: "invalid", Message: "must be in the future, at most a year ahead"})
		}
	}
	return s.act(ctx, action{in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, in.Params.DryRun, always(e)})
}

// maxDeadline is the contract's maximum of timeout_ms.
const maxDeadline = 366 * 24 * time.Hour

// ForceComplete ends a saga as completed, whichever steps are done.
func (s *Handlers) ForceComplete(ctx context.Context, in api.ForceCompleteRequestObject) (api.Response, error) {
	by, reason := wordsOf(ctx, in.Body.RequestedBy, &in.Body.Reason)
	return s.act(ctx, action{in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, in.Params.DryRun,
		always(saga.CompletionForced{By: by, Reason: reason, Result: in.Body.Result})})
}

// ForceFail ends a saga as failed, without further compensation.
func (s *Handlers) ForceFail(ctx context.Context, in api.ForceFailRequestObject) (api.Response, error) {
	by, reason := wordsOf(ctx, in.Body.RequestedBy, &in.Body.Reason)
	return s.act(ctx, action{in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, in.Params.DryRun,
		always(saga.FailureForced{By: by, Reason: reason})})
}

// AcknowledgeSaga records that an operator has looked at a saga that needs attention.
func (s *Handlers) AcknowledgeSaga(ctx context.Context, in api.AcknowledgeSagaRequestObject) (api.Response, error) {
	by, reason := words(ctx, in.Body)
	return s.act(ctx, action{in.SagaID, in.Params.IdempotencyKey, in.Params.IfMatch, in.Params.DryRun,
		always(saga.Acknowledged{By: by, Reason: reason})})
}
