package dlqapi

import (
	"context"
	"net/http"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
)

// ListDeadLetterGroups returns a page of groups, the most recently seen first.
func (s *Handlers) ListDeadLetterGroups(ctx context.Context,
	in api.ListDeadLetterGroupsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByTimeAndKey, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := dlq.GroupFilter{States: httpkit.Enums[dlq.GroupState](p.State), Topic: httpkit.Text(p.Topic),
		ErrorType: httpkit.Text(p.ErrorType)}
	found, err := s.Overview.Groups(ctx, req.Tenant.ID, f, asked.Request)
	if err != nil {
		return nil, err
	}
	out := api.DeadLetterGroupList{Groups: httpkit.Each(found.Items, toAPIGroup),
		Pagination: httpkit.Pagination(asked, found, (*dlq.Group).Place)}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// GetDeadLetterGroup returns a group.
func (s *Handlers) GetDeadLetterGroup(ctx context.Context,
	in api.GetDeadLetterGroupRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	g, err := s.Overview.Group(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.Fingerprint)
	if err != nil {
		return nil, err
	}
	return groupAnswer(&g), nil
}

// UpdateDeadLetterGroup changes the state, assignee and note of a group.
func (s *Handlers) UpdateDeadLetterGroup(ctx context.Context,
	in api.UpdateDeadLetterGroupRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	b := in.Body
	edit := dlq.GroupEdit{Assignee: b.Assignee, Note: b.Note}
	if b.State != nil {
		edit.State = new(dlq.GroupState(*b.State))
	}
	for range httpkit.Reloads(ctx) {
		g, err := s.Overview.Group(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.Fingerprint)
		if err != nil {
			return nil, err
		}
		switch fits, err := httpkit.IfMatch(in.Params.IfMatch, g.Version); {
		case err != nil:
			return nil, err
		case !fits:
			return nil, httpkit.Stale(dlq.CodeStale, "group", g.Version)
		}
		after, err := g.Edited(edit, s.Now())
		if err != nil {
			return nil, err
		}
		if httpkit.DryRun(ctx) {
			is := httpkit.Answer{Status: http.StatusOK, Body: toAPIGroup(&g), ETag: httpkit.ETagOf(g.Version)}
			return httpkit.Would(is, toAPIGroup(&after),
				func(g *api.DeadLetterGroup) **api.PlannedChanges { return &g.Changes })
		}
		detail := map[string]any{"from": g.State, "to": after.State}
		by := s.Did(ctx, after.UpdatedAt, operator.DeadGroup, g.Fingerprint, httpkit.VerbUpdate, httpkit.Text(b.Reason),
			detail)
		switch err := s.Overview.ChangeGroup(ctx, after, by); {
		case err == nil:
			return groupAnswer(&after), nil
		case !fault.IsCode(err, dlq.CodeStale):
			return nil, err
		}
	}
	return nil, httpkit.KeepsChanging("group")
}

func groupAnswer(g *dlq.Group) httpkit.Answer {
	return httpkit.Answer{Status: http.StatusOK, Body: toAPIGroup(g), ETag: httpkit.ETagOf(g.Version)}
}

func toAPIGroup(g *dlq.Group) api.DeadLetterGroup {
	return api.DeadLetterGroup{
		Fingerprint: g.Fingerprint, State: api.DeadLetterGroupState(g.State), Topic: g.Topic,
		ErrorType: httpkit.UnlessEmpty(g.ErrorType), Message: g.Message,
		Received: g.Received, Open: &g.Open, OpenIsCapped: &g.OpenCapped, FirstSeen: g.FirstSeen, LastSeen: g.LastSeen,
		SampleID: g.Sample,
		Assignee: httpkit.UnlessEmpty(g.Assignee), Note: httpkit.UnlessEmpty(g.Note), UpdatedAt: g.UpdatedAt,
		Version: g.Version,
	}
}
