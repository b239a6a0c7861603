package systempages

import (
	"net/url"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// overview says what needs a person.
type overview struct {
	Attention       []client.Saga
	AttentionTotal  string
	Pending, Active int64
	Statistics      []client.SagaStatistics
	Now             time.Time
}

func (p *pages) overview(v *web.Visit) (*web.Page, error) {
	d := overview{Now: v.Now}
	sagas, err := p.kit.Client.ListSagasWithResponse(v.Context(), &client.ListSagasParams{},
		web.AsQuery(url.Values{"needs_attention": {"true"}, "page_size": {"20"}, "include": {"total"}}))
	if err != nil {
		return nil, err
	}
	list, err := web.Got(sagas.JSON200, sagas.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	d.Attention = list.Sagas
	if t := list.Pagination.TotalCount; t != nil {
		d.AttentionTotal = web.Count(*t, list.Pagination.TotalIsCapped != nil && *list.Pagination.TotalIsCapped)
	}
	stats, err := p.kit.Client.ListSagaStatisticsWithResponse(v.Context(), &client.ListSagaStatisticsParams{})
	if err != nil {
		return nil, err
	}
	s, err := web.Got(stats.JSON200, stats.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	d.Statistics = s.Statistics
	for _, w := range s.Statistics {
		d.Pending += w.PendingCount
		d.Active += w.ActiveCount
	}
	return &web.Page{Template: "overview", Title: "Overview", Nav: "Overview", Refresh: 10, Data: d}, nil
}
