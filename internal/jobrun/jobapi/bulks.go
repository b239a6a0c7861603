package jobapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/jobrun"
)

// CreateJobBulk stores a bulk operation, or counts the runs to which it would apply.
func (s *Handlers) CreateJobBulk(ctx context.Context, in api.CreateJobBulkRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	body := in.Body
	now, err := s.jobsNow(ctx)
	if err != nil {
		return nil, err
	}
	f, none, wrong, err := s.filterOfRuns(ctx, &body.Filter)
	switch {
	case err != nil:
		return nil, err
	case wrong != nil:
		return nil, httpkit.SchemaFault(httpkit.InFilter(wrong)...)
	case none:
		return nil, noDefinitionIn(fault.Field{Pointer: "/filter/definition"}, httpkit.Text(body.Filter.Definition))
	}
	b := jobrun.Bulk{
		Head:   s.bulkHead(ctx, in.Params.IdempotencyKey, body.Reason, now),
		Action: jobrun.BulkAction(body.Action),
		Filter: f,
		Before: now,
	}
	if err := jobrun.CheckBulk(&b); err != nil {
		return nil, err
	}
	if body.DryRun != nil && *body.DryRun {
		return s.previewBulk(ctx, b)
	}
	detail := map[string]any{"action": b.Action, "filter": b.Filter}
	if body.Expected != nil {
		b.HaltsAbove, detail["expected"] = body.Expected, *body.Expected
	}
	by := s.Did(ctx, now, operator.JobBulk, b.ID.String(), httpkit.VerbCreate, b.Reason, detail)
	stored, created, err := s.Bulks.CreateBulk(ctx, b, by)
	if err != nil {
		return nil, err
	}
	if !created && !stored.Repeats(b.RequestHash) {
		return nil, idempotency.Used()
	}
	a, err := bulkAnswer(&stored)
	a.Status, a.Location, a.Replayed = http.StatusAccepted, bulkPath(stored.ID), !created
	return a, err
}

// previewBulk computes what a bulk would do to its first runs. It stores nothing.
func (s *Handlers) previewBulk(ctx context.Context, b jobrun.Bulk) (httpkit.Answer, error) {
	n, err := s.Bulks.CountBulk(ctx, b)
	if err != nil {
		return httpkit.Answer{}, err
	}
	now := b.Before
	b.Before = b.Before.Add(bulk.Slack)
	f, p := b.Scope(examined)
	found, err := s.Runs.ListRuns(ctx, b.TenantID, f, p)
	if err != nil {
		return httpkit.Answer{}, err
	}
	all := dryrun.Many{Of: string(api.PlannedChangeOfJobRun)}
	for i := range found.Items {
		all.Add(b.Changes(&found.Items[i], now), 1)
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.JobBulkPreview{
		Matched: n, Examined: len(found.Items), Changes: httpkit.PlannedChanges(all.List()),
	}}, nil
}

// GetJobBulk returns a bulk with its progress.
func (s *Handlers) GetJobBulk(ctx context.Context, in api.GetJobBulkRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	b, err := s.Bulks.GetBulk(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.BulkID)
	if err != nil {
		return nil, err
	}
	return bulkAnswer(&b)
}

// ListJobBulks returns a page of bulks, newest first.
func (s *Handlers) ListJobBulks(ctx context.Context, in api.ListJobBulksRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByTime, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	var state bulk.State
	if p.State != nil {
		state = bulk.State(*p.State)
	}
	found, err := s.Bulks.ListBulks(ctx, req.Tenant.ID, state, asked.Request)
	if err != nil {
		return nil, err
	}
	out := api.JobBulkList{Bulks: make([]api.JobBulk, len(found.Items)),
		Pagination: httpkit.Pagination(asked, found, (*jobrun.Bulk).Place)}
	for i := range found.Items {
		if out.Bulks[i], err = toAPIBulk(&found.Items[i]); err != nil {
			return nil, err
		}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// ResumeJobBulk resumes a halted bulk.
func (s *Handlers) ResumeJobBulk(ctx context.Context, in api.ResumeJobBulkRequestObject) (api.Response, error) {
	return s.moveBulk(ctx, in.BulkID, bulk.Resume, in.Body)
}

// CancelJobBulk ends a bulk.
func (s *Handlers) CancelJobBulk(ctx context.Context, in api.CancelJobBulkRequestObject) (api.Response, error) {
	return s.moveBulk(ctx, in.BulkID, bulk.Cancel, in.Body)
}

func (s *Handlers) moveBulk(
	ctx context.Context, id uuid.UUID, on bulk.Verb, body *api.JobReasonInput,
) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if httpkit.DryRun(ctx) {
		b, err := s.Bulks.GetBulk(ctx, httpkit.RequestOf(ctx).Tenant.ID, id)
		if err != nil {
			return nil, err
		}
		was, err := bulkAnswer(&b)
		if err != nil {
			return nil, err
		}
		if _, err := b.Moved(on, s.Now()); err != nil {
			return nil, err
		}
		out, err := toAPIBulk(&b)
		if err != nil {
			return nil, err
		}
		return httpkit.Would(was, out, func(b *api.JobBulk) **api.PlannedChanges { return &b.Changes })
	}
	by := s.Did(ctx, s.Now(), operator.JobBulk, id.String(), string(on), reasonOf(body), nil)
	b, err := s.Bulks.MoveBulk(ctx, httpkit.RequestOf(ctx).Tenant.ID, id, on, by)
	if err != nil {
		return nil, err
	}
	return bulkAnswer(&b)
}

func noDefinitionIn(at fault.Field, ref string) error {
	f := fault.New(fault.Invalid, jobrun.CodeNotFound, "there is no job definition %s", httpkit.Clip(ref))
	at.Code, at.Message = "not_found", f.Detail
	return f.With(at)
}

func bulkPath(id uuid.UUID) string { return "/api/v1/job-runs/bulk/" + id.String() }

func bulkAnswer(b *jobrun.Bulk) (httpkit.Answer, error) {
	out, err := toAPIBulk(b)
	return httpkit.Answer{Status: http.StatusOK, Body: out, ETag: httpkit.ETagOf(b.Version)}, err
}

func toAPIBulk(b *jobrun.Bulk) (api.JobBulk, error) {
	filter, err := json.Marshal(b.Filter)
	if err != nil {
		return api.JobBulk{}, fmt.Errorf("encode the filter of a bulk: %w", err)
	}
	return api.JobBulk{
		ID: b.ID, Action: api.JobBulkAction(b.Action), State: api.BulkState(b.State), Filter: filter, Matched: b.Matched,
		Done: b.Done, Skipped: b.Skipped, Expected: b.Expected, HaltsAbove: b.HaltsAbove,
		HaltReason: httpkit.UnlessEmpty(b.HaltReason), Found: b.Found,
		AllowedActions: httpkit.Each(b.Actions(), verbOf),
		Reason:         httpkit.UnlessEmpty(b.Reason), Actor: httpkit.UnlessEmpty(b.Actor),
		ActorName: httpkit.UnlessEmpty(b.ActorName), Version: b.Version,
		CreatedAt:        b.CreatedAt,
		EndedAt:          b.EndedAt,
		FilterUnreadable: httpkit.UnlessFalse(b.Unreadable),
		Links:            api.JobLinks{"self": bulkPath(b.ID)},
	}, nil
}
