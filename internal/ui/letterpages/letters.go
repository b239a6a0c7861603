package letterpages

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// letterList is the page of the list of letters, live or archived.
type letterList struct {
	*web.List
	Areas    []web.Tab
	Usual    []web.Filter
	More     []web.Filter
	MoreOpen bool // one of the filters in More is set
	Chips    []chip
	Letters  []client.DeadLetter
	Archived bool
	Picked   []web.Button // on those selected
	Fits     *web.Button  // on all matching letters; nil: the pages are read-only
	Import   *web.Button
	Export   string
	Now      time.Time
}

// chip is a filter that is set, and the list without it.
type chip struct{ Text, URL string }

var (
	letterViews = []web.View{
		{Name: "All"},
		{Name: "Pending", Filter: url.Values{"status": {"PENDING"}}},
		{Name: "Retrying", Filter: url.Values{"status": {"RETRYING"}}},
		{Name: "Dead", Filter: url.Values{"status": {"DEAD"}}},
		{Name: "Resolved", Filter: url.Values{"status": {"RESOLVED"}}},
	}
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
		{Name: "retry_count_min", Label: "Retries, at least"},
		{Name: "retry_count_max", Label: "Retries, at most"},
		{Name: "generation_min", Label: "Came back, at least"},
		{Name: "saga_id", Label: "Saga"},
		{Name: "job_run_id", Label: "Job run"},
		{Name: "correlation_id", Label: "Correlation"},
		{Name: "trace_id", Label: "Trace"},
		{Name: "label", Label: "Label"},
		{Name: "assignee", Label: "Assignee"},
		{Name: "redrive_id", Label: "Last redrive"},
		{Name: "root_id", Label: "First of the lineage"},
	}
	order = web.Filter{Name: "order", Label: "Order", Options: []web.Option{
		{Value: "desc", Label: "newest first"}, {Value: "asc", Label: "oldest first"},
	}}
)

const usualFilters = 6

func (p *pages) letters(v *web.Visit) (*web.Page, error) {
	d := letterList{
		List: v.NewList(letterViews, append(slices.Clone(letterFilters), order)), Areas: areas("Letters"),
	}
	res, err := p.kit.Client.ListDeadLettersWithResponse(v.Context(), &client.ListDeadLettersParams{},
		web.AsQuery(d.Sent(v.Now, "page_size", "50", "include", "total")))
	if err != nil {
		return nil, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	return p.listed(v, &d, list, "Dead letters")
}

func (p *pages) archive(v *web.Visit) (*web.Page, error) {
	d := letterList{List: v.NewList(letterViews, letterFilters), Areas: areas("Archive"), Archived: true}
	res, err := p.kit.Client.ListArchivedDeadLettersWithResponse(v.Context(), &client.ListArchivedDeadLettersParams{},
		web.AsQuery(d.Sent(v.Now, "page_size", "50", "include", "total")))
	if err != nil {
		return nil, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	return p.listed(v, &d, list, "Archived dead letters")
}

func (p *pages) listed(v *web.Visit, d *letterList, list *client.DeadLetterList, title string) (*web.Page, error) {
	d.Now, d.Letters = v.Now, list.Messages
	d.Paged(list.Pagination)
	d.Usual, d.More = d.Filters[:usualFilters], d.Filters[usualFilters:]
	for _, f := range d.More {
		d.MoreOpen = d.MoreOpen || f.Value != ""
	}
	d.Chips = chipsOf(v.URL.Query())
	sent := d.Sent(v.Now)
	for _, name := range []string{"order", "cursor", "page", "page_size", "view", "include"} {
		sent.Del(name)
	}
	d.Export = "/api/v1/dlq/export?" + sent.Encode()
	if !p.kit.ReadOnly && !d.Archived {
		for _, action := range []string{"Retry", "Resolve", "Discard", "Requeue"} {
			d.Picked = append(d.Picked, v.ForSelected(action+" selected", strings.ToUpper(action), "dlq:write"))
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

// importButton leads to the form of an import.
func importButton(v *web.Visit) *web.Button {
	b := v.Button("Import", "/ui/dlq/import", "dlq:admin", "Store letters that were exported elsewhere.", web.Changes)
	b.Page = true
	return &b
}

// chipsOf are the filters of a URL.
func chipsOf(q url.Values) (all []chip) {
	for _, name := range slices.Sorted(keys(q)) {
		if name == "cursor" || name == "page" {
			continue
		}
		for i, value := range q[name] {
			if value == "" {
				continue
			}
			rest := url.Values{}
			for other, values := range q {
				if other != "cursor" {
					rest[other] = slices.Clone(values)
				}
			}
			rest[name] = slices.Delete(rest[name], i, i+1)
			all = append(all, chip{name + ": " + value, "?" + rest.Encode()})
		}
	}
	return all
}

func keys(q url.Values) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range q {
			if !yield(name) {
				return
			}
		}
	}
}

// filterOf turns the parameters of a list into the fields of the form of a redrive.
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

// areas are the parts of the pages of dead letters.
func areas(current string) (all []web.Tab) {
	for _, a := range []web.Tab{
		{Name: "Groups", URL: "/ui/dlq"}, {Name: "Letters", URL: "/ui/dlq/letters"}, {Name: "Topics", URL: "/ui/dlq/topics"},
		{Name: "Archive", URL: "/ui/dlq/archive"}, {Name: "Redrives", URL: "/ui/redrives"},
	} {
		a.Current = a.Name == current
		all = append(all, a)
	}
	return all
}
