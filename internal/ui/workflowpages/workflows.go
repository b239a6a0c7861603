package workflowpages

import (
	"net/url"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// workflowList is the page that lists the workflows.
type workflowList struct {
	*web.List
	Workflows []workflowRow
	Counts    *counts
	Register  *web.Button // nil: the pages are read-only
	Curl      string
}

type workflowRow struct {
	client.Workflow
	*figures
}

var (
	views = []web.View{
		{Name: "All"},
		{Name: "Enabled", Filter: url.Values{"enabled": {"true"}}},
		{Name: "Disabled", Filter: url.Values{"enabled": {"false"}}},
	}
	listFilters = []web.Filter{{Name: "name", Label: "Name", Hint: "order-*"}, since[0]}
	since       = []web.Filter{{Name: "created_from", Label: "Count sagas created from", Hint: "-24h", Time: true}}
)

func (p *pages) list(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.WorkflowPage](v, views, listFilters, p.kit.Client.ListWorkflows,
		"include", "total", "created_from", "")
	if err != nil {
		return nil, err
	}
	d := workflowList{List: l, Register: p.registerButton(v, "Register", registerPath)}
	if d.Counts, err = p.countsOf(v, nil, l.Sent().Get("created_from")); err != nil {
		return nil, err
	}
	for _, w := range list.Workflows {
		d.Workflows = append(d.Workflows, workflowRow{w, d.Counts.All(w.Name)})
	}
	d.Curl = web.Curl(v.Request, p.kit.Base, "POST", "/api/v1/workflows", []byte(`{"name": "order", "steps": [`+
		`{"name": "reserve", "action": {"http": {"url": "https://stock.example/reservations"}}, "compensation": `+
		`{"http": {"url": "https://stock.example/reservations/cancel"}}}]}`))
	return &web.Page{Template: "workflows", Title: "Workflows", Nav: "Workflows", Refresh: 10, Data: d}, nil
}

const registerPath = "/ui/register-workflow"

func (p *pages) registerButton(v *web.Visit, label, path string) *web.Button {
	if p.kit.ReadOnly {
		return nil
	}
	b := v.Button(label, path, "workflows:write", "Write a definition and have it checked as you type.", web.Changes)
	b.Page = true
	return &b
}
