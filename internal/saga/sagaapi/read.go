package sagaapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/skald-saga/skald/internal/saga/workflow"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/rest"
	"github.com/skald-saga/skald/internal/saga"
)

// GetSaga returns a saga with its step logs, at once or after its end.
func (s *Handlers) GetSaga(ctx context.Context, in api.GetSagaRequestObject) (api.Response, error) {
	wait, waited, err := s.WaitOf(in.Params.Wait, in.Params.Prefer)
	if err != nil {
		return nil, err
	}
	tenant := rest.RequestOf(ctx).Tenant.ID
	if wait > 0 {
		if err := s.awaitEnd(ctx, tenant, in.SagaID, wait); err != nil {
			return nil, err
		}
	}
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	a, err := s.withLogs(ctx, tenant, in.SagaID, slices.Contains(in.Params.Include, "running"))
	if err != nil {
		return nil, err
	}
	a.Waited = waited
	return a.Unchanged(in.Params.IfNoneMatch)
}

// awaitEnd waits for the end of a saga that may already have ended. It watches before it
// reads, so that no end is missed in between.
func (s *Handlers) awaitEnd(ctx context.Context, tenant, id uuid.UUID, wait time.Duration) error {
	ended, stop := s.Engine.Watch(saga.Ref{Tenant: tenant, ID: id})
	defer stop()
	terminal, err := s.terminal(ctx, tenant, id)
	if err != nil || terminal {
		return err
	}
	return s.await(ctx, tenant, id, ended, wait)
}

// withLogs reads a saga, then its logs, so that they are never older than its state.
func (s *Handlers) withLogs(ctx context.Context, tenant, id uuid.UUID, running bool) (rest.Answer, error) {
	f, err := s.find(ctx, tenant, id)
	if err != nil {
		return rest.Answer{}, err
	}
	def, err := s.definitions.Version(ctx, tenant, f.saga.WorkflowName, f.saga.WorkflowVersion)
	if err != nil {
		return rest.Answer{}, pinnedIsGone(err)
	}
	out := f.convert(def)
	out.StepLogs = toAPIStepLogs(f.logs, running)
	run := saga.Rebuild(f.saga, def, f.logs)
	if f.archivedAt == nil {
		out.AllowedActions = actionsOf(run.AllowedActions())
	}
	if out.Result, err = result(&run); err != nil {
		return rest.Answer{}, err
	}
	return rest.Answer{Status: http.StatusOK, Body: out, ETag: f.etag()}, nil
}

// head reads a saga and returns it without step logs.
func (s *Handlers) head(ctx context.Context, tenant, id uuid.UUID, status int) (rest.Answer, error) {
	sg, err := s.Store.Get(ctx, tenant, id)
	f := sagaWithLogs{saga: sg}
	if fault.KindOf(err) == fault.NotFound { // the saga of an idempotency key may be archived
		f, err = s.find(ctx, tenant, id)
	}
	if err != nil {
		return rest.Answer{}, err
	}
	def, err := s.definitions.Version(ctx, tenant, f.saga.WorkflowName, f.saga.WorkflowVersion)
	if err != nil {
		return rest.Answer{}, pinnedIsGone(err)
	}
	return rest.Answer{Status: status, Body: f.convert(def), ETag: f.etag()}, nil
}

// ListStepLogs returns the step logs of a saga.
func (s *Handlers) ListStepLogs(ctx context.Context, in api.ListStepLogsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	tenant := rest.RequestOf(ctx).Tenant.ID
	f, err := s.find(ctx, tenant, in.SagaID)
	if err != nil {
		return nil, err
	}
	list := api.StepLogList{
		Archived: f.archived(), ArchivedAt: f.archivedAt,
		StepLogs: toAPIStepLogs(f.logs, slices.Contains(in.Params.Include, "running")),
	}
	return rest.Answer{Status: http.StatusOK, Body: list, ETag: f.etag()}.Unchanged(in.Params.IfNoneMatch)
}

// ListSteps returns the current state of a saga's steps.
func (s *Handlers) ListSteps(ctx context.Context, in api.ListStepsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	f, run, err := s.look(ctx, in.SagaID)
	if err != nil {
		return nil, err
	}
	steps := toAPISteps(saga.Steps(run, f.logs))
	list := api.StepList{Archived: f.archived(), ArchivedAt: f.archivedAt, Steps: steps}
	return rest.Answer{Status: http.StatusOK, Body: list, ETag: f.etag()}.Unchanged(in.Params.IfNoneMatch)
}

// load reads a live saga of the tenant and rebuilds its run, for an action.
// Faults: NotFound, and Conflict for an archived one.
func (s *Handlers) load(ctx context.Context, tenant, id uuid.UUID) (saga.Instance, []saga.StepLog, error) {
	sg, err := s.Store.Get(ctx, tenant, id)
	if fault.KindOf(err) == fault.NotFound {
		err = s.notLive(ctx, tenant, id)
	}
	if err != nil {
		return saga.Instance{}, nil, err
	}
	logs, err := s.Store.StepLogs(ctx, tenant, id) // after the head: never older than it
	if err != nil {
		return saga.Instance{}, nil, err
	}
	def, err := s.definitions.Version(ctx, tenant, sg.WorkflowName, sg.WorkflowVersion)
	if err != nil {
		return saga.Instance{}, nil, pinnedIsGone(err)
	}
	return saga.Rebuild(sg, def, logs), logs, nil
}

// pinnedIsGone hides the fault of a definition that must exist because a saga is pinned
// to it: the client is not to blame for its absence.
func pinnedIsGone(err error) error {
	return fmt.Errorf("read the definition a saga is pinned to: %v", err) //nolint:errorlint // on purpose, see above
}

// sagaWithLogs is a saga with its logs, live or archived.
type sagaWithLogs struct {
	saga       saga.Saga
	logs       []saga.StepLog
	archivedAt *time.Time // nil: the saga is live
}

// archived is the response member archived, absent for a live saga.
func (f *sagaWithLogs) archived() *bool {
	if f.archivedAt == nil {
		return nil
	}
	return new(true)
}

func (f *sagaWithLogs) etag() string {
	if f.archivedAt != nil {
		return rest.ArchivedETag(f.saga.Version)
	}
	return rest.ETagOf(f.saga.Version)
}

func (f *sagaWithLogs) convert(def *workflow.Definition) *api.Saga {
	out := toAPISaga(&f.saga, def)
	if f.archivedAt != nil {
		out.Archived, out.ArchivedAt = f.archived(), f.archivedAt
		out.AllowedActions = actionsOf(saga.ArchivedActions())
	}
	return out
}
