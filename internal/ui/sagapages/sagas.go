package sagapages

import (
	"net/url"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// sagaList is the page of the list of sagas.
type sagaList struct {
	*web.List
	Sagas []client.Saga
	Now   time.Time
}

var (
	views = []web.View{
		{Name: "Needs attention", Filter: url.Values{"needs_attention": {"true"}}},
		{Name: "Active", Filter: url.Values{"active": {"true"}}},
		{Name: "Failed", Filter: url.Values{"status": {"FAILED"}}},
		{Name: "All"},
		{Name: "Archived", Filter: url.Values{"archived": {"true"}}},
	}
	filters = []web.Filter{
		{Name: "workflow_name", Label: "Workflow", Hint: "order"},
		{Name: "business_key", Label: "Business key"},
		{Name: "correlation_id", Label: "Correlation"},
		{Name: "initiated_by", Label: "Initiated by"},
		{Name: "metadata", Label: "Metadata", Hint: `{"region":"eu"}`},
		{Name: "created_from", Label: "Created from", Hint: "-24h", Time: true},
		{Name: "created_to", Label: "Created to", Time: true},
	}
)

func (p *pages) list(v *web.Visit) (*web.Page, error) {
	d := sagaList{List: v.NewList(views, filters), Now: v.Now}
	res, err := p.kit.Client.ListSagasWithResponse(v.Context(), &client.ListSagasParams{},
		web.AsQuery(d.Sent(v.Now, "page_size", "50", "include", "total")))
	if err != nil {
		return nil, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	d.Sagas = list.Sagas
	d.Paged(list.Pagination)
	return &web.Page{Template: "sagas", Title: "Sagas", Nav: "Sagas", Refresh: 10, Data: d}, nil
}
