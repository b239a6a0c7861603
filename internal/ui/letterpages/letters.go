package letterpages

import (
	"net/url"
	"slices"
	"strings"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// letterList is the page that lists the letters, either live or archived.
type letterList struct {
	*web.List
	Areas    []web.Tab
	Letters  []client.DeadLetter
	Archived bool
	Picked   []web.Button // actions on the selected letters
	Fits     *web.Button  // action on all matching letters; nil: the pages are read-only
	Import   *web.Button
	Export   string
}

var (
	letterViews = []web.View{
		{Name: "All"},
		{Name: "Pending", Filter: url.Values{"status": {"PENDING"}}},
		{Name: "Retrying", Filter: url.Values{"status": {"RETRYING"}}},
		{Name: "Dead", Filter: url.Values{"status": {"DEAD"}}},
		{Name: "Resolved", Filter: url.Values{"status": {"RESOLVED"}}},
	}
	archiveViews = []web.View{letterViews[0], letterViews[3], letterViews[4]} // only letters that have ended are archived

	letterFilters = []web.Filter{
		{Name: "topic", Label: "Topic", Hint: "orders.*"},
		{Name: "error_contains", Label: "Error contains", Hint: "bank timeout"},
		{Name: "error_type", Label: "Error type", Hint: "http_503"},
		{Name: "source", Label: "Source", Options: web.Options("KAFKA", "REST", "SAGA", "JOB", "WEBHOOK")},
		{Name: "created_from", Label: "Stored from", Hint: "-24h", Time: true},
		{Name: "created_to", Label: "Stored to", Hint: "-1h", Time: true},
		{Name: "fingerprint", Label: "Group (fingerprint)"},
		{Name: "error_class", Label: "Error class", Options: web.Options("TRANSIENT", "PERMANENT", "UNKNOWN")},
		{Name: "resolution", Label: "Ended as", Options: web.Options(
			"REDRIVEN", "CONFIRMED", "BOUNCED", "MANUAL", "DISCARDED", "EXHAUSTED", "POISON")},
		{Name: "consumer_group", Label: "Consumer group"},
		{Name: "key", Label: "Key"},
		{Name: "key_base64", Label: "Key (base64)"},
		{Name: "header", Label: "Header", Hint: "name=value"},
		{Name: "payload", Label: "Payload", Hint: "order.customer=c-17"},
		{Name: "last_retry_from", Label: "Last retry from", Hint: "-24h", Time: true},
		{Name: "last_retry_to", Label: "Last retry to", Time: true},
		{Name: "retry_count_min", Label: "Minimum failed retries"},
		{Name: "retry_count_max", Label: "Maximum failed retries"},
		{Name: "generation_min", Label: "Minimum returns"},
		{Name: "saga_id", Label: "Saga"},
		{Name: "job_run_id", Label: "Job run"},
		{Name: "correlation_id", Label: "Correlation"},
		{Name: "trace_id", Label: "Trace"},
		{Name: "label", Label: "Label"},
		{Name: "assignee", Label: "Assignee"},
		{Name: "redrive_id", Label: "Last redrive"},
		{Name: "root_id", Label: "First of the lineage"},
	}
)

func (p *pages) letters(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.DeadLetterList](v, letterViews, letterFilters, p.kit.Client.ListDeadLetters,
		"include", "total")
	if err != nil {
		return nil, err
	}
	d := letterList{List: l, Areas: areas("Letters"), Letters: list.Messages}
	return p.listed(v, &d, "Dead letters")
}

func (p *pages) archive(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.DeadLetterList](v, archiveViews, letterFilters,
		p.kit.Client.ListArchivedDeadLetters, "include", "total")
	if err != nil {
		return nil, err
	}
	d := letterList{List: l, Areas: areas("Archive"), Letters: list.Messages, Archived: true}
	return p.listed(v, &d, "Archived dead letters")
}

func (p *pages) listed(v *web.Visit, d *letterList, title string) (*web.Page, error) {
	sent := d.Sent("order", "", "cursor", "", "page", "", "page_size", "", "view", "", "include", "")
	d.Export = "/api/v1/dlq/export?" + sent.Encode()
	if !p.kit.ReadOnly && !d.Archived {
		for _, action := range []string{"Retry", "Resolve", "Discard", "Requeue"} {
			d.Picked = append(d.Picked, v.ForSelected(action+" selected", strings.ToLower(action), "dlq:write"))
		}
		fits := v.Button("All that match", "/ui/redrives/new?"+filterOf(sent).Encode(), "dlq:write",
			"Retry, discard or resolve all letters that match the filters.", web.Changes)
		if d.Total != "" {
			fits.Label += " (" + d.Total + ")"
		}
		fits.Page = true
		d.Fits, d.Import = &fits, importButton(v)
	}
	return &web.Page{
		Template: "letters", Title: title, Nav: "Dead letters", Refresh: 10, Data: d, Scripts: []string{"letters.js"},
	}, nil
}

// importButton opens the form for an import.
func importButton(v *web.Visit) *web.Button {
	b := v.Button("Import", "/ui/dlq/import", "dlq:admin", "Store letters that were exported elsewhere.", web.Changes)
	b.Page = true
	return &b
}

// filterOf converts the parameters of a list to the fields of the redrive form.
func filterOf(q url.Values) url.Values {
	out := url.Values{}
	for name, values := range q {
		values = slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "" })
		if len(values) > 0 {
			out.Set("filter."+name, strings.Join(values, "\n"))
		}
	}
	if len(out) == 0 {
		out.Set("all", "true")
	}
	return out
}

// areas lists the areas of the dead-letter pages.
func areas(current string) []web.Tab {
	return web.Parts(current, web.Link{Name: "Groups", URL: "/ui/dlq"},
		web.Link{Name: "Letters", URL: "/ui/dlq/letters"}, web.Link{Name: "Topics", URL: "/ui/dlq/topics"},
		web.Link{Name: "Archive", URL: "/ui/dlq/archive"}, web.Link{Name: "Redrives", URL: "/ui/redrives"})
}
