package overviewapi

import (
	"context"
	"net/http"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/ops/overview"
)

// Search finds resources of any kind by ID, key or name.
func (s *Handlers) Search(ctx context.Context, in api.SearchRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	omitted, shown := s.omitted(ctx)
	q := overview.AskedFor(in.Params.Q, overview.Shown{
		Letters: shown(overview.DeadLetters), Runs: shown(overview.JobRuns),
	})
	hits, err := s.Store.Search(ctx, httpkit.RequestOf(ctx).Tenant.ID, q)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.SearchResult{
		Hits: httpkit.Each(hits, toAPIHit), Omitted: omitted,
	}}, nil
}

func toAPIHit(h *overview.Hit) api.SearchHit {
	out := api.SearchHit{Kind: api.SearchHitKind(h.Kind), ID: h.ID, Title: h.Title, State: httpkit.UnlessEmpty(h.State),
		At: h.At, Matched: api.SearchHitMatched(h.Matched), Link: h.Link(),
		Begins: httpkit.UnlessFalse(h.Begins)}
	if h.Archived {
		out.Archived = new(true)
	}
	return out
}
