package jobpages

import (
	"net/url"
	"slices"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// runList is the page that lists the runs.
type runList struct {
	*web.List
	Rows   []runRow
	Bulks  []web.Button // actions on all matching runs
	Pick   bool         // runs can be selected
	Picked []web.Button // actions on the selected runs
}

var (
	runViews = []web.View{
		{Name: "All"},
		{Name: "In progress", Filter: url.Values{"state": {"ASSIGNED", "RUNNING", "ORPHANED"}}},
		{Name: "Waiting", Filter: url.Values{"state": {"PENDING"}}},
		{Name: "Failed", Filter: url.Values{"state": {"FAILED", "TIMED_OUT"}}},
		{Name: "Succeeded", Filter: url.Values{"state": {"SUCCEEDED"}}},
		{Name: "Canceled", Filter: url.Values{"state": {"CANCELED"}}},
		{Name: "Skipped", Filter: url.Values{"state": {"SKIPPED"}}},
	}
	runFilters = []web.Filter{
		{Name: "definition", Label: "Job", Hint: "nightly-report"},
		{Name: "queue", Label: "Queue"},
		{Name: "trigger", Label: "Created by", Options: web.Labelled("TIME", "a schedule", "EVENT", "an event",
			"MANUAL", "hand", "RETRY", "a retry", "BACKFILL", "a backfill", "SAGA", "a saga", "DLQ", "a dead letter")},
		{Name: "error_code", Label: "Error code"},
		{Name: "finished_from", Label: "Finished from", Hint: "-24h", Time: true},
		{Name: "late_by_min", Label: "Late by (minutes)", Hint: "5"},
		{Name: "gave_up", Label: "Gave up and was not rerun", Options: web.YesNo},
		{Name: "finished_to", Label: "Finished before", Time: true},
		{Name: "scheduled_from", Label: "Due from", Hint: "-24h", Time: true},
		{Name: "scheduled_to", Label: "Due before", Time: true},
		{Name: "created_from", Label: "Created from", Time: true},
		{Name: "created_to", Label: "Created before", Time: true},
		{Name: "label", Label: "Label", Hint: "team=finance"},
		{Name: "worker", Label: "Worker's id"},
		{Name: "correlation_id", Label: "Correlation", Hint: "checkout-*", Prefix: "correlation_id_prefix"},
		{Name: "saga_id", Label: "Saga's id"},
		{Name: "root_run_id", Label: "First run of the chain"},
		{Name: "backfill_id", Label: "Backfill's id"},
	}
)

func (p *pages) runs(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.JobRunList](v, runViews, runFilters, p.kit.Client.ListJobRuns,
		"include", "total")
	if err != nil {
		return nil, err
	}
	d := runList{List: l, Rows: p.rowsOf(v, list.JobRuns), Pick: !p.kit.ReadOnly}
	if !p.kit.ReadOnly && len(d.Rows) > 0 {
		d.Bulks = bulkButtons(v, l)
		for i := range d.Bulks {
			if d.Total != "" {
				d.Bulks[i].Label += " (" + d.Total + ")"
			}
		}
		if anyAllows(d.Rows, client.JobRunVerbCancel) {
			d.Picked = append(d.Picked, v.ForSelected("Cancel selected", "cancel", "jobs:write"))
		}
		if anyAllows(d.Rows, client.JobRunVerbRerun) {
			d.Picked = append(d.Picked, v.ForSelected("Rerun selected", "rerun", "jobs:write"))
		}
	}
	return &web.Page{
		Template: "runs", Title: "Runs", Nav: "Jobs", Refresh: 10, Data: d, Scripts: []string{"jobs.js"},
	}, nil
}

// anyAllows reports whether an action is possible on any run of the page.
func anyAllows(rows []runRow, verb client.JobRunVerb) bool {
	return slices.ContainsFunc(rows, func(r runRow) bool { return slices.Contains(r.AllowedActions, verb) })
}

// bulkButtons returns the actions on all runs that match the list's filters.
func bulkButtons(v *web.Visit, l *web.List) (all []web.Button) {
	matching := l.Sent("sort", "", "order", "")
	button := func(label, action, means string) web.Button {
		return v.Button(label, web.RunBulk(action, matching), "jobs:admin", means, web.Changes)
	}
	over, states := 0, v.URL.Query()["state"]
	for _, state := range states {
		if slices.Contains(ended, client.JobRunState(state)) {
			over++
		}
	}
	if over == 0 || over < len(states) {
		all = append(all, button("Cancel all that match", "cancel",
			"Cancels the runs that have not started and asks the workers of the others to stop."))
	}
	if len(states) == 0 || over > 0 {
		all = append(all, button("Rerun all that match", "rerun", "Creates new runs for those that have ended."))
	}
	return all
}
