package jobapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/jobrun"
)

// previewedSlots is the number of slots that a dry run shows.
const previewedSlots = 1000

// bulkHead contains the common fields of a new backfill or bulk operation. Its id is derived from
// an Idempotency-Key, as a UUIDv8, so that a second request with the same key finds the first
// operation on any node.
func (s *Handlers) bulkHead(ctx context.Context, header, reason *string, now time.Time) bulk.Head {
	req := httpkit.RequestOf(ctx)
	h := bulk.Head{
		TenantID: req.Tenant.ID, Version: 1, State: bulk.Running,
		Reason: httpkit.Text(reason), Actor: req.Principal, ActorName: req.Who.Name, CreatedAt: now,
	}
	key := httpkit.KeyOf(req, header)
	if key == nil {
		h.ID = s.NewID()
		return h
	}
	of := []string{"jobs", req.Tenant.ID.String(), req.Principal, req.Route, key.Key}
	sum := sha256.Sum256([]byte(strings.Join(of, "\n")))
	h.ID, h.RequestHash = uuid.UUID(sum[:16]), key.Hash
	h.ID[6], h.ID[8] = h.ID[6]&0x0f|0x80, h.ID[8]&0x3f|0x80
	return h
}

// CreateBackfill stores a backfill, or lists the slots that it would run.
func (s *Handlers) CreateBackfill(ctx context.Context, in api.CreateBackfillRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	d, err := s.definitionAt(ctx, in.Definition, nil)
	if err != nil {
		return nil, err
	}
	if err := s.mayRun(ctx, &d, nil); err != nil {
		return nil, err
	}
	body := in.Body
	now, err := s.jobsNow(ctx)
	if err != nil {
		return nil, err
	}
	b := jobrun.Backfill{
		Head:         s.bulkHead(ctx, in.Params.IdempotencyKey, body.Reason, now),
		DefinitionID: d.ID,
		From:         body.From.UTC().Truncate(time.Microsecond),
		To:           body.To.UTC().Truncate(time.Microsecond),
		Reprocess:    cmp.Or(jobrun.Reprocess(httpkit.Text(body.Reprocess)), jobrun.ReprocessNone),
		NewestFirst:  httpkit.Text(body.Order) == "newest",
		MaxActive:    jobrun.DefaultBackfillActive,
		Overlap:      jobrun.Policy(httpkit.Text(body.Overlap)),
	}
	if body.MaxActive != nil {
		b.MaxActive = *body.MaxActive
	}
	b.HaltsAbove = body.Expected
	slots, err := jobrun.CheckBackfill(&b, &d, now)
	if err != nil {
		return nil, err
	}
	if body.DryRun != nil && *body.DryRun {
		return s.previewBackfill(ctx, &b, &d, slots)
	}
	by := s.Did(ctx, now, operator.JobBackfill, b.ID.String(), httpkit.VerbCreate, b.Reason, map[string]any{
		"definition_id": d.ID, "from": b.From, "to": b.To, "reprocess": b.Reprocess,
		"max_active": b.MaxActive, "slots": slots,
	})
	stored, created, err := s.Bulks.CreateBackfill(ctx, b, by)
	if err != nil {
		return nil, err
	}
	if !created && !stored.Repeats(b.RequestHash) {
		return nil, idempotency.Used()
	}
	a := backfillAnswer(&stored, &d, nil)
	a.Status, a.Location, a.Replayed = http.StatusAccepted, backfillPath(stored.ID), !created
	return a, nil
}

func (s *Handlers) previewBackfill(ctx context.Context, b *jobrun.Backfill, d *jobrun.Definition,
	slots int) (httpkit.Answer, error) {
	compiled, err := jobrun.CompileSchedule("/schedule", *d.Spec.Schedule)
	if err != nil {
		return httpkit.Answer{}, err
	}
	shown := b.Next(compiled, previewedSlots)
	states, err := s.Bulks.SlotStates(ctx, b.TenantID, d.ID, shown)
	if err != nil {
		return httpkit.Answer{}, err
	}
	out := api.BackfillPreview{SlotsTotal: slots, Truncated: slots > len(shown),
		Slots: make([]api.BackfillSlot, len(shown))}
	all := dryrun.Many{Of: string(api.PlannedChangeOfJobRun)}
	for i, slot := range shown {
		out.Slots[i] = api.BackfillSlot{At: slot, Runs: b.Reprocess.Wants(states[slot])}
		if out.Slots[i].Runs {
			all.Add(jobrun.NewRun, 1)
		}
	}
	out.Changes = httpkit.PlannedChanges(all.List())
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// ListBackfills returns a page of the backfills of a definition, newest first.
func (s *Handlers) ListBackfills(ctx context.Context, in api.ListBackfillsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByTime, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	d, err := s.Definitions.Definition(ctx, req.Tenant.ID, in.Definition)
	if err != nil {
		return nil, err
	}
	found, err := s.Bulks.ListBackfills(ctx, req.Tenant.ID, d.ID, asked.Request)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.BackfillList{
		Backfills:  httpkit.Each(found.Items, func(b *jobrun.Backfill) api.Backfill { return toAPIBackfill(b, &d, nil) }),
		Pagination: httpkit.Pagination(asked, found, (*jobrun.Backfill).Place),
	}}, nil
}

// GetBackfill returns a backfill with its progress.
func (s *Handlers) GetBackfill(ctx context.Context, in api.GetBackfillRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	b, active, err := s.Bulks.GetBackfill(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.BackfillID)
	if err != nil {
		return nil, err
	}
	return s.backfillWithDefinition(ctx, &b, &active)
}

// backfillWithDefinition responds with a backfill, and marks it if its definition is damaged.
func (s *Handlers) backfillWithDefinition(ctx context.Context, b *jobrun.Backfill,
	active *int64) (api.Response, error) {
	d, err := s.Definitions.Definition(ctx, b.TenantID, b.DefinitionID.String())
	if err != nil {
		return nil, err
	}
	return backfillAnswer(b, &d, active), nil
}

// ResumeBackfill resumes a halted backfill.
func (s *Handlers) ResumeBackfill(ctx context.Context, in api.ResumeBackfillRequestObject) (api.Response, error) {
	return s.moveBackfill(ctx, in.BackfillID, bulk.Resume, in.Body)
}

// CancelBackfill ends a backfill.
func (s *Handlers) CancelBackfill(ctx context.Context, in api.CancelBackfillRequestObject) (api.Response, error) {
	return s.moveBackfill(ctx, in.BackfillID, bulk.Cancel, in.Body)
}

func (s *Handlers) moveBackfill(
	ctx context.Context, id uuid.UUID, on bulk.Verb, body *api.JobReasonInput,
) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if httpkit.DryRun(ctx) {
		b, _, err := s.Bulks.GetBackfill(ctx, httpkit.RequestOf(ctx).Tenant.ID, id)
		if err != nil {
			return nil, err
		}
		d, err := s.Definitions.Definition(ctx, b.TenantID, b.DefinitionID.String())
		if err != nil {
			return nil, err
		}
		was := backfillAnswer(&b, &d, nil)
		if _, err := b.Moved(on, s.Now()); err != nil {
			return nil, err
		}
		would, err := httpkit.Would(was, toAPIBackfill(&b, &d, nil),
			func(b *api.Backfill) **api.PlannedChanges { return &b.Changes })
		if err != nil || on != bulk.Cancel {
			return would, err
		}
		runs, _, err := s.wouldCancel(ctx, b.TenantID, jobrun.Filter{BackfillID: b.ID, States: jobrun.ActiveStates},
			jobrun.CancelRequested{Waiting: true}, s.Now())
		if err != nil {
			return nil, err
		}
		changes := would.Body.(api.Backfill).Changes
		*changes = append(*changes, runs...)
		return would, nil
	}
	by := s.Did(ctx, s.Now(), operator.JobBackfill, id.String(), string(on), reasonOf(body), nil)
	b, err := s.Bulks.MoveBackfill(ctx, httpkit.RequestOf(ctx).Tenant.ID, id, on, by)
	if err != nil {
		return nil, err
	}
	return s.backfillWithDefinition(ctx, &b, nil)
}

func reasonOf(b *api.JobReasonInput) string {
	if b == nil {
		return ""
	}
	return httpkit.Text(b.Reason)
}

func backfillPath(id uuid.UUID) string { return "/api/v1/backfills/" + id.String() }

func backfillAnswer(b *jobrun.Backfill, d *jobrun.Definition, active *int64) httpkit.Answer {
	return httpkit.Answer{Status: http.StatusOK, Body: toAPIBackfill(b, d, active), ETag: httpkit.ETagOf(b.Version)}
}

func toAPIBackfill(b *jobrun.Backfill, d *jobrun.Definition, active *int64) api.Backfill {
	own, definition := b.Damaged(d)
	order := api.BackfillOrder("oldest")
	if b.NewestFirst {
		order = "newest"
	}
	return api.Backfill{
		ScheduleUnreadable: httpkit.UnlessFalse(own), DefinitionUnreadable: httpkit.UnlessFalse(definition),
		ID: b.ID, DefinitionID: b.DefinitionID, State: api.BulkState(b.State), From: b.From, To: b.To,
		Reprocess: api.BackfillReprocess(b.Reprocess),
		Order:     order, MaxActive: b.MaxActive,
		Overlap: httpkit.EnumUnlessEmpty[api.JobConcurrencyPolicy](string(b.Overlap)),
		Reached: b.Cursor, Expected: b.Expected, HaltsAbove: b.HaltsAbove,
		HaltReason: httpkit.UnlessEmpty(b.HaltReason), Found: b.Found,
		AllowedActions: httpkit.Each(b.Actions(), verbOf),
		Created:        b.Created, Skipped: b.Skipped, Active: active, Reason: httpkit.UnlessEmpty(b.Reason),
		Actor: httpkit.UnlessEmpty(b.Actor), ActorName: httpkit.UnlessEmpty(b.ActorName), Version: b.Version,
		CreatedAt: b.CreatedAt, EndedAt: b.EndedAt,
		Links: api.JobLinks{
			"self": backfillPath(b.ID), "job_definition": "/api/v1/job-definitions/" + b.DefinitionID.String(),
			"runs": "/api/v1/job-runs?backfill_id=" + b.ID.String(),
		},
	}
}

func verbOf(v *string) api.BulkVerb { return api.BulkVerb(*v) }
