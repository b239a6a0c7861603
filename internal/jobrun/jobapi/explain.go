package jobapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/page"
)

// explainedWorkers is the maximum number of workers that are checked for whether they could take a
// run.
const explainedWorkers = 200

// ExplainJobRun explains why a run was or was not started.
func (s *Handlers) ExplainJobRun(ctx context.Context, in api.ExplainJobRunRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	r, err := s.Runs.Run(ctx, tenant, in.RunID)
	if err != nil {
		return nil, err
	}
	situation, err := s.situation(ctx, tenant, r)
	if err != nil {
		return nil, err
	}
	events, err := s.Runs.Events(ctx, tenant, r.ID)
	if err != nil {
		return nil, err
	}
	situation.Decisions = events
	x := jobrun.Explain(situation)
	out := api.JobRunExplanation{
		RunID: r.ID, State: api.JobRunState(r.State), WaitsFor: api.JobRunWaitReason(x.WaitsFor), Summary: x.Summary,
		Since: x.Since, Until: x.Until,
		BlockingRunID: httpkit.UnlessNil(x.Blocking), Decisions: toAPIJobEvents(events), AllowedActions: verbsOf(&r),
	}
	if situation.Leader.Epoch > 0 {
		out.LeaderEpoch, out.LeaderAlive = &situation.Leader.Epoch, &situation.Leader.Alive
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// situation reads the context on which the explanation of a run depends. For an ended run it reads
// nothing.
func (s *Handlers) situation(ctx context.Context, tenant uuid.UUID, r jobrun.Run) (x jobrun.Situation, err error) {
	x.Run = r
	if x.Now, err = s.jobsNow(ctx); err != nil {
		return x, err
	}
	if r.State.Terminal() {
		return x, nil
	}
	if x.Settings, err = s.Settings.Settings(ctx); err != nil {
		return x, err
	}
	if x.Leader, err = s.Elections.Leadership(ctx); err != nil {
		return x, err
	}
	if r.WorkerID != uuid.Nil && r.State != jobrun.Orphaned {
		return x, nil
	}
	if x.Queue, err = s.Queues.Queue(ctx, tenant, r.Queue); err != nil {
		return x, err
	}
	if r.SagaID != uuid.Nil {
		switch of, err := s.Sagas.Get(ctx, tenant, r.SagaID); {
		case err == nil:
			x.SagaSuspended = of.SuspendedAt != nil
		case fault.KindOf(err) != fault.NotFound: // an archived saga cannot be suspended
			return x, err
		}
	}
	if r.ConcurrencyKey != "" {
		f := jobrun.Filter{ConcurrencyKey: r.ConcurrencyKey,
			States: []jobrun.State{jobrun.Assigned, jobrun.Running, jobrun.Orphaned}}
		holders, err := s.Runs.ListRuns(ctx, tenant, f, page.ByTime{Limit: 1})
		if err != nil {
			return x, err
		}
		if len(holders.Items) > 0 {
			x.Holder = &holders.Items[0]
		}
	}
	states := []jobrun.WorkerState{jobrun.WorkerActive, jobrun.WorkerDraining, jobrun.WorkerLost}
	workers, err := s.Workers.ListWorkers(ctx, tenant, states, page.ByTime{Limit: explainedWorkers})
	x.Workers, x.Unknown = workers.Items, workers.More
	return x, err
}
