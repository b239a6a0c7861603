package workerapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/principal"
)

const workersURL = "/api/v1/workers/"

// RegisterWorker stores a worker that is starting (W1).
func (s *Handlers) RegisterWorker(ctx context.Context, in api.RegisterWorkerRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	req, b, now := httpkit.RequestOf(ctx), in.Body, s.Now()
	settings, err := s.Current(ctx)
	if err != nil {
		return nil, err
	}
	w := jobrun.WorkerProcess{
		ID: s.NewID(), TenantID: req.Tenant.ID, Version: 1, State: jobrun.WorkerActive, Name: b.Name,
		Node:       httpkit.Text(b.Node),
		SDK:        httpkit.Text(b.Sdk),
		SDKVersion: httpkit.Text(b.Version), Labels: jobrun.Pairs(b.Labels), Queues: distinct(b.Queues),
		Commands: distinct(b.Commands),
		MaxRuns:  settings.Int(jobrun.MaxRunsPerWorker), Principal: req.Principal, RegisteredAt: now, HeartbeatAt: now,
	}
	if b.Pid != nil {
		w.PID = *b.Pid
	}
	if b.MaxRuns != nil {
		w.MaxRuns = min(w.MaxRuns, int(*b.MaxRuns))
	}
	if len(w.Queues) == 0 {
		w.Queues = []string{jobrun.DefaultQueue}
	}
	if err := checkWorker(&w); err != nil {
		return nil, err
	}
	if err := req.Who.RequireQueues(w.Queues); err != nil {
		return nil, err
	}
	if err := s.Work.Register(ctx, w); err != nil {
		return nil, err
	}
	s.waits.Know(&w)
	return httpkit.Answer{
		Status: http.StatusCreated, Location: workersURL + w.ID.String(),
		Body: api.WorkerRegistration{
			//nolint:gosec // at most 10,000
			WorkerID: w.ID, State: api.WorkerState(w.State), MaxRuns: int32(w.MaxRuns), SettingsVersion: settings.Version,
			HeartbeatIntervalMS: settings.Seconds(jobrun.HeartbeatInterval).Milliseconds(),
			HeartbeatTTLMS:      settings.Seconds(jobrun.HeartbeatTTL).Milliseconds(),
			RunLeaseMS:          settings.Seconds(jobrun.RunLease).Milliseconds(),
			AssignLeaseMS:       settings.Seconds(jobrun.AssignLease).Milliseconds(),
		},
	}, nil
}

// checkWorker rejects the reserved queue and labels without a name. Fault: Invalid.
func checkWorker(w *jobrun.WorkerProcess) error {
	if slices.Contains(w.Queues, jobrun.SystemQueue) {
		return httpkit.SchemaFault(fault.Field{Pointer: "/queues", Code: "reserved",
			Message: "must not contain " + jobrun.SystemQueue + ", which is reserved"})
	}
	for _, l := range w.Labels {
		if l[0] == '=' {
			return httpkit.SchemaFault(fault.Field{Pointer: "/labels", Code: "minLength",
				Message: "must not contain a label with an empty name"})
		}
	}
	return nil
}

// distinct returns the distinct texts, sorted; it never returns nil.
func distinct(list []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(append([]string{}, list...))))
}

// ListWorkers returns a page of workers, newest first.
func (s *Handlers) ListWorkers(ctx context.Context, in api.ListWorkersRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByTime, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	states := make([]jobrun.WorkerState, len(p.State))
	for i, st := range p.State {
		states[i] = jobrun.WorkerState(st)
	}
	found, err := s.Workers.ListWorkers(ctx, req.Tenant.ID, states, asked.Request)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.WorkerList{
		Workers:    httpkit.Each(found.Items, toAPIWorker),
		Pagination: httpkit.Pagination(asked, found, (*jobrun.WorkerProcess).Place),
	}}, nil
}

// GetWorker returns one worker.
func (s *Handlers) GetWorker(ctx context.Context, in api.GetWorkerRequestObject) (api.Response, error) {
	w, err := s.worker(ctx, in.WorkerID)
	if err != nil {
		return nil, err
	}
	return workerAnswer(&w), nil
}

// worker reads one worker. Fault: NotFound.
func (s *Handlers) worker(ctx context.Context, id uuid.UUID) (jobrun.WorkerProcess, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	return s.Workers.Worker(ctx, httpkit.RequestOf(ctx).Tenant.ID, id)
}

// DrainWorker stops assigning runs to a worker. A caller that has only jobs:work can drain only the
// workers that it registered.
func (s *Handlers) DrainWorker(ctx context.Context, in api.DrainWorkerRequestObject) (api.Response, error) {
	if req := httpkit.RequestOf(ctx); !req.Who.Role.Allows(principal.JobsWrite) {
		w, err := s.worker(ctx, in.WorkerID)
		if err != nil {
			return nil, err
		}
		if w.Principal != req.Principal {
			return nil, fault.New(fault.Forbidden, principal.CodeForbidden,
				"this worker was registered by another credential: draining it requires the permission %s", principal.JobsWrite)
		}
		if err := req.Who.RequireQueues(w.Queues); err != nil {
			return nil, err
		}
	}
	return s.moveWorker(ctx, in.WorkerID, jobrun.WorkerDraining, "drain", in.Body)
}

// UndrainWorker makes it possible again to assign runs to a worker.
func (s *Handlers) UndrainWorker(ctx context.Context, in api.UndrainWorkerRequestObject) (api.Response, error) {
	return s.moveWorker(ctx, in.WorkerID, jobrun.WorkerActive, "undrain", in.Body)
}

// DetachWorker removes a worker and gives up its runs.
func (s *Handlers) DetachWorker(ctx context.Context, in api.DetachWorkerRequestObject) (api.Response, error) {
	return s.moveWorker(ctx, in.WorkerID, jobrun.WorkerDetached, "detach", in.Body)
}

// UndetachWorker lets a detached worker return with its next heartbeat.
func (s *Handlers) UndetachWorker(ctx context.Context, in api.UndetachWorkerRequestObject) (api.Response, error) {
	return s.moveWorker(ctx, in.WorkerID, jobrun.WorkerLost, "undetach", in.Body)
}

func (s *Handlers) moveWorker(ctx context.Context, id uuid.UUID, to jobrun.WorkerState, verb string,
	b *api.WorkerActionInput) (httpkit.Answer, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if b == nil {
		b = &api.WorkerActionInput{}
	}
	if httpkit.DryRun(ctx) {
		return s.workerWould(ctx, id, to)
	}
	w, err := s.Workers.Move(ctx, httpkit.RequestOf(ctx).Tenant.ID, id, to,
		s.Did(ctx, s.Now(), operator.JobWorker, id.String(), verb, httpkit.Text(b.Reason), nil))
	if err != nil {
		return httpkit.Answer{}, err
	}
	return workerAnswer(&w), nil
}

// workerWould responds to a dry run with the worker as it would be stored.
func (s *Handlers) workerWould(ctx context.Context, id uuid.UUID, to jobrun.WorkerState) (httpkit.Answer, error) {
	before, err := s.worker(ctx, id)
	if err != nil {
		return httpkit.Answer{}, err
	}
	after := before
	if _, err := after.Moved(to, s.Now()); err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Would(workerAnswer(&before), toAPIWorker(&after),
		func(w *api.Worker) **api.PlannedChanges { return &w.Changes })
}

func workerAnswer(w *jobrun.WorkerProcess) httpkit.Answer {
	return httpkit.Answer{Status: http.StatusOK, Body: toAPIWorker(w), ETag: httpkit.ETagOf(w.Version)}
}

func toAPIWorker(w *jobrun.WorkerProcess) api.Worker {
	out := api.Worker{
		WorkerID: w.ID, Version: w.Version, State: api.WorkerState(w.State), Name: w.Name, Node: httpkit.UnlessEmpty(w.Node),
		Sdk: httpkit.UnlessEmpty(w.SDK),
		//nolint:gosec // at most 10,000
		SdkVersion: httpkit.UnlessEmpty(w.SDKVersion), Labels: w.Labels, Queues: w.Queues, Commands: w.Commands,
		MaxRuns: int32(w.MaxRuns),
		//nolint:gosec // at most 10,000
		Running: int32(w.Running), Load: w.Load, HeartbeatSeq: &w.HeartbeatSeq, Principal: httpkit.UnlessEmpty(w.Principal),
		RegisteredAt: w.RegisteredAt, HeartbeatAt: w.HeartbeatAt, DrainAt: w.DrainAt, LostAt: w.LostAt,
		DetachedAt: w.DetachedAt,
		Reason:     httpkit.UnlessEmpty(w.Reason), AllowedActions: w.Actions(),
	}
	if w.PID != 0 {
		out.Pid = &w.PID
	}
	return out
}
