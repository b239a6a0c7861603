package jobpages

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// eventList is the page that lists the events that start runs.
type eventList struct {
	*web.List
	*client.JobEventRecordList
	Publish web.Button
	Offered bool
}

var (
	eventViews = []web.View{
		{Name: "All"}, {Name: "Not yet processed", Filter: url.Values{"processed": {"false"}}},
		{Name: "Processed", Filter: url.Values{"processed": {"true"}}},
	}
	eventFilters = []web.Filter{
		{Name: "event_type", Label: "Type", Hint: "order.paid"},
		{Name: "correlation_id", Label: "Correlation"},
		{Name: "created_from", Label: "Created from", Hint: "-24h", Time: true},
		{Name: "created_to", Label: "Created before", Time: true},
	}
)

func (p *pages) events(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.JobEventRecordList](v, eventViews, eventFilters, p.kit.Client.ListJobEvents,
		"include", "total")
	if err != nil {
		return nil, err
	}
	d := eventList{List: l, JobEventRecordList: list, Offered: !p.kit.ReadOnly}
	d.Publish = v.Button("Publish", "/ui/jobs/events/publish", "jobs:write", "Starts the jobs that it triggers.", web.Safe)
	return &web.Page{Template: "job-events", Title: "Job events", Nav: "Jobs", Refresh: 10, Data: d}, nil
}

func (p *pages) publish(*web.Visit) (*web.Action, error) {
	return &web.Action{
		Label: "Publish", Title: "Publish an event", Nav: "Jobs", Back: web.Link{Name: "Events", URL: "/ui/jobs/events"},
		Needs: "jobs:write", NoReason: true, DryRun: web.DryRunInQuery,
		Means: "Every enabled job triggered by events of this type gets a run. An event whose dedupe key is already known " +
			"is not stored again.",
		Fields: []web.Field{
			{Name: "event_type", Label: "Type", Required: true, Hint: "order.paid"},
			{Name: "payload", Label: "Payload", Kind: "json", Hint: `{"order": 4711}`},
			{Name: "dedupe_key", Label: "Dedupe key"},
			{Name: "correlation_id", Label: "Correlation"},
		},
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.PublishJobEventWithBody(ctx, &client.PublishJobEventParams{}, web.JSON, body, edit)
		},
		Done: func([]byte) string { return "/ui/jobs/events" },
	}, nil
}
