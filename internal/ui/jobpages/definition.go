package jobpages

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// definitionPage is the page of one definition.
type definitionPage struct {
	Job      *client.JobDefinition
	Due      string
	Policies []string
	Takers   int
	Unsure   bool
	Actions  []web.Button
	Tabs     []web.Tab
	Tab      string
	Outcomes outcomes
	Runs     []runRow
	Next     *client.TickList
	Ticks    []tickRow
	Versions []versionRow
	Fills    []client.Backfill
	JSON     json.RawMessage
	URL      string // URL of the page
	Now      time.Time
}

// versionRow is a version of a definition with all its members.
type versionRow struct {
	client.JobDefinitionVersion
	JSON json.RawMessage
}

// tickRow is a slot, or a time without a slot because of a clock change.
type tickRow struct {
	At          time.Time
	Local, Note string
	Omitted     bool
}

// ticksOf returns the slots and the omitted times between them, in order.
func ticksOf(l *client.TickList) (rows []tickRow) {
	left := l.Omitted
	for _, t := range l.Ticks {
		for len(left) > 0 && left[0].At.Before(t.At) {
			rows = append(rows, tickRow{At: left[0].At, Local: localTime(left[0]), Note: noteOf(left[0].Note), Omitted: true})
			left = left[1:]
		}
		rows = append(rows, tickRow{At: t.At, Local: localTime(t), Note: noteOf(t.Note)})
	}
	return rows
}

// localTime formats the local time with the day of the week.
func localTime(t client.Tick) string {
	at, err := time.Parse("2006-01-02T15:04:05", t.LocalTime)
	if err != nil {
		return t.LocalTime
	}
	return at.Format("Mon 2006-01-02 15:04:05")
}

// got reads the definition in the URL, and its ETag.
func (p *pages) got(
	v *web.Visit, include ...client.GetJobDefinitionParamsInclude,
) (*client.JobDefinition, string, json.RawMessage, error) {
	res, err := p.kit.Client.GetJobDefinitionWithResponse(
		v.Context(), v.PathValue("definition"), &client.GetJobDefinitionParams{Include: include},
	)
	if err != nil {
		return nil, "", nil, err
	}
	d, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, "", nil, err
	}
	return d, res.HTTPResponse.Header.Get("ETag"), res.Body, nil
}

var definitionTabs = []string{"Runs", "Next", "Versions", "Definition", "Backfills"}

func (p *pages) definition(v *web.Visit) (*web.Page, error) {
	job, _, _, err := p.got(v, client.GetJobDefinitionParamsIncludeRecentRuns,
		client.GetJobDefinitionParamsIncludeNextRunAt)
	if err != nil {
		return nil, err
	}
	d := definitionPage{
		Job: job, Outcomes: newOutcomes(job.RecentRuns, p.kit.Base), Due: dueWords(job), Policies: policyWords(job),
		Now: v.Now, Tab: v.URL.Query().Get("tab"), URL: definitionPath(job),
	}
	if d.Tab == "" {
		d.Tab = "runs"
	}
	for _, t := range definitionTabs {
		d.Tabs = append(d.Tabs, web.Tab{Name: t, URL: "?tab=" + strings.ToLower(t), Current: strings.EqualFold(t, d.Tab)})
	}
	who, err := p.activeWorkers(v)
	if err != nil {
		return nil, err
	}
	d.Takers, d.Unsure = who.of(job.Queue, job.CommandName, job.RequiredLabels), who.More
	d.Actions = p.definitionButtons(v, job)
	if err := p.fillTab(v, &d); err != nil {
		return nil, err
	}
	page := &web.Page{Template: "job", Title: job.Name, Nav: "Jobs", Refresh: 5, Data: d}
	for i := range d.Runs {
		if d.Runs[i].FinishedAt == nil && d.Runs[i].StartedAt != nil {
			page.Refresh = 1
		}
	}
	return page, nil
}

// fillTab reads the data for the tab.
func (p *pages) fillTab(v *web.Visit, d *definitionPage) error {
	of, ctx := d.Job.ID.String(), v.Context()
	switch d.Tab {
	case "runs":
		size := client.PageSize(50)
		list, err := p.listed(ctx, &client.ListJobRunsParams{Definition: &of, PageSize: &size})
		if err != nil {
			return err
		}
		d.Runs = p.rowsOf(v, list.JobRuns)
	case "next":
		res, err := p.kit.Client.ListNextJobRunsWithResponse(ctx, of, &client.ListNextJobRunsParams{})
		if err != nil {
			return err
		}
		if d.Next, err = web.Got(res.JSON200, res.ApplicationProblemJSONDefault); err != nil {
			return err
		}
		d.Ticks = ticksOf(d.Next)
	case "versions":
		res, err := p.kit.Client.ListJobDefinitionVersionsWithResponse(ctx, of)
		if err != nil {
			return err
		}
		list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
		if err != nil {
			return err
		}
		for i := range list.Versions {
			text, err := json.Marshal(list.Versions[i])
			if err != nil {
				return err
			}
			d.Versions = append(d.Versions, versionRow{list.Versions[i], text})
		}
	case "backfills":
		res, err := p.kit.Client.ListBackfillsWithResponse(ctx, of, &client.ListBackfillsParams{})
		if err != nil {
			return err
		}
		list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
		if err != nil {
			return err
		}
		d.Fills = list.Backfills
	case "definition":
		var err error
		if _, _, d.JSON, err = p.got(v); err != nil { // read without the runs, in the form that a client would store
			return err
		}
	default:
		return &web.Refusal{Problem: client.Problem{
			Status: http.StatusNotFound, Code: "REQ_NOT_FOUND", Title: "Not found", Detail: "There is no such tab.",
		}}
	}
	return nil
}

// definitionButtons returns the actions that a definition's state allows.
func (p *pages) definitionButtons(v *web.Visit, d *client.JobDefinition) (all []web.Button) {
	if p.kit.ReadOnly || d.DeletedAt != nil {
		return nil
	}
	add := func(label, action, permission, means string, class web.Class) {
		all = append(all, v.Button(label, definitionPath(d)+"/actions/"+action, permission, means, class))
	}
	add("Run now", "run", "jobs:write", "Creates a run in addition to the scheduled ones.", web.Safe)
	if d.Paused {
		add("Resume", "resume", "jobs:write", "Slots apply again from now on.", web.Changes)
	} else if d.Type != client.JobTypeManual {
		add("Pause", "pause", "jobs:write", "No runs are created automatically.", web.Changes)
	}
	if d.BuiltIn {
		return all
	}
	if d.Schedule != nil {
		add("Backfill", "backfill", "jobs:admin", "Runs past slots.", web.Changes)
	}
	add("Edit", "edit", "jobs:admin", "Changes the definition; existing runs keep theirs.", web.Changes)
	add("Delete", "delete", "jobs:admin", "Its runs are kept, and its name can be reused.", web.Dangerous)
	return all
}
