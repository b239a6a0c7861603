package sagaapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/admission"
)

// CreateSaga stores a saga and passes it to the engine. On request, it then waits for the saga to
// end.
func (s *Handlers) CreateSaga(ctx context.Context, in api.CreateSagaRequestObject) (api.Response, error) {
	wait, honoured, err := s.WaitOf(in.Params.Wait, in.Params.Prefer)
	if err != nil {
		return nil, err
	}
	req := httpkit.RequestOf(ctx)
	spec, err := specOf(req, in)
	if err != nil {
		return nil, err
	}
	request := &admission.Request{
		Spec: spec, Workflow: workflowOf(in.Body), Key: httpkit.KeyOf(req, in.Params.IdempotencyKey),
		Join:  in.Body.OnConflict != nil && *in.Body.OnConflict == api.SagaInputOnConflictReturnExisting,
		Actor: req.Principal, ActorName: req.Who.Name, RequestID: req.ID, Wait: wait,
	}
	if httpkit.DryRun(ctx) {
		return s.wouldCreate(ctx, request)
	}
	created, err := s.admission.Create(ctx, request)
	if err != nil {
		return nil, err
	}
	a, err := s.created(ctx, &created, wait > 0)
	if err != nil {
		return nil, err
	}
	if a.Status = http.StatusCreated; created.Joined {
		a.Status = http.StatusOK
	}
	if created.Waited {
		a.Waited = honoured
	}
	a.Location = "/api/v1/sagas/" + created.ID.String()
	a.Replayed = created.Replayed
	return a, nil
}

// wouldCreate answers a dry run with the saga as it would be. Its changes are the fields that users
// would see in a new saga.
func (s *Handlers) wouldCreate(ctx context.Context, r *admission.Request) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	would, err := s.admission.Foresee(ctx, r)
	if err != nil {
		return nil, err
	}
	if would.Joined {
		a, err := s.head(ctx, r.Spec.Tenant.ID, would.ID, http.StatusOK)
		if shown, ok := a.Body.(*api.Saga); ok {
			shown.Changes = httpkit.Planned(dryrun.List{})
		}
		return a, err
	}
	run := saga.NewInstance(would.Saga, would.Definition)
	out := toAPISaga(&run)
	changes := dryrun.List{
		{Member: "state", To: string(out.State)}, {Member: "workflow_version", To: strconv.Itoa(out.WorkflowVersion)},
	}
	changes.Differs("business_key", "", httpkit.Text(out.BusinessKey))
	changes.Differs("correlation_id", "", httpkit.Text(out.CorrelationID))
	changes.Differs("deadline", "", dryrun.Text(would.Saga.Deadline()))
	out.Changes = httpkit.Planned(changes)
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// created returns the response with a new saga. logs includes its step logs, because the client
// asked to wait for the end of the saga.
func (s *Handlers) created(ctx context.Context, r *admission.Result, logs bool) (httpkit.Answer, error) {
	switch {
	case r.Ended != nil && !r.Earlier():
		run := saga.Rebuild(r.Ended.Saga, r.Definition, r.Ended.Logs)
		return full(sagaWithLogs{saga: r.Ended.Saga, logs: r.Ended.Logs}, run, shown{})
	case r.Ended != nil:
		return s.endedAnswer(ctx, r.Ended, shown{})
	case logs || r.Earlier():
		return s.createdEarlier(ctx, httpkit.RequestOf(ctx).Tenant.ID, r.ID, logs)
	}
	run := saga.NewInstance(r.Saga, r.Definition)
	return httpkit.Answer{Body: toAPISaga(&run), ETag: httpkit.ETagOf(r.Saga.Version)}, nil
}

// createdEarlier returns the response to a create whose saga is not the one just stored, because it
// is a replay or was joined by its business key.
func (s *Handlers) createdEarlier(ctx context.Context, tenant, id uuid.UUID, logs bool) (httpkit.Answer, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	if !logs {
		return s.head(ctx, tenant, id, http.StatusCreated)
	}
	return s.withLogs(ctx, tenant, id, shown{})
}

// specOf reads the request. ID stays nil if the client gave none. A client's uuid.Nil is rejected,
// so the two cannot be confused.
func specOf(req *httpkit.Request, in api.CreateSagaRequestObject) (saga.Spec, error) {
	b := in.Body
	spec := saga.Spec{
		Tenant: req.Tenant, Name: b.Name, Description: b.Description, BusinessKey: b.BusinessKey,
		CorrelationID: b.CorrelationID, InitiatedBy: req.Principal,
		Payload: b.Payload, Metadata: b.Metadata,
	}
	if string(b.Payload) == "null" {
		spec.Payload = nil
	}
	if b.InitiatedBy != nil {
		spec.InitiatedBy = *b.InitiatedBy
	}
	if b.TimeoutMS != nil {
		spec.TimeoutMS = *b.TimeoutMS
	}
	switch {
	case b.SagaType != nil:
		spec.SagaType = *b.SagaType
	case b.Steps != nil && b.WorkflowName != nil:
		spec.SagaType = saga.TypeOf(*b.WorkflowName) // more meaningful than the name of an inline workflow
	}
	if b.RetryPolicy != nil {
		spec.RetryPolicy = new(retry.Policy)
		if err := json.Unmarshal(b.RetryPolicy, spec.RetryPolicy); err != nil { // the contract has already been checked
			return spec, httpkit.SchemaFault(fault.Field{Pointer: "/retry_policy", Code: "invalid",
				Message: "is not a retry policy"})
		}
	}
	if in.Params.Traceparent != nil {
		spec.TraceID, spec.SpanID = httpkit.TraceOf(*in.Params.Traceparent)
	}
	spec.TraceState, spec.Baggage = in.Params.Tracestate, in.Params.Baggage // see httpkit.CleanTrace
	var wrong fault.Mistakes
	switch {
	case b.SagaID != nil && b.TransactionID != nil && *b.SagaID != *b.TransactionID:
		wrong.Add("/transaction_id", "excluded", "is an alias of saga_id and must equal it")
	case b.SagaID != nil:
		spec.ID = *b.SagaID
	case b.TransactionID != nil:
		spec.ID = *b.TransactionID
	}
	if (b.SagaID != nil || b.TransactionID != nil) && spec.ID == uuid.Nil {
		wrong.Add("/saga_id", "invalid", "must not be all zeros")
	}
	if wrong != nil {
		return spec, httpkit.SchemaFault(wrong...)
	}
	return spec, nil
}

// workflowOf determines which workflow the saga runs.
func workflowOf(b *api.SagaInput) admission.Workflow {
	w := admission.Workflow{Name: httpkit.Text(b.WorkflowName), Steps: b.Steps}
	if b.WorkflowVersion != nil {
		w.Version = new(int(*b.WorkflowVersion))
	}
	return w
}
