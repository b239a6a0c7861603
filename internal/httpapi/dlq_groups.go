package httpapi

import (
	"context"
	"net/http"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
)

// ListDeadLetterGroups answers a page of groups, those seen last first.
func (s *letterHandlers) ListDeadLetterGroups(ctx context.Context, in api.ListDeadLetterGroupsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	req, p := requestOf(ctx), in.Params
	paging, err := s.pagingOf(req.list("state", "topic"), p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := dlq.GroupFilter{States: as[dlq.GroupState](p.State), Topic: text(p.Topic), Limit: paging.size, Offset: paging.offset(), Total: paging.total}
	if paging.page == 0 {
		at, fingerprint, err := timeAndText(paging.after)
		if err != nil {
			return nil, err
		}
		f.After = &dlq.GroupCursor{LastSeen: at, Fingerprint: fingerprint}
	}
	page, err := s.Overview.Groups(ctx, req.tenant.ID, f)
	if err != nil {
		return nil, err
	}
	out := api.DeadLetterGroupList{Groups: toAPIGroups(page.Groups)}
	out.Pagination = paging.answer(page.More, page.Total, func() []byte {
		last := &page.Groups[len(page.Groups)-1]
		return timeAndTextKeys(last.LastSeen, last.Fingerprint)
	})
	return answer{status: http.StatusOK, body: out}, nil
}

// GetDeadLetterGroup answers a group.
func (s *letterHandlers) GetDeadLetterGroup(ctx context.Context, in api.GetDeadLetterGroupRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	g, err := s.Overview.Group(ctx, requestOf(ctx).tenant.ID, in.Fingerprint)
	if err != nil {
		return nil, err
	}
	return groupAnswer(&g), nil
}

// UpdateDeadLetterGroup keeps what people have made of a group.
func (s *letterHandlers) UpdateDeadLetterGroup(ctx context.Context, in api.UpdateDeadLetterGroupRequestObject) (api.Response, error) {
	ctx, cancel := s.promised(ctx)
	defer cancel()
	b := in.Body
	edit := dlq.GroupEdit{Assignee: b.Assignee, Note: b.Note}
	if b.State != nil {
		edit.State = new(dlq.GroupState(*b.State))
	}
	for range maxReloads {
		g, err := s.Overview.Group(ctx, requestOf(ctx).tenant.ID, in.Fingerprint)
		if err != nil {
			return nil, err
		}
		switch fits, err := ifMatch(in.Params.IfMatch, g.Version); {
		case err != nil:
			return nil, err
		case !fits:
			return nil, stale(dlq.CodeStale, "group", g.Version)
		}
		after, err := g.Edited(edit, s.now())
		if err != nil {
			return nil, err
		}
		detail := map[string]any{"from": g.State, "to": after.State}
		by := s.did(ctx, after.UpdatedAt, operator.DeadGroup, g.Fingerprint, verbUpdate, text(b.Reason), detail)
		switch err := s.Overview.ChangeGroup(ctx, after, by); {
		case err == nil:
			return groupAnswer(&after), nil
		case !fault.IsCode(err, dlq.CodeStale):
			return nil, err
		}
	}
	return nil, fault.New(fault.Unavailable, codeUnavailable, "the group keeps changing; try again")
}

func groupAnswer(g *dlq.Group) answer {
	return answer{status: http.StatusOK, body: toAPIGroup(g), etag: etagOf(g.Version)}
}

func toAPIGroups(groups []dlq.Group) []api.DeadLetterGroup {
	out := make([]api.DeadLetterGroup, len(groups))
	for i := range groups {
		out[i] = toAPIGroup(&groups[i])
	}
	return out
}

func toAPIGroup(g *dlq.Group) api.DeadLetterGroup {
	return api.DeadLetterGroup{
		Fingerprint: g.Fingerprint, State: api.DeadLetterGroupState(g.State), Topic: g.Topic, ErrorType: unlessEmpty(g.ErrorType), Message: g.Message,
		Received: g.Received, Open: &g.Open, OpenIsCapped: &g.OpenCapped, FirstSeen: g.FirstSeen, LastSeen: g.LastSeen, SampleID: g.Sample,
		Assignee: unlessEmpty(g.Assignee), Note: unlessEmpty(g.Note), UpdatedAt: g.UpdatedAt, Version: g.Version,
	}
}
