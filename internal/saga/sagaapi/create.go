package sagaapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// CreateSaga stores a saga and passes it to the engine; on request it then waits for its
// end.
func (s *Handlers) CreateSaga(ctx context.Context, in api.CreateSagaRequestObject) (api.Response, error) {
	wait, waited, err := s.WaitOf(in.Params.Wait, in.Params.Prefer)
	if err != nil {
		return nil, err
	}
	req := httpkit.RequestOf(ctx)
	spec, err := specOf(req, in)
	if err != nil {
		return nil, err
	}
	created, err := s.create(ctx, in.Body, spec, httpkit.KeyOf(req, in.Params.IdempotencyKey), wait > 0)
	if err != nil {
		return nil, err
	}
	earlier := created.replayed || created.joined
	w, ref := created.waiter, saga.Ref{Tenant: req.Tenant.ID, ID: created.id}
	if earlier && wait > 0 {
		w.Stop()
		w = s.watch(ref)
	}
	defer w.Stop()
	var ended *saga.Loaded
	if w != nil {
		ended, err = s.await(ctx, w, ref, wait, !earlier)
	} else {
		waited = ""
	}
	if err != nil {
		return nil, err
	}
	a := httpkit.Answer{Status: http.StatusCreated}
	switch {
	case ended != nil && !earlier:
		run := saga.Rebuild(ended.Saga, created.def, ended.Logs)
		a, err = full(sagaWithLogs{saga: ended.Saga, logs: ended.Logs}, run, shown{})
		a.Status = http.StatusCreated
	case ended != nil:
		a, err = s.endedAnswer(ctx, ended, shown{})
		a.Status = http.StatusCreated
	case wait > 0 || earlier:
		a, err = s.createdEarlier(ctx, req.Tenant.ID, created.id, wait > 0)
	default:
		run := saga.NewInstance(created.saga, created.def)
		a.Body, a.ETag = toAPISaga(&run), httpkit.ETagOf(created.saga.Version)
	}
	if err != nil {
		return nil, err
	}
	if created.joined {
		a.Status = http.StatusOK
	}
	a.Location = "/api/v1/sagas/" + created.id.String()
	a.Replayed, a.Waited = created.replayed, waited
	return a, nil
}

// createdEarlier returns the response to a create whose saga is not the one just stored:
// a replay, or a join by business key.
func (s *Handlers) createdEarlier(ctx context.Context, tenant, id uuid.UUID, logs bool) (httpkit.Answer, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	if !logs {
		return s.head(ctx, tenant, id, http.StatusCreated)
	}
	a, err := s.withLogs(ctx, tenant, id, shown{})
	a.Status = http.StatusCreated
	return a, err
}

// specOf reads the request. ID stays nil when the client gave none; a client's uuid.Nil is
// refused, so the two cannot be confused.
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
	if err := saga.CheckPayload(spec.Payload); err != nil {
		return spec, err
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
		if err := json.Unmarshal(b.RetryPolicy, spec.RetryPolicy); err != nil { // the contract was checked before
			return spec, httpkit.SchemaFault(fault.Field{Pointer: "/retry_policy", Code: "invalid",
				Message: "is not a retry policy"})
		}
	}
	if in.Params.Traceparent != nil {
		spec.TraceID, spec.SpanID = httpkit.TraceOf(*in.Params.Traceparent)
	}
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

// chosen is the definition for a new saga.
type chosen struct {
	def      *workflow.Definition
	version  int
	floating bool // the latest version was requested
}

// choose finds the definition; fresh bypasses the cache. The faults are those of the
// request: 422 for a workflow that does not exist, 409 for a disabled one.
func (s *Handlers) choose(ctx context.Context, tenant uuid.UUID, b *api.SagaInput, fresh bool) (chosen, error) {
	switch {
	case b.Steps != nil:
		if int64(len(b.Steps)) > s.Limits.MaxWorkflowBytes {
			return chosen{}, fault.New(fault.TooLarge, httpkit.CodeTooLarge, "the steps have more than %d bytes", s.Limits.MaxWorkflowBytes)
		}
		w, err := s.definitions.Inline(ctx, tenant, httpkit.Text(b.WorkflowName), b.Steps, fresh, s.Now())
		return chosen{w.Definition, w.Version, false}, err
	case !workflow.ValidName(*b.WorkflowName):
		return chosen{}, noWorkflow("/workflow_name", "there is no workflow %q", httpkit.Clip(*b.WorkflowName))
	case b.WorkflowVersion != nil:
		version := int(*b.WorkflowVersion)
		def, err := s.definitions.Pinned(ctx, tenant, *b.WorkflowName, version, fresh)
		if fault.KindOf(err) == fault.NotFound {
			err = noWorkflow("/workflow_version", "there is no version %d of workflow %q", version, *b.WorkflowName)
		}
		return chosen{def, version, false}, err
	}
	w, err := s.definitions.Latest(ctx, tenant, *b.WorkflowName, fresh)
	if fault.KindOf(err) == fault.NotFound {
		err = noWorkflow("/workflow_name", "there is no workflow %q", *b.WorkflowName)
	}
	return chosen{w.Definition, w.Version, true}, err
}

func noWorkflow(pointer, format string, args ...any) error {
	f := fault.New(fault.Invalid, workflow.CodeNotFound, format, args...)
	return f.With(fault.Field{Pointer: pointer, Code: "not_found", Message: f.Detail})
}

// newSaga returns the first version of the requested saga.
func (s *Handlers) newSaga(req *httpkit.Request, spec saga.Spec, c chosen, owner *int64, now time.Time,
	key *idempotency.Key, join bool) saga.NewSaga {
	spec.TenantInKeys = spec.Tenant.ID != s.Tenant.ID
	return saga.NewSaga{
		Saga:     saga.New(spec, c.def, c.version, owner, now, s.Timeout),
		Floating: c.floating,
		Key:      key,
		Join:     join,
		Actor:    req.Principal, RequestID: req.ID,
	}
}
