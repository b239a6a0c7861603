package sagaapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagabulk"
)

// freeIDs is how many sagas a bulk may name without sagas:admin.
const freeIDs = 200

// CreateSagaBulk stores a bulk operation on sagas. For a dry run it returns what the operation
// would do.
func (s *Handlers) CreateSagaBulk(ctx context.Context, in api.CreateSagaBulkRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	dry := in.Body.DryRun != nil && *in.Body.DryRun
	b, none, err := s.bulkAsked(ctx, in.Body, in.Params.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	if dry {
		return s.previewBulk(ctx, &b, none)
	}
	if b.Filter != nil || len(b.IDs) > freeIDs {
		if err := httpkit.RequestOf(ctx).Who.Require(principal.SagasAdmin); err != nil {
			return nil, err
		}
	}
	if err := httpkit.RequireReason(b.Reason, "the action applies to many sagas"); err != nil {
		return nil, err
	}
	if none {
		return nil, fault.New(fault.Invalid, sagabulk.CodeInvalid, "two members of the filter exclude each other: no saga can match")
	}
	detail := map[string]any{"action": b.Action}
	if in.Body.Expected != nil {
		detail["expected"] = *in.Body.Expected
	}
	if b.Asked != nil {
		detail["filter"] = b.Asked
	} else {
		detail["ids"] = len(b.IDs)
	}
	by := s.Did(ctx, b.CreatedAt, operator.SagaBulk, b.ID.String(), httpkit.VerbCreate, b.Reason, detail)
	stored, created, err := s.Bulks.Create(ctx, b, by)
	if err != nil {
		return nil, err
	}
	if !created && !stored.Repeats(b.RequestHash) {
		return nil, idempotency.Used()
	}
	a, err := sagaBulkAnswer(&stored)
	a.Status, a.Location, a.Replayed = http.StatusAccepted, sagaBulkPath(stored.ID), !created
	return a, err
}

// bulkAsked reads the request for a bulk. none means that no saga can match.
func (s *Handlers) bulkAsked(ctx context.Context, in *api.SagaBulkInput, header *string) (
	b sagabulk.Bulk, none bool, err error) {
	if (in.Filter == nil) == (in.Ids == nil) {
		return b, false, httpkit.SchemaFault(fault.Field{Pointer: "", Code: "invalid",
			Message: "needs exactly one of filter and ids"})
	}
	req, now := httpkit.RequestOf(ctx), s.Now()
	key := httpkit.KeyOf(req, header)
	b = sagabulk.Bulk{
		Head: bulk.Head{
			ID: s.idOfKey("sagas", req, key), TenantID: req.Tenant.ID, Version: 1, State: bulk.Running,
			Reason: httpkit.Text(in.Reason), Actor: req.Principal, ActorName: req.Who.Name,
			CreatedAt: now,
		},
		Action: saga.Verb(in.Action), Before: now, IDs: in.Ids,
	}
	if key != nil {
		b.RequestHash = key.Hash
	}
	b.HaltsAbove = in.Expected
	if in.RatePerSecond != nil {
		b.Rate = *in.RatePerSecond
	}
	b.Pace()
	if in.Filter != nil {
		var f saga.Filter
		if f, b.Asked, none, err = bulkFilter(ctx, in.Filter); err != nil {
			return b, none, err
		}
		b.Filter = &f
	}
	if none {
		return b, true, nil
	}
	return b, false, sagabulk.Check(&b)
}

// bulkFilter reads a filter as the list of sagas does. It also returns the filter as it was sent.
func bulkFilter(ctx context.Context, in *api.SagaFilter) (
	f saga.Filter, asked json.RawMessage, none bool, err error) {
	if asked, err = json.Marshal(in); err != nil {
		return f, nil, false, err
	}
	var p api.ListSagasParams
	if err := json.Unmarshal(asked, &p); err != nil {
		return f, nil, false, err
	}
	if p.Metadata != nil {
		if err := httpkit.MayFilterByContent(ctx, "metadata"); err != nil {
			return f, nil, false, err
		}
	}
	f, none, err = filterOf(p)
	if wrong := fault.As(err); wrong != nil {
		err = httpkit.SchemaFault(httpkit.InFilter(wrong.Fields)...)
	}
	return f, asked, none, err
}

// idOfKey returns the id for a new object of a kind. Requests with the same Idempotency-Key, if
// there is one, get the same id.
func (s *Handlers) idOfKey(kind string, req *httpkit.Request, key *idempotency.Key) uuid.UUID {
	if key == nil {
		return s.NewID()
	}
	of := []string{kind, req.Tenant.ID.String(), req.Principal, req.Route, key.Key}
	sum := sha256.Sum256([]byte(strings.Join(of, "\n")))
	id := uuid.UUID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id
}

// GetSagaBulk returns a bulk with its progress.
func (s *Handlers) GetSagaBulk(ctx context.Context, in api.GetSagaBulkRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	b, err := s.Bulks.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.SagaBulkID)
	if err != nil {
		return nil, err
	}
	return sagaBulkAnswer(&b)
}

// ListSagaBulks returns a page of bulks, newest first.
func (s *Handlers) ListSagaBulks(ctx context.Context, in api.ListSagaBulksRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	p := in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByTime, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	var state bulk.State
	if p.State != nil {
		state = bulk.State(*p.State)
	}
	found, err := s.Bulks.List(ctx, httpkit.RequestOf(ctx).Tenant.ID, state, asked.Request)
	if err != nil {
		return nil, err
	}
	out := api.SagaBulkList{Bulks: make([]api.SagaBulk, len(found.Items)),
		Pagination: httpkit.Pagination(asked, found, (*sagabulk.Bulk).Place)}
	for i := range found.Items {
		if out.Bulks[i], err = toAPISagaBulk(&found.Items[i]); err != nil {
			return nil, err
		}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// UpdateSagaBulk changes the rate of a bulk.
func (s *Handlers) UpdateSagaBulk(ctx context.Context, in api.UpdateSagaBulkRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	b, err := s.Bulks.Get(ctx, tenant, in.SagaBulkID)
	if err != nil {
		return nil, err
	}
	switch fits, err := httpkit.IfMatch(in.Params.IfMatch, b.Version); {
	case err != nil:
		return nil, err
	case !fits:
		return nil, httpkit.Stale(sagabulk.CodeStale, "bulk operation", b.Version)
	}
	var rate float64
	if in.Body.RatePerSecond != nil {
		rate = *in.Body.RatePerSecond
	}
	if httpkit.DryRun(ctx) {
		after := b
		if err := after.SetRate(rate, s.Now()); err != nil {
			return nil, err
		}
		return sagaBulkWould(&b, &after)
	}
	by := s.Did(ctx, s.Now(), operator.SagaBulk, b.ID.String(), httpkit.VerbUpdate, httpkit.Text(in.Body.Reason),
		map[string]any{"rate_per_second": rate})
	if b, err = s.Bulks.SetRate(ctx, tenant, b.ID, b.Version, rate, by); err != nil {
		return nil, err
	}
	return sagaBulkAnswer(&b)
}

// ResumeSagaBulk resumes a halted bulk.
func (s *Handlers) ResumeSagaBulk(ctx context.Context, in api.ResumeSagaBulkRequestObject) (api.Response, error) {
	return s.moveSagaBulk(ctx, in.SagaBulkID, bulk.Resume, in.Body)
}

// CancelSagaBulk cancels a bulk.
func (s *Handlers) CancelSagaBulk(ctx context.Context, in api.CancelSagaBulkRequestObject) (api.Response, error) {
	return s.moveSagaBulk(ctx, in.SagaBulkID, bulk.Cancel, in.Body)
}

func (s *Handlers) moveSagaBulk(
	ctx context.Context, id uuid.UUID, on bulk.Verb, body *api.ReasonInput,
) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if httpkit.DryRun(ctx) {
		b, err := s.Bulks.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, id)
		if err != nil {
			return nil, err
		}
		after := b
		if _, err := after.Moved(on, s.Now()); err != nil {
			return nil, err
		}
		return sagaBulkWould(&b, &after)
	}
	by := s.Did(ctx, s.Now(), operator.SagaBulk, id.String(), string(on), httpkit.Text(httpkit.ReasonOf(body)), nil)
	b, err := s.Bulks.Move(ctx, httpkit.RequestOf(ctx).Tenant.ID, id, on, by)
	if err != nil {
		return nil, err
	}
	return sagaBulkAnswer(&b)
}

// ListSagaBulkItems returns a page of a bulk's processed sagas in the order in which they were
// processed.
func (s *Handlers) ListSagaBulkItems(ctx context.Context, in api.ListSagaBulkItemsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	tenant, p := httpkit.RequestOf(ctx).Tenant.ID, in.Params
	asked, err := httpkit.ForwardOf(ctx, s.Cursors, httpkit.BySequence, p.PageSize, p.Cursor)
	if err != nil {
		return nil, err
	}
	if _, err := s.Bulks.Get(ctx, tenant, in.SagaBulkID); err != nil {
		return nil, err
	}
	var outcome sagabulk.Outcome
	if p.Outcome != nil {
		outcome = sagabulk.Outcome(*p.Outcome)
	}
	found, err := s.Bulks.Items(ctx, tenant, in.SagaBulkID, outcome, asked.Request)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.SagaBulkItemList{
		Items:      httpkit.Each(found.Items, toAPISagaBulkItem),
		Pagination: httpkit.Pagination(asked, found, func(i *sagabulk.Item) int64 { return i.Position }),
	}}, nil
}

func sagaBulkPath(id uuid.UUID) string { return "/api/v1/sagas/bulk/" + id.String() }

func sagaBulkAnswer(b *sagabulk.Bulk) (httpkit.Answer, error) {
	out, err := toAPISagaBulk(b)
	return httpkit.Answer{Status: http.StatusOK, Body: out, ETag: httpkit.ETagOf(b.Version)}, err
}

// sagaBulkWould answers a dry run with the bulk as it would be.
func sagaBulkWould(before, after *sagabulk.Bulk) (httpkit.Answer, error) {
	a, err := sagaBulkAnswer(before)
	if err != nil {
		return a, err
	}
	out, err := toAPISagaBulk(after)
	if err != nil {
		return a, err
	}
	return httpkit.Would(a, out, func(b *api.SagaBulk) **api.PlannedChanges { return &b.Changes })
}

func toAPISagaBulk(b *sagabulk.Bulk) (api.SagaBulk, error) {
	out := api.SagaBulk{
		ID: b.ID, Action: api.SagaBulkAction(b.Action), State: api.BulkState(b.State),
		ExpectedIsCapped: b.ExpectedCapped, HaltsAbove: b.HaltsAbove, HaltReason: httpkit.UnlessEmpty(b.HaltReason),
		Found: b.Found, AllowedActions: httpkit.Each(b.Actions(), verbOf),
		Matched: b.Matched, Done: b.Done, Skipped: b.Skipped,
		Reason: httpkit.UnlessEmpty(b.Reason), Actor: httpkit.UnlessEmpty(b.Actor),
		ActorName: httpkit.UnlessEmpty(b.ActorName), Version: b.Version,
		CreatedAt: b.CreatedAt, EndedAt: b.EndedAt,
		Links: api.JobLinks{"self": sagaBulkPath(b.ID), "items": sagaBulkPath(b.ID) + "/items"},
	}
	if b.Expected != nil {
		out.Expected = *b.Expected
	}
	out.FilterUnreadable = mark(b.Unreadable)
	if b.Rate > 0 {
		out.RatePerSecond = &b.Rate
	}
	if b.Unreadable {
		return out, nil
	}
	if b.Filter == nil {
		out.Ids = new(len(b.IDs))
		return out, nil
	}
	return out, json.Unmarshal(b.Asked, &out.Filter)
}

func toAPISagaBulkItem(i *sagabulk.Item) api.SagaBulkItem {
	out := api.SagaBulkItem{SagaID: i.SagaID, Position: i.Position, Outcome: api.SagaBulkOutcome(i.Outcome), At: i.At,
		Code: httpkit.UnlessEmpty(i.Code), Detail: httpkit.UnlessEmpty(i.Detail),
		WorkflowName: httpkit.UnlessEmpty(i.Workflow)}
	if i.State != nil {
		out.State = new(api.SagaState(i.State.String()))
	}
	return out
}

func verbOf(v *string) api.BulkVerb { return api.BulkVerb(*v) }
