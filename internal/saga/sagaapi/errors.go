package sagaapi

import (
	"cmp"
	"context"
	"encoding/binary"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

// ListSagaErrors returns a page of sagas that failed or need attention, grouped by error, with the
// largest group first.
func (s *Handlers) ListSagaErrors(ctx context.Context, in api.ListSagaErrorsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	p := in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, bySize, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := statistics.ErrorFilter{WorkflowName: httpkit.Text(p.WorkflowName), NeedsAttention: p.NeedsAttention}
	for _, state := range saga.States {
		status := api.SagaStatus(state.Status())
		if p.Status == nil && (status == "FAILED" || !state.Terminal()) || slices.Contains(p.Status, status) {
			f.States = append(f.States, state)
		}
	}
	for _, bound := range []struct {
		name string
		in   *time.Time
		out  *time.Time
	}{
		{"created_from", p.CreatedFrom, &f.CreatedFrom}, {"created_to", p.CreatedTo, &f.CreatedTo},
		{"ended_from", p.EndedFrom, &f.EndedFrom}, {"ended_to", p.EndedTo, &f.EndedTo},
	} {
		if *bound.out, err = httpkit.TimeOf(bound.name, bound.in); err != nil {
			return nil, err
		}
	}
	if wrong := cmp.Or(httpkit.InOrder("created_from", "created_to", f.CreatedFrom, f.CreatedTo),
		httpkit.InOrder("ended_from", "ended_to", f.EndedFrom, f.EndedTo)); wrong != nil {
		return nil, wrong
	}
	found, err := s.Reports.Errors(ctx, httpkit.RequestOf(ctx).Tenant.ID, f)
	if err != nil {
		return nil, err
	}
	listed := page.In(asked.Request, found.Groups, func(g *statistics.ErrorGroup, after size) bool {
		return g.Compare(after.count, after.key) > 0
	})
	return httpkit.Answer{Status: http.StatusOK, Body: api.SagaErrorList{
		Groups: httpkit.Each(listed.Items, func(g *statistics.ErrorGroup) api.SagaErrorGroup {
			return toAPIErrorGroup(g, &f)
		}),
		Examined: found.Examined, IsCapped: found.Capped,
		Pagination: httpkit.Pagination(asked, listed, func(g *statistics.ErrorGroup) size { return size{g.Count, g.Key()} }),
	}}, nil
}

// size is the position of a group in the list.
type size struct {
	count int64
	key   string
}

var bySize = httpkit.Order[size]{
	Keys: func(p size) []byte {
		return append(binary.BigEndian.AppendUint64(nil, uint64(p.count)), p.key...) //nolint:gosec // not negative
	},
	Place: func(keys []byte) (size, error) {
		if len(keys) < 8 {
			return size{}, httpkit.BadCursor()
		}
		return size{int64(binary.BigEndian.Uint64(keys)), string(keys[8:])}, nil //nolint:gosec // the inverse of Keys
	},
}

func toAPIErrorGroup(g *statistics.ErrorGroup, f *statistics.ErrorFilter) api.SagaErrorGroup {
	out := api.SagaErrorGroup{
		WorkflowName: g.WorkflowName, Step: httpkit.UnlessEmpty(g.Step), Action: api.StepAction(g.Action),
		Code: httpkit.UnlessEmpty(g.Code), Count: g.Count, NeedsAttention: g.Attention, FirstAt: g.First, LastAt: g.Last,
		SampleSagaID: g.Sample,
	}
	sagas := url.Values{"workflow_name": {g.WorkflowName}}
	for _, state := range g.States {
		out.States = append(out.States, api.SagaState(state.String()))
		sagas.Add("state", state.String())
	}
	for name, value := range map[string]string{"step": g.Step, "error_code": g.Code} {
		if value != "" {
			sagas.Set(name, value)
		}
	}
	switch {
	case f.NeedsAttention != nil && !*f.NeedsAttention:
		sagas.Set("needs_attention", "false")
	case f.NeedsAttention != nil || g.Attention == g.Count:
		sagas.Set("needs_attention", "true")
	}
	for name, at := range map[string]time.Time{"created_from": f.CreatedFrom, "created_to": f.CreatedTo,
		"ended_from": f.EndedFrom, "ended_to": f.EndedTo} {
		if !at.IsZero() {
			sagas.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	out.Links = api.JobLinks{"sagas": "/api/v1/sagas?" + sagas.Encode()}
	return out
}
