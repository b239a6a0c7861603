package dlqapi

import (
	"context"
	"encoding/binary"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/rest"
)

// GetRedrive answers a redrive, at its end when the client waits for that.
func (s *Handlers) GetRedrive(ctx context.Context, in api.GetRedriveRequestObject) (api.Response, error) {
	wait, honoured, err := s.WaitOf(in.Params.Wait, in.Params.Prefer)
	if err != nil {
		return nil, err
	}
	r, err := s.readRedrive(ctx, in.RedriveID)
	if err == nil {
		r, err = s.awaitRedrive(ctx, r, wait)
	}
	if err != nil {
		return nil, err
	}
	a := s.redriveAnswer(&r)
	a.Waited = honoured
	return a, nil
}

func (s *Handlers) readRedrive(ctx context.Context, id uuid.UUID) (dlq.Redrive, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	return s.Redrives.Get(ctx, rest.RequestOf(ctx).Tenant.ID, id)
}

// over tells whether waiting for a redrive makes no more sense.
func over(state dlq.RedriveState) bool { return state.Terminal() || state == dlq.RedriveHalted }

// awaitRedrive returns the redrive as it is when it is over, the wait is, or the server begins to stop.
func (s *Handlers) awaitRedrive(ctx context.Context, r dlq.Redrive, wait time.Duration) (dlq.Redrive, error) {
	return rest.AwaitBy(ctx, s.Stopping, r, wait, func(r *dlq.Redrive) bool { return over(r.State) },
		func(ctx context.Context) (dlq.Redrive, error) { return s.readRedrive(ctx, r.ID) })
}

// ListRedrives answers a page of redrives, newest first.
func (s *Handlers) ListRedrives(ctx context.Context, in api.ListRedrivesRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := rest.RequestOf(ctx), in.Params
	paging, err := s.PagingOf(req.List(), p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	q := dlq.Query{Limit: paging.Size, Offset: paging.Offset(), Total: paging.Total}
	if paging.Page == 0 {
		at, id, err := rest.TimeAndID(paging.After)
		if err != nil {
			return nil, err
		}
		q.After = &dlq.Cursor{At: at, ID: id}
	}
	page, err := s.Redrives.List(ctx, req.Tenant.ID, rest.Enums[dlq.RedriveState](p.State), q)
	if err != nil {
		return nil, err
	}
	out := api.RedriveList{Redrives: make([]api.Redrive, len(page.Redrives))}
	for i := range page.Redrives {
		out.Redrives[i] = toAPIRedrive(&page.Redrives[i], s.Now())
	}
	out.Pagination = paging.Answer(page.More, page.Total, func() []byte {
		last := &page.Redrives[len(page.Redrives)-1]
		return rest.TimeAndIDKeys(last.CreatedAt, last.ID)
	})
	return rest.Answer{Status: http.StatusOK, Body: out}, nil
}

// ListRedriveItems answers a page of the letters of a redrive, in its order.
func (s *Handlers) ListRedriveItems(ctx context.Context, in api.ListRedriveItemsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := rest.RequestOf(ctx), in.Params
	paging, err := s.PagingOf(req.List(), nil, p.PageSize, p.Cursor, nil)
	if err != nil {
		return nil, err
	}
	var after int64
	if p.Cursor != nil {
		if len(paging.After) != 8 {
			return nil, rest.BadCursor()
		}
		after = int64(binary.BigEndian.Uint64(paging.After)) //nolint:gosec // as it was made
	}
	items, more, err := s.Redrives.Items(ctx, req.Tenant.ID, in.RedriveID, rest.Enums[dlq.ItemState](p.State),
		after, paging.Size)
	if err != nil {
		return nil, err
	}
	out := api.RedriveItemList{Items: make([]api.RedriveItem, len(items))}
	for i := range items {
		out.Items[i] = api.RedriveItem{
			Position: items[i].Seq, MessageID: items[i].LetterID, State: api.RedriveItemState(items[i].State),
			Detail: rest.UnlessEmpty(items[i].Detail), UpdatedAt: items[i].UpdatedAt,
		}
	}
	out.Pagination = paging.AnswerForward(more, func() []byte {
		return binary.BigEndian.AppendUint64(nil, uint64(items[len(items)-1].Seq)) //nolint:gosec // read back as it was
	})
	return rest.Answer{Status: http.StatusOK, Body: out}, nil
}
