package sagapages

import (
	"net/url"
	"strings"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// errorsPage is the page that lists failed sagas grouped by error.
type errorsPage struct {
	*web.List
	Groups   []errorGroup
	Examined int64
	Capped   bool
	Withheld []web.Button // actions that the visitor may not perform
}

// errorGroup is a group of sagas with the same error at the same step.
type errorGroup struct {
	*client.SagaErrorGroup
	URL  string       // URL of the list of these sagas
	Bulk []web.Button // bulk operations on them
	Undo bool         // the step was being undone
	// Clean means that no effects of these sagas remain. Sagas that ended in a way other than
	// failing need no attention.
	Clean *bool
}

var (
	errorViews = []web.View{
		{Name: "All"},
		{Name: "Needs attention", Filter: url.Values{"needs_attention": {"true"}}},
		{Name: "Failed or compensated", Filter: url.Values{"status": {"FAILED"}}},
		{Name: "Cancelled", Filter: url.Values{"status": {"CANCELLED"}}},
	}
	errorFilters = []web.Filter{
		{Name: "workflow_name", Label: "Workflow", Hint: "order"},
		{Name: "ended_from", Label: "Ended from", Hint: "-24h", Time: true},
		{Name: "ended_to", Label: "Ended before", Time: true},
		{Name: "created_from", Label: "Created from", Hint: "-24h", Time: true},
		{Name: "created_to", Label: "Created before", Time: true},
	}
)

// errors groups sagas by what went wrong.
func (p *pages) errors(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.SagaErrorList](v, errorViews, errorFilters, p.kit.Client.ListSagaErrors,
		"include", "total")
	if err != nil {
		return nil, err
	}
	d := errorsPage{List: l, Examined: list.Examined, Capped: list.IsCapped}
	for i := range list.Groups {
		g := &list.Groups[i]
		_, query, _ := strings.Cut(g.Links["sagas"], "?")
		group := errorGroup{SagaErrorGroup: g, URL: "/ui/sagas?" + query, Undo: g.Action == client.StepActionCOMPENSATE,
			Clean: new(g.NeedsAttention == 0)}
		if !p.kit.ReadOnly {
			group.Bulk = []web.Button{bulkButton(v, "Act on all", query)}
		}
		d.Groups = append(d.Groups, group)
	}
	d.Withheld = web.Withheld(d.Groups, func(g *errorGroup) *[]web.Button { return &g.Bulk })
	return &web.Page{Template: "errors", Title: "Saga errors", Nav: "Sagas", Refresh: 10, Data: d}, nil
}
