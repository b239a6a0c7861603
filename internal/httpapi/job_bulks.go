package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// CreateJobBulk stores a bulk, or counts what it would concern.
func (s *jobHandlers) CreateJobBulk(ctx context.Context, in api.CreateJobBulkRequestObject) (api.Response, error) {
	ctx, cancel := s.promised(ctx)
	defer cancel()
	req, body := requestOf(ctx), in.Body
	now, err := s.jobsNow(ctx)
	if err != nil {
		return nil, err
	}
	f, none, wrong, err := s.filterOfRuns(ctx, &body.Filter)
	for i := range wrong {
		wrong[i].Pointer = "/filter/" + wrong[i].Pointer
	}
	switch {
	case err != nil:
		return nil, err
	case wrong != nil:
		return nil, schemaFault(wrong...)
	case none:
		return nil, noDefinitionIn("/filter/definition", text(body.Filter.Definition))
	}
	b := jobrun.Bulk{
		ID: s.bulkID(ctx, in.Params.IdempotencyKey), TenantID: req.tenant.ID, Version: 1, Action: jobrun.BulkAction(body.Action), State: jobrun.BulkRunning,
		Filter: f, Before: now, Reason: text(body.Reason), Actor: req.principal, CreatedAt: now,
	}
	if err := jobrun.CheckBulk(&b); err != nil {
		return nil, err
	}
	if body.DryRun != nil && *body.DryRun {
		_, page, err := s.Runs.ListRuns(ctx, b.TenantID, b.Filter, jobrun.Paging{Limit: 1, Total: true, TotalCap: maxPageDepth})
		if err != nil {
			return nil, err
		}
		return answer{status: http.StatusOK, body: api.JobBulkPreview{Matched: page.Total, MatchedIsCapped: page.TotalCapped}}, nil
	}
	by := s.did(ctx, now, operator.JobBulk, b.ID.String(), verbCreate, b.Reason, map[string]any{"action": b.Action, "filter": b.Filter})
	stored, created, err := s.Bulks.CreateBulk(ctx, b, by)
	if err != nil {
		return nil, err
	}
	if !created && (stored.Action != b.Action || !alike(stored.Filter, b.Filter)) {
		return nil, keyReused()
	}
	a, err := bulkAnswer(&stored)
	a.status, a.location, a.replayed = http.StatusAccepted, bulkPath(stored.ID), !created
	return a, err
}

// GetJobBulk answers a bulk with its progress.
func (s *jobHandlers) GetJobBulk(ctx context.Context, in api.GetJobBulkRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	b, err := s.Bulks.GetBulk(ctx, requestOf(ctx).tenant.ID, in.BulkID)
	if err != nil {
		return nil, err
	}
	return bulkAnswer(&b)
}

// ListJobBulks answers a page of bulks, newest first.
func (s *jobHandlers) ListJobBulks(ctx context.Context, in api.ListJobBulksRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	req, p := requestOf(ctx), in.Params
	paging, jp, err := s.jobPaging(req.list(), p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	var state jobrun.BulkState
	if p.State != nil {
		state = jobrun.BulkState(*p.State)
	}
	found, page, err := s.Bulks.ListBulks(ctx, req.tenant.ID, state, jp)
	if err != nil {
		return nil, err
	}
	out := api.JobBulkList{Bulks: make([]api.JobBulk, len(found))}
	for i := range found {
		if out.Bulks[i], err = toAPIBulk(&found[i]); err != nil {
			return nil, err
		}
	}
	out.Pagination = paging.answer(page.More, page.Total, func() []byte {
		last := &found[len(found)-1]
		return timeAndIDKeys(last.CreatedAt, last.ID)
	})
	return answer{status: http.StatusOK, body: out}, nil
}

// CancelJobBulk ends a bulk.
func (s *jobHandlers) CancelJobBulk(ctx context.Context, in api.CancelJobBulkRequestObject) (api.Response, error) {
	ctx, cancel := s.promised(ctx)
	defer cancel()
	by := s.did(ctx, s.now(), operator.JobBulk, in.BulkID.String(), verbCancel, reasonOf(in.Body), nil)
	b, err := s.Bulks.CancelBulk(ctx, requestOf(ctx).tenant.ID, in.BulkID, by)
	if err != nil {
		return nil, err
	}
	return bulkAnswer(&b)
}

func noDefinitionIn(pointer, ref string) error {
	f := fault.New(fault.Invalid, jobrun.CodeNotFound, "there is no job definition %s", clip(ref))
	return f.With(fault.Field{Pointer: pointer, Code: "not_found", Message: f.Detail})
}

func bulkPath(id uuid.UUID) string { return "/api/v1/job-runs/bulk/" + id.String() }

func bulkAnswer(b *jobrun.Bulk) (answer, error) {
	out, err := toAPIBulk(b)
	return answer{status: http.StatusOK, body: out, etag: etagOf(b.Version)}, err
}

func toAPIBulk(b *jobrun.Bulk) (api.JobBulk, error) {
	filter, err := json.Marshal(b.Filter)
	if err != nil {
		return api.JobBulk{}, fmt.Errorf("encode the filter of a bulk: %w", err)
	}
	return api.JobBulk{
		ID: b.ID, Action: api.JobBulkAction(b.Action), State: api.BulkState(b.State), Filter: filter, Matched: b.Matched, Done: b.Done, Skipped: b.Skipped,
		Reason: unlessEmpty(b.Reason), Actor: unlessEmpty(b.Actor), Version: b.Version, CreatedAt: b.CreatedAt, EndedAt: b.EndedAt,
		Links: api.JobLinks{"self": bulkPath(b.ID)},
	}, nil
}
