package jobapi

import (
	"context"
	"net/http"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
)

// ListJobQueues returns a page of queues, ordered by name.
func (s *Handlers) ListJobQueues(ctx context.Context, in api.ListJobQueuesRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	p := in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByName, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	var state jobrun.QueueState
	if p.State != nil {
		state = jobrun.QueueState(*p.State)
	}
	found, err := s.Queues.ListQueues(ctx, httpkit.RequestOf(ctx).Tenant.ID, state, asked.Request)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.JobQueueList{
		Queues:     httpkit.Each(found.Items, toAPIQueue),
		Pagination: httpkit.Pagination(asked, found, func(q *jobrun.RunQueue) string { return q.Name }),
	}}, nil
}

// GetJobQueue returns a queue with the number of its runs.
func (s *Handlers) GetJobQueue(ctx context.Context, in api.GetJobQueueRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	q, err := s.Queues.Queue(ctx, tenant, in.Queue)
	if err != nil {
		return nil, err
	}
	n, err := s.Queues.CountQueue(ctx, tenant, in.Queue)
	if err != nil {
		return nil, err
	}
	out := toAPIQueue(&q)
	out.Waiting, out.Running, out.WaitingIsCapped = &n.Waiting, &n.Running, httpkit.UnlessFalse(n.Capped)
	return httpkit.Answer{Status: http.StatusOK, Body: out, ETag: httpkit.ETagOf(q.Version)}, nil
}

// HoldJobQueue holds a queue until a person releases it.
func (s *Handlers) HoldJobQueue(ctx context.Context, in api.HoldJobQueueRequestObject) (api.Response, error) {
	by, reason := httpkit.RequestOf(ctx).Principal, reasonOf(in.Body)
	return s.changeQueue(ctx, in.Queue, in.Params.IfMatch, "hold", reason,
		func(q jobrun.RunQueue) (jobrun.RunQueue, bool) { return q.Hold(by, reason, s.Now()) })
}

// ReleaseJobQueue makes the runs of a held queue claimable again.
func (s *Handlers) ReleaseJobQueue(ctx context.Context, in api.ReleaseJobQueueRequestObject) (api.Response, error) {
	return s.changeQueue(ctx, in.Queue, in.Params.IfMatch, "release", reasonOf(in.Body),
		func(q jobrun.RunQueue) (jobrun.RunQueue, bool) { return q.Release(s.Now()) })
}

// changeQueue reads a queue, decides, and stores the decision. If the queue was changed in the
// meantime, it starts over.
func (s *Handlers) changeQueue(
	ctx context.Context, name string, match *string, verb, reason string,
	decide func(jobrun.RunQueue) (after jobrun.RunQueue, changed bool),
) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	for range httpkit.Reloads(ctx) {
		q, err := s.Queues.Queue(ctx, httpkit.RequestOf(ctx).Tenant.ID, name)
		if err != nil {
			return nil, err
		}
		switch fits, err := httpkit.IfMatch(match, q.Version); {
		case err != nil:
			return nil, err
		case !fits:
			return nil, httpkit.Stale(jobrun.CodeStale, "queue", q.Version)
		}
		after, changed := decide(q)
		if httpkit.DryRun(ctx) {
			after.Version = q.Version
			return httpkit.Would(queueAnswer(&q), toAPIQueue(&after),
				func(q *api.JobQueue) **api.PlannedChanges { return &q.Changes })
		}
		if !changed {
			return queueAnswer(&q), nil
		}
		by := s.Did(ctx, s.Now(), operator.JobQueue, name, verb, reason, nil).From(q.Audited(), after.Audited())
		switch err := s.Queues.PutQueue(ctx, after, by); {
		case err == nil:
			return queueAnswer(&after), nil
		case !fault.IsCode(err, jobrun.CodeStale):
			return nil, err
		}
	}
	return nil, httpkit.KeepsChanging("queue")
}

func queueAnswer(q *jobrun.RunQueue) httpkit.Answer {
	return httpkit.Answer{Status: http.StatusOK, Body: toAPIQueue(q), ETag: httpkit.ETagOf(q.Version)}
}

func toAPIQueue(q *jobrun.RunQueue) api.JobQueue {
	return api.JobQueue{
		Name: q.Name, State: api.JobQueueState(q.State), Since: q.Since, Reason: httpkit.UnlessEmpty(q.Reason),
		HeldBy: httpkit.UnlessEmpty(q.HeldBy), Version: q.Version,
	}
}
