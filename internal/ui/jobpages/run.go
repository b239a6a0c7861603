package jobpages

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// runPage shows one run.
type runPage struct {
	*client.JobRun
	Badge    web.Badge
	Took     string
	Overlap  string // what its concurrency key means for other runs
	Explain  *client.JobRunExplanation
	Waits    string // what it waits for
	Beside   beside
	Summary  string // the summary of Explain
	Actions  []web.Button
	Tabs     []web.Tab
	Tab      string
	Chain    []runRow
	Story    []decision
	Gantt    gantt
	Log      logTail
	Error    *client.JobRunError
	Said     bool // the summary contains the whole error message
	CPU      string
	Percent  string // as reported by the worker; empty: not reported
	Counters []string
	JSON     json.RawMessage
	Now      time.Time
}

// CreatedBy describes what created the run.
func (p *runPage) CreatedBy() string { return createdBy(p.Trigger) }

// decision is an event of the run.
type decision struct {
	client.JobEvent
	From, To  *web.Badge
	Token     string // fencing token of its attempt; empty: none
	Why       string
	Who       string // person or program that requested it; empty: a worker or the scheduler
	WhoseName *string
}

// logTail is the end of a run's log, shown in browsers without scripts.
type logTail struct {
	Attempts []int
	Lines    []string
	Left     string // the reason why the log is incomplete; empty: it is complete
	Shown    bool
}

func (p *pages) gotRun(v *web.Visit) (*client.JobRun, json.RawMessage, error) {
	id, err := v.ID("run")
	if err != nil {
		return nil, nil, err
	}
	res, err := p.kit.Client.GetJobRunWithResponse(v.Context(), id, &client.GetJobRunParams{})
	if err != nil {
		return nil, nil, err
	}
	r, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	return r, res.Body, err
}

var runTabs = []string{"Log", "Decisions", "Data", "Retries", "JSON"}

func (p *pages) runDetail(v *web.Visit) (*web.Page, error) {
	r, raw, err := p.gotRun(v)
	if err != nil {
		return nil, err
	}
	d := &runPage{
		JobRun: r, JSON: raw, Now: v.Now, Badge: web.BadgeOf(r.State), Took: took(r, v.Now),
		Overlap: keyWords[r.ConcurrencyPolicy], Error: r.Error,
		Tab: v.URL.Query().Get("tab"),
	}
	if d.Tab == "" {
		d.Tab = "decisions"
		if r.StartedAt != nil || r.LogBytes > 0 {
			d.Tab = "log"
		}
	}
	for _, t := range runTabs {
		d.Tabs = append(d.Tabs, web.Tab{Name: t, URL: "?tab=" + strings.ToLower(t), Current: strings.EqualFold(t, d.Tab)})
	}
	if c := r.ResourceCPUSecondsTotal; c != nil {
		d.CPU = fmt.Sprintf("%.2f s", *c)
	}
	if r.Progress != nil {
		if n := r.Progress.Percent; n != nil {
			d.Percent = fmt.Sprintf("%.1f", *n)
		}
		for name, value := range r.Progress.Counters {
			d.Counters = append(d.Counters, fmt.Sprintf("%s %v", name, value))
		}
		slices.Sort(d.Counters)
	}
	if err := p.explainRun(v, d); err != nil {
		return nil, err
	}
	if err := p.chainOf(v, d); err != nil {
		return nil, err
	}
	if d.Beside, err = p.besideOf(v, r, d.Chain); err != nil {
		return nil, err
	}
	d.Actions = p.runButtons(v, r, len(d.Beside.Again) > 0)
	page := &web.Page{
		Template: "run", Title: r.JobDefinition.Name, Nav: "Jobs", Data: d, Refresh: 5, Scripts: []string{"jobs.js"},
	}
	if r.FinishedAt == nil {
		page.Refresh = 1
	}
	if d.Tab == "log" {
		return page, p.tailOf(v, d)
	}
	return page, nil
}

func (p *pages) explainRun(v *web.Visit, d *runPage) error {
	res, err := p.kit.Client.ExplainJobRunWithResponse(v.Context(), d.ID)
	if err != nil {
		return err
	}
	if d.Explain, err = web.Got(res.JSON200, res.ApplicationProblemJSONDefault); err != nil {
		return err
	}
	attempts, err := p.kit.Client.ListJobRunAttemptsWithResponse(v.Context(), d.ID)
	if err != nil {
		return err
	}
	list, err := web.Got(attempts.JSON200, attempts.ApplicationProblemJSONDefault)
	if err != nil {
		return err
	}
	d.Gantt = newGantt(d.JobRun, list.Attempts, v.Now)
	tokens := map[int]string{}
	for _, a := range list.Attempts {
		d.Log.Attempts = append(d.Log.Attempts, a.Attempt)
		if a.FencingToken != nil {
			tokens[a.Attempt] = *a.FencingToken
		}
	}
	d.Summary, d.Waits = web.Prose(d.Explain.Summary), waitWords[d.Explain.WaitsFor]
	if d.Waits == "" {
		d.Waits = "It has been waiting for: " + web.Words(d.Explain.WaitsFor)
	}
	d.Said = d.Error != nil && strings.Contains(d.Explain.Summary, d.Error.Message)
	for i := range d.Gantt.Rows { // the attempt does not repeat what the summary says
		if reason := d.Gantt.Rows[i].Reason; reason != nil && strings.Contains(d.Explain.Summary, *reason) {
			d.Gantt.Rows[i].Reason = nil
		}
	}
	for _, e := range d.Explain.Decisions {
		row := decision{JobEvent: e}
		if e.Reason != nil {
			row.Why = *e.Reason
		}
		if e.Attempt != nil {
			row.Token = tokens[*e.Attempt]
		}
		switch {
		case e.Actor != nil:
			row.Who, row.WhoseName = *e.Actor, e.ActorName
		case e.Kind == client.JobEventKindCreated && d.InitiatedBy != nil:
			row.Who, row.WhoseName = *d.InitiatedBy, d.InitiatedByName
		}
		if e.FromState != nil {
			b := web.BadgeOf(*e.FromState)
			row.From = &b
		}
		if e.ToState != nil && (e.FromState == nil || *e.FromState != *e.ToState) {
			b := web.BadgeOf(*e.ToState)
			row.To = &b
		}
		d.Story = append(d.Story, row)
	}
	return nil
}

// retriesOf reads a run, given by the first one, and the runs that repeat it or each other.
func (p *pages) retriesOf(v *web.Visit, root uuid.UUID) ([]client.JobRun, error) {
	size := client.PageSize(100)
	list, err := p.listed(v.Context(), &client.ListJobRunsParams{RootRunID: &root, PageSize: &size})
	if err != nil {
		return nil, err
	}
	return list.JobRuns, nil
}

// chainOf adds the chain of retries that the run belongs to.
func (p *pages) chainOf(v *web.Visit, d *runPage) error {
	runs, err := p.retriesOf(v, d.RootRunID)
	if err != nil {
		return err
	}
	d.Chain = p.rowsOf(v, runs)
	if n := len(d.Chain); n > 1 {
		for i := range d.Tabs {
			if d.Tabs[i].Name == "Retries" {
				d.Tabs[i].Count = web.Count(n - 1) // not counting this run
			}
		}
	}
	return nil
}

const (
	tailLines = 200
	tailBytes = 1 << 20 // maximum size of a log that is read completely in order to show its end
)

// tailOf reads the end of the log. With scripts, the page loads the log separately, and a refresh
// of the page does not need it.
func (p *pages) tailOf(v *web.Visit, d *runPage) error {
	switch {
	case v.Header.Get("Sec-Fetch-Dest") == "empty":
		return nil
	case !v.May("payloads:read"):
		d.Log.Left = "Reading logs requires the permission payloads:read."
		return nil
	case d.LogBytes > tailBytes:
		d.Log.Left = "The log is too long to show (" + web.Bytes(d.LogBytes) + "): download it."
		return nil
	}
	format := client.GetRunLogParamsFormatText
	res, err := p.kit.Client.GetRunLogWithResponse(v.Context(), d.ID, &client.GetRunLogParams{Format: &format})
	if err != nil {
		return err
	}
	if res.ApplicationProblemJSONDefault != nil {
		d.Log.Left = res.ApplicationProblemJSONDefault.Detail
		return nil
	}
	for line := range strings.Lines(string(res.Body)) {
		d.Log.Lines = append(d.Log.Lines, plain(line))
	}
	if n := len(d.Log.Lines) - tailLines; n > 0 {
		d.Log.Lines = d.Log.Lines[n:]
		d.Log.Left = fmt.Sprintf("The last %d lines. The download also has the earlier lines (%s).", tailLines, web.Count(n))
	}
	d.Log.Shown = true
	return nil
}

// plain returns a line without terminal color sequences.
func plain(line string) string {
	var b strings.Builder
	for rest := line; rest != ""; {
		before, after, found := strings.Cut(rest, "\x1b[")
		b.WriteString(before)
		if !found {
			break
		}
		i := strings.IndexFunc(after, func(c rune) bool { return c >= '@' && c <= '~' })
		if i < 0 {
			break
		}
		rest = after[i+1:]
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}
