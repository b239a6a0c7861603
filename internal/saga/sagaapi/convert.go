package sagaapi

import (
	"encoding/json"
	"strconv"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

// definitionID returns the id of a workflow's version, as defined in seed 2.
func definitionID(name string, version int) string { return name + "@" + strconv.Itoa(version) }

// toAPISaga converts a saga without its step logs.
func toAPISaga(run *saga.Instance) *api.Saga {
	s := &run.Saga
	out := &api.Saga{
		SagaID:          s.ID,
		WorkflowName:    s.WorkflowName,
		WorkflowVersion: s.WorkflowVersion,
		DefinitionID:    definitionID(s.WorkflowName, s.WorkflowVersion),
		SagaType:        s.SagaType,
		Name:            s.Name,
		Description:     s.Description,
		BusinessKey:     s.BusinessKey,
		CorrelationID:   s.CorrelationID,
		InitiatedBy:     s.InitiatedBy,
		TraceID:         s.TraceID,
		SpanID:          s.SpanID,
		Payload:         s.Payload,
		Metadata:        s.Metadata,

		Status:      api.SagaStatus(s.State.Status()),
		State:       api.SagaState(s.State.String()),
		Lifecycle:   api.SagaLifecycle(s.State.Lifecycle(s.Clean == nil || *s.Clean)),
		CurrentStep: s.CurrentStep,
		TotalSteps:  s.TotalSteps,

		Error:           ToAPIError(s.Error),
		EndCause:        (*api.EndCause)(s.EndCause),
		Clean:           s.Clean,
		NeedsAttention:  s.NeedsAttention,
		AttentionReason: s.AttentionReason,

		RetryPolicy:           policyJSON(s.RetryPolicy),
		TimeoutMS:             s.TimeoutMS,
		TimeoutAt:             s.TimeoutAt,
		CompensationTimeoutAt: s.CompensationTimeoutAt,
		NextRunAt:             s.NextRunAt,
		SuspendedAt:           s.SuspendedAt,
		CancelRequestedAt:     s.CancelRequestedAt,
		TimedOutAt:            s.TimedOutAt,
		CreatedAt:             s.CreatedAt,
		StartedAt:             s.StartedAt,
		UpdatedAt:             s.UpdatedAt,
		CompletedAt:           s.CompletedAt,
		Version:               s.Version,
		AllowedActions:        actionsOf(run.AllowedActions()),
	}
	if s.CurrentStep < len(run.Def.Steps) {
		out.CurrentStepName = httpkit.UnlessEmpty(run.Def.Steps[s.CurrentStep].Name)
	}
	out.DefinitionUnreadable, out.ContentUnreadable = mark(run.Undefined()), mark(run.ContentUnreadable)
	if s.Error != nil {
		out.ErrorMessage = &s.Error.Message
	}
	if id := s.DeadLetter(); id != uuid.Nil {
		out.DeadLetterID = &id
	}
	out.LeftCompensations = leftOf(run)
	return out
}

// leftOf returns the failed compensations of a saga except the current one.
func leftOf(run *saga.Instance) (all []api.LeftCompensation) {
	for _, k := range run.LeftSteps() {
		l := api.LeftCompensation{StepIndex: k}
		if k < len(run.Def.Steps) {
			l.StepName = httpkit.UnlessEmpty(run.Def.Steps[k].Name)
		}
		if id := run.Interventions.Left[k].Letter; id != uuid.Nil {
			l.DeadLetterID = &id
		}
		all = append(all, l)
	}
	return all
}

// mark returns a response member that is either true or absent.
func mark(is bool) *bool {
	if !is {
		return nil
	}
	return &is
}

func actionsOf(names []string) []api.SagaAction {
	out := make([]api.SagaAction, len(names))
	for i, name := range names {
		out[i] = api.SagaAction(name)
	}
	return out
}

// ToAPIError converts an error of a saga together with its causes.
func ToAPIError(e *saga.Error) *api.SagaError {
	if e == nil {
		return nil
	}
	out := &api.SagaError{
		Code: e.Code, Message: e.Message, Type: e.Type, Retryable: e.Retryable, Timestamp: e.Timestamp,
		Details: e.Details, Cause: ToAPIError(e.Cause),
	}
	if e.StackTrace != "" {
		out.StackTrace = &e.StackTrace
	}
	return out
}

// toAPIStepLogs converts step logs in order. RUNNING rows are included only if running is true
// (requirements/saga.md D7). brief leaves out what view=basic does.
func toAPIStepLogs(logs []saga.StepLog, running, brief bool) []api.StepLog {
	out := make([]api.StepLog, 0, len(logs))
	for i := range logs {
		l := &logs[i]
		if l.Status == saga.LogRunning && !running {
			continue
		}
		row := api.StepLog{
			ID: l.ID, SagaID: l.SagaID, StepIndex: l.StepIndex, StepName: l.StepName,
			Action: api.StepAction(l.Action), Attempt: l.Attempt, Status: api.StepLogStatus(l.Status), Final: l.Final,
			ContentUnreadable: mark(l.ContentUnreadable),
			OutcomeCode:       l.Outcome, RequestPayload: l.Request, ResponsePayload: l.Response, Error: ToAPIError(l.Error),
			StartedAt: l.StartedAt, CompletedAt: l.CompletedAt, DurationMS: l.DurationMS, UpdatedAt: l.UpdatedAt,
		}
		if l.Error != nil {
			row.ErrorMessage = &l.Error.Message
		}
		if brief {
			row.RequestPayload, row.ResponsePayload, row.Error = nil, nil, briefError(row.Error)
		}
		out = append(out, row)
	}
	return out
}

// result returns the result of a completed saga, or nil for other sagas.
func result(run *saga.Instance) (api.AnyJSON, error) {
	switch {
	case run.State != saga.Completed, run.ContentUnreadable:
		return nil, nil
	case run.Result != nil:
		return run.Result, nil
	}
	return json.Marshal(run.Outputs())
}

// policyJSON returns a policy in the form of the contract, or nil if there is none.
func policyJSON(p *retry.Policy) json.RawMessage {
	if p == nil {
		return nil
	}
	b, err := json.Marshal(p)
	if err != nil {
		return nil // impossible: it contains only numbers and known strings
	}
	return b
}

// briefError returns an error without the members that may be long.
func briefError(e *api.SagaError) *api.SagaError {
	if e != nil {
		e.Details, e.StackTrace, e.Cause = nil, nil, nil
	}
	return e
}

// toAPISteps converts the steps of a saga. brief leaves out what view=basic does.
func toAPISteps(views []saga.StepView, brief bool) []api.StepView {
	out := make([]api.StepView, len(views))
	for i := range views {
		v := &views[i]
		out[i] = api.StepView{
			ID: v.ID, SagaID: v.SagaID, StepIndex: v.Index, Name: v.Name,
			State: int(v.State), StateName: api.StepStateName(v.State.String()),
			Attempts: v.Attempts, MaxAttempts: v.MaxAttempts,
			CreatedAt: v.CreatedAt, StartedAt: v.StartedAt, CompletedAt: v.CompletedAt, LastAttemptAt: v.LastAttemptAt,
			InputData: v.Input, OutputData: v.Output, Error: ToAPIError(v.Error),
		}
		out[i].InDoubt, out[i].Skipped = httpkit.UnlessFalse(v.InDoubt), httpkit.UnlessFalse(v.Skipped)
		if u := v.Compensation; u != nil {
			out[i].CompensationState = &api.CompensationState{
				State: int(u.State), StateName: api.CompensationStateName(u.State.String()),
				Attempts: u.Attempts, MaxAttempts: u.MaxAttempts,
				StartedAt: u.StartedAt, CompletedAt: u.CompletedAt, Error: ToAPIError(u.Error),
			}
			if brief {
				briefError(out[i].CompensationState.Error)
			}
		}
		if brief {
			out[i].InputData, out[i].OutputData = nil, nil
			briefError(out[i].Error)
		}
	}
	return out
}
