package sagapages

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// sagaPage shows one saga: what it is waiting for, the possible actions, and its history.
type sagaPage struct {
	Saga     *client.Saga
	Explain  *client.SagaExplanation
	Accepted string // the action that was just accepted; empty: none
	Actions  []web.Button
	Notes    []web.Button // for the note and the assignee
	Tab      string
	Tabs     []web.Tab
	Took     string
	Now      time.Time

	Rail      rail          // in the tab steps
	Panel     *attemptPanel // in the tabs steps and attempts
	Attempts  []attemptRow
	Omitted   int // number of attempts that are not listed because there are too many
	OlderURL  string
	Events    *eventsTab
	Related   *relatedTab
	Previews  []previewColumn
	Result    json.RawMessage
	Answer    document // the API's response for the saga
	AnswerURL string
}

var sagaTabs = []struct{ key, name string }{
	{"steps", "Steps"}, {"attempts", "Attempts"}, {"events", "Events"}, {"data", "Data"}, {"related", "Related"},
	{"preview", "Preview"}, {"json", "JSON"},
}

func (p *pages) saga(v *web.Visit) (*web.Page, error) {
	id, err := v.ID("saga")
	if err != nil {
		return nil, err
	}
	q := v.URL.Query()
	d := &sagaPage{Tab: q.Get("tab"), Now: v.Now}
	if !slices.ContainsFunc(sagaTabs, func(t struct{ key, name string }) bool { return t.key == d.Tab }) {
		d.Tab = "steps"
	}
	ctx, had := v.Context(), hadBefore(v)
	params := &client.GetSagaParams{Include: []client.GetSagaParamsInclude{"running"}}
	if had.tag != "" {
		params.IfNoneMatch = &had.tag
	}
	if d.Tab == "steps" {
		params.Include = append(params.Include, "steps")
	}
	if d.Tab != "json" { // the requests of attempts are read only when an attempt is opened
		params.View = new(client.GetSagaParamsView("basic"))
	}
	saga, err := p.kit.Client.GetSagaWithResponse(ctx, id, params)
	if err != nil {
		return nil, err
	}
	if saga.StatusCode() == http.StatusNotModified {
		return &web.Page{Data: web.Unchanged{}, Refresh: had.refresh(v.Now)}, nil
	}
	if d.Saga, err = web.Got(saga.JSON200, saga.ApplicationProblemJSONDefault); err != nil {
		return nil, err
	}
	if d.Explain, err = p.explain(v, id); err != nil {
		return nil, err
	}
	s := &story{saga: d.Saga, steps: d.Saga.Steps, explain: d.Explain, logs: d.Saga.StepLogs, now: v.Now, query: q}
	d.Answer = documentOf(saga.Body)
	if known, ok := verbs[client.SagaAction(q.Get("accepted"))]; ok {
		d.Accepted = known.label
	}
	if d.Events, err = p.events(v, id); err != nil {
		return nil, err
	}
	if err := p.fill(v, d, s); err != nil {
		return nil, err
	}
	for _, b := range p.possible(v, d.Explain) {
		if !b.step || d.Saga.NeedsAttention { // actions on a step are next to it in the rail
			d.Actions = append(d.Actions, b.Button)
		}
	}
	d.Notes = p.noteButtons(v, d.Saga)
	d.tabs()
	if d.Saga.StartedAt != nil {
		end := v.Now
		if d.Saga.CompletedAt != nil {
			end = *d.Saga.CompletedAt
		}
		d.Took = web.Duration(end.Sub(*d.Saga.StartedAt))
	}
	state := stateOf(d.Saga, saga.HTTPResponse.Header.Get("ETag"), v.Now)
	page := &web.Page{Template: "saga", Title: titleOf(d.Saga), Nav: "Sagas", Refresh: state.refresh(v.Now), Data: d}
	if versioned(v) {
		page.State = state.String()
	}
	return page, nil
}

// fill adds the data for the tab.
func (p *pages) fill(v *web.Visit, d *sagaPage, s *story) (err error) {
	switch d.Tab {
	case "steps", "attempts":
		if err := p.definition(v, s); err != nil {
			return err
		}
		if d.Panel, err = p.panel(v, s); err != nil {
			return err
		}
		if d.Tab == "attempts" {
			d.attempts(s)
			return nil
		}
		d.Rail = newRail(*s)
		p.rowButtons(v, d)
	case "data":
		d.Result, err = p.result(v, d.Saga)
	case "related":
		d.Related, err = p.related(v, d.Saga)
	case "preview":
		d.Previews, err = p.previews(v, d.Saga, d.Explain)
	}
	return err
}

func (d *sagaPage) tabs() {
	for _, t := range sagaTabs {
		tab := web.Tab{Name: t.name, URL: "?tab=" + t.key, Current: t.key == d.Tab}
		switch t.key {
		case "steps":
			tab.URL = "?"
			tab.Count = web.Count(d.Saga.TotalSteps)
		case "attempts":
			tab.Count = web.Count(len(d.Saga.StepLogs))
		case "events":
			tab.Count = web.Count(len(d.Events.Events), d.Events.Next != "")
		case "preview":
			if len(d.Explain.Actions) == 0 {
				continue
			}
			tab.Count = web.Count(len(d.Explain.Actions))
		}
		d.Tabs = append(d.Tabs, tab)
	}
}

// rowButtons shows the actions on the current step next to it.
func (p *pages) rowButtons(v *web.Visit, d *sagaPage) {
	if d.Explain.Step == nil {
		return
	}
	for i := range d.Rail.Rows {
		if d.Rail.Rows[i].Index != d.Explain.Step.Index {
			continue
		}
		for _, b := range p.possible(v, d.Explain) {
			if b.step {
				d.Rail.Rows[i].Buttons = append(d.Rail.Rows[i].Buttons, b.Button)
			}
		}
	}
}

// StateClass returns the tone for the edge of the explanation.
func (d *sagaPage) StateClass() string {
	if d.Saga.NeedsAttention {
		return "bad"
	}
	return d.Badge().Tone
}

// Badge returns the badge for the state of the saga.
func (d *sagaPage) Badge() web.Badge { return web.SagaBadge(d.Saga.State, d.Saga.Clean) }

// NothingRemains reports whether everything that the saga did was undone.
func (d *sagaPage) NothingRemains() bool {
	s := d.Saga
	return s.Clean != nil && *s.Clean && s.State != client.SagaStateCompleted
}

// Quiet reports whether the saga has ended well, so that a single line suffices.
func (d *sagaPage) Quiet() bool {
	return d.Saga.CompletedAt != nil && !d.Saga.NeedsAttention && !d.NotClean()
}

// NotClean reports whether effects of the saga may remain.
func (d *sagaPage) NotClean() bool { return d.Saga.Clean != nil && !*d.Saga.Clean }

// Archived reports whether the saga is in the archive.
func (d *sagaPage) Archived() bool { return d.Saga.Archived != nil && *d.Saga.Archived }
