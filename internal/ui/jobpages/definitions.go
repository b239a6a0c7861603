package jobpages

import (
	"net/url"
	"regexp"
	"slices"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// definitionList is the page that lists the definitions.
type definitionList struct {
	*web.List
	Rows   []definitionRow
	Create *web.Button // nil: the pages are read-only
}

// definitionRow is a definition with the outcomes of its last runs.
type definitionRow struct {
	client.JobDefinition
	URL      string
	Due      string // describes what creates its runs
	Overlap  string
	Outcomes outcomes
	Takers   int
	Unsure   bool // there are more workers than were checked
}

var (
	definitionViews = []web.View{
		{Name: "Yours", Filter: url.Values{"built_in": {"false"}}},
		{Name: "Paused", Filter: url.Values{"paused": {"true"}}},
		{Name: "Disabled", Filter: url.Values{"enabled": {"false"}}},
		{Name: "Built in", Filter: url.Values{"built_in": {"true"}}},
		{Name: "All"},
	}
	definitionFilters = []web.Filter{
		{Name: "name", Label: "Name", Hint: "nightly-*"},
		{Name: "type", Label: "Runs are created", Options: []web.Option{
			{Value: "time", Label: "by a schedule"}, {Value: "event", Label: "by events"}, {Value: "manual", Label: "by hand"},
		}},
		{Name: "command_name", Label: "Command"},
		{Name: "label", Label: "Label", Hint: "team=finance"},
	}
)

func (p *pages) definitions(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.JobDefinitionList](v, definitionViews, definitionFilters,
		p.kit.Client.ListJobDefinitions, "include", "total", "include", "recent_runs", "include", "next_run_at")
	if err != nil {
		return nil, err
	}
	d := definitionList{List: l}
	if !p.kit.ReadOnly {
		b := v.Button("New job", "/ui/jobs/new", "jobs:admin", "Define a job", web.Changes)
		b.Page, d.Create = true, &b
	}
	who, err := p.activeWorkers(v)
	if err != nil {
		return nil, err
	}
	for i := range list.JobDefinitions {
		row := definitionRow{JobDefinition: list.JobDefinitions[i], Unsure: who.More}
		row.URL = p.kit.Base + definitionPath(&row.JobDefinition)
		row.Due, row.Overlap = dueWords(&row.JobDefinition), overlapShort[row.ConcurrencyPolicy]
		row.Takers = who.of(row.Queue, row.CommandName, row.RequiredLabels)
		row.Outcomes = newOutcomes(row.RecentRuns, p.kit.Base)
		d.Rows = append(d.Rows, row)
	}
	return &web.Page{Template: "jobs", Title: "Jobs", Nav: "Jobs", Refresh: 10, Data: d}, nil
}

var (
	plainName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	reserved  = []string{"new", "calendar", "events"} // paths below /ui/jobs/ of other pages
)

// definitionPath returns the path of a definition's page, below the base. The path contains the
// name, unless that is the path of another page or contains characters that are altered in paths.
func definitionPath(d *client.JobDefinition) string {
	if plainName.MatchString(d.Name) && !slices.Contains(reserved, d.Name) {
		return "/ui/jobs/" + d.Name
	}
	return "/ui/jobs/" + d.ID.String()
}
