package sagapages

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// sagaPage is one saga: what it waits for, what may be done, and what has happened.
type sagaPage struct {
	Saga       *client.Saga
	Explain    *client.SagaExplanation
	Rail       rail
	Logs       []client.StepLog
	Events     []client.AuditEvent
	Actions    []web.Button
	Tab        string
	Tabs       []web.Tab
	Took       string
	Now        time.Time
	ReadOnly   bool
	MoreEvents bool
	JSON       json.RawMessage // what the API says of the saga
}

var sagaPageTabs = []string{"Steps", "Attempts", "Events", "Data", "JSON"}

func (p *pages) saga(v *web.Visit) (*web.Page, error) {
	id, err := uuid.Parse(v.PathValue("saga"))
	if err != nil {
		return nil, web.ErrNoPage
	}
	d := sagaPage{Tab: strings.ToLower(v.URL.Query().Get("tab")), Now: v.Now, ReadOnly: p.kit.ReadOnly}
	if !slices.ContainsFunc(sagaPageTabs, func(t string) bool { return strings.EqualFold(t, d.Tab) }) {
		d.Tab = "steps"
	}
	for _, t := range sagaPageTabs {
		d.Tabs = append(d.Tabs, web.Tab{Name: t, URL: "?tab=" + strings.ToLower(t), Current: strings.EqualFold(t, d.Tab)})
	}
	ctx := v.Context()
	saga, err := p.kit.Client.GetSagaWithResponse(ctx, id, &client.GetSagaParams{Include: []string{"running"}})
	if err != nil {
		return nil, err
	}
	if d.Saga, err = web.Got(saga.JSON200, saga.ApplicationProblemJSONDefault); err != nil {
		return nil, err
	}
	explain, err := p.kit.Client.ExplainSagaWithResponse(ctx, id)
	if err != nil {
		return nil, err
	}
	if d.Explain, err = web.Got(explain.JSON200, explain.ApplicationProblemJSONDefault); err != nil {
		return nil, err
	}
	d.Logs, d.JSON = d.Saga.StepLogs, saga.Body
	if d.Tab == "steps" {
		if d.Rail, err = p.railOf(v, d.Saga, d.Logs); err != nil {
			return nil, err
		}
	}
	if d.Tab == "events" {
		events, err := p.kit.Client.ListSagaEventsWithResponse(ctx, id, &client.ListSagaEventsParams{})
		if err != nil {
			return nil, err
		}
		list, err := web.Got(events.JSON200, events.ApplicationProblemJSONDefault)
		if err != nil {
			return nil, err
		}
		d.Events, d.MoreEvents = list.Events, list.Pagination.HasNext
	}
	d.Actions = p.buttonsOf(v, d.Explain)
	if s := d.Saga; s.StartedAt != nil {
		end := v.Now
		if s.CompletedAt != nil {
			end = *s.CompletedAt
		}
		d.Took = web.Duration(end.Sub(*s.StartedAt))
	}
	page := &web.Page{Template: "saga", Title: titleOf(d.Saga), Nav: "Sagas", Refresh: 5, Data: d}
	if d.Saga.CompletedAt == nil {
		page.Refresh = 1
	}
	return page, nil
}

func (p *pages) railOf(v *web.Visit, s *client.Saga, logs []client.StepLog) (rail, error) {
	res, err := p.kit.Client.ListStepsWithResponse(v.Context(), s.SagaID, &client.ListStepsParams{})
	if err != nil {
		return rail{}, err
	}
	steps, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return rail{}, err
	}
	var definition *client.WorkflowDefinition // what the steps call is worth a line, not the page
	version, err := p.kit.Client.GetWorkflowVersionWithResponse(
		v.Context(), s.WorkflowName, int32(s.WorkflowVersion), &client.GetWorkflowVersionParams{},
	)
	if err == nil && version.JSON200 != nil {
		definition = version.JSON200.Definition
	}
	return newRail(s, steps.Steps, logs, definition, v.Now), nil
}

// titleOf names a saga as people do: by its name, else by its workflow and what it is
// about.
func titleOf(s *client.Saga) string {
	switch {
	case s.Name != nil && *s.Name != "":
		return *s.Name
	case s.BusinessKey != nil && *s.BusinessKey != "":
		return s.WorkflowName + " " + *s.BusinessKey
	}
	return s.WorkflowName + " " + s.SagaID.String()[:8]
}
