package dlqapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/longpoll"
)

// GetRedrive returns a redrive. If the client asks to wait, it returns when the redrive is over.
func (s *Handlers) GetRedrive(ctx context.Context, in api.GetRedriveRequestObject) (api.Response, error) {
	wait, honoured, err := s.WaitOf(in.Params.Wait, in.Params.Prefer)
	if err != nil {
		return nil, err
	}
	of := longpoll.Key{Kind: longpoll.Redrive, Tenant: httpkit.RequestOf(ctx).Tenant.ID, ID: in.RedriveID}
	r, waited, err := s.awaitRedrive(ctx, of, wait, nil)
	if err != nil {
		return nil, err
	}
	a := s.redriveAnswer(&r)
	if waited {
		a.Waited = honoured
	}
	if !r.State.Terminal() {
		return a, nil // no ETag, because its progress changes without a new version
	}
	return a.Unchanged(in.Params.IfNoneMatch)
}

func (s *Handlers) readRedrive(ctx context.Context, id uuid.UUID) (dlq.Redrive, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	return s.Redrives.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, id)
}

func endOf(r *dlq.Redrive) longpoll.Key {
	return longpoll.Key{Kind: longpoll.Redrive, Tenant: r.TenantID, ID: r.ID}
}

// awaitRedrive calls httpkit.AwaitBy for a redrive.
func (s *Handlers) awaitRedrive(ctx context.Context, of longpoll.Key, wait time.Duration,
	first *dlq.Redrive) (r dlq.Redrive, waited bool, err error) {
	return httpkit.AwaitBy(ctx, s.Kit, of, wait, first, func(r *dlq.Redrive) bool { return r.State.Over() },
		func(ctx context.Context) (dlq.Redrive, error) { return s.readRedrive(ctx, of.ID) })
}

// ListRedrives returns a page of redrives, newest first.
func (s *Handlers) ListRedrives(ctx context.Context, in api.ListRedrivesRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByTime, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	found, err := s.Redrives.List(ctx, req.Tenant.ID, httpkit.Enums[dlq.RedriveState](p.State), asked.Request)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.RedriveList{
		Redrives:   httpkit.Each(found.Items, func(r *dlq.Redrive) api.Redrive { return toAPIRedrive(r, s.Now()) }),
		Pagination: httpkit.Pagination(asked, found, (*dlq.Redrive).Place),
	}}, nil
}

// ListRedriveItems returns a page of the letters of a redrive, in the order of the redrive.
func (s *Handlers) ListRedriveItems(ctx context.Context, in api.ListRedriveItemsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.ForwardOf(ctx, s.Cursors, httpkit.BySequence, p.PageSize, p.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Redrives.Items(ctx, req.Tenant.ID, in.RedriveID, httpkit.Enums[dlq.ItemState](p.State), asked.Request)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.RedriveItemList{
		Items:      httpkit.Each(found.Items, toAPIItem),
		Pagination: httpkit.Pagination(asked, found, func(i *dlq.Item) int64 { return i.Seq }),
	}}, nil
}

func toAPIItem(i *dlq.Item) api.RedriveItem {
	return api.RedriveItem{Position: i.Seq, MessageID: i.LetterID, State: api.RedriveItemState(i.State),
		Detail: httpkit.UnlessEmpty(i.Detail), UpdatedAt: i.UpdatedAt}
}
