package sagapages

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// attemptRow is an attempt in the table of attempts.
type attemptRow struct {
	*client.StepLog
	Name, Means, Tone, URL string
	Selected               bool
}

const mostAttempts = 500 // in the table, newest last

// attempts lists the attempts in the order in which they began. If there are very many, it shows
// the last ones, or those of the step in the URL.
func (d *sagaPage) attempts(s *story) {
	step := s.query.Get("step")
	chosen := s.chosen()
	for i := range s.logs {
		l := &s.logs[i]
		if len(s.logs) > mostAttempts && step != "" && l.StepName != step {
			continue
		}
		d.Attempts = append(d.Attempts, attemptRow{
			StepLog: l, Name: attemptName(l), Means: outcome(l), Tone: toneOf(l), URL: attemptURL(s.query, l),
			Selected: l == chosen,
		})
	}
	slices.SortStableFunc(d.Attempts, func(a, b attemptRow) int { return a.StartedAt.Compare(b.StartedAt) })
	if d.Omitted = len(d.Attempts) - mostAttempts; d.Omitted > 0 {
		d.Attempts = d.Attempts[d.Omitted:]
	}
}

// eventsTab is a page of the audit events of a saga.
type eventsTab struct {
	Events []client.AuditEvent
	Next   string // URL of the next page; empty: none
	First  string
}

func (p *pages) events(v *web.Visit, id uuid.UUID) (*eventsTab, error) {
	size, order := client.PageSize(200), client.ListSagaEventsParamsOrder("asc")
	params := &client.ListSagaEventsParams{PageSize: &size, Order: &order, Cursor: v.Query("cursor")}
	res, err := p.kit.Client.ListSagaEventsWithResponse(v.Context(), id, params)
	if err != nil {
		return nil, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	t := &eventsTab{Events: list.Events}
	if next := list.Pagination.NextCursor; next != nil && list.Pagination.HasNext {
		t.Next = "?" + url.Values{"tab": {"events"}, "cursor": {*next}}.Encode()
	}
	if params.Cursor != nil {
		t.First = "?tab=events"
	}
	return t, nil
}

// ReasonOf returns the reason given for an event, or "" if there is none.
func (t eventsTab) ReasonOf(e client.AuditEvent) string {
	var data struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(e.EventData, &data) // data in another format has no reason
	return data.Reason
}

// result returns the result of a completed saga, or nil if there is none.
func (p *pages) result(v *web.Visit, s *client.Saga) (json.RawMessage, error) {
	if s.Result != nil || s.State != client.SagaStateCompleted {
		return s.Result, nil
	}
	res, err := p.kit.Client.GetSagaResultWithResponse(v.Context(), s.SagaID, &client.GetSagaResultParams{})
	if err != nil || res.StatusCode() != http.StatusOK {
		return nil, err // the saga has no result, or its result no longer exists
	}
	return res.Body, nil
}

// relatedTab shows everything else with the saga's correlation ID.
type relatedTab struct {
	Correlation string
	Entries     []relatedEntry
	Omitted     []client.TimelineOmitted
	More        bool
}

type relatedEntry struct {
	client.TimelineEntry
	URL  string
	Took string
	Own  bool // belongs to this saga
}

func (p *pages) related(v *web.Visit, s *client.Saga) (*relatedTab, error) {
	if s.CorrelationID == nil {
		return &relatedTab{}, nil
	}
	size := client.PageSize(200)
	res, err := p.kit.Client.GetTimelineWithResponse(
		v.Context(), &client.GetTimelineParams{CorrelationID: *s.CorrelationID, PageSize: &size},
	)
	if err != nil {
		return nil, err
	}
	line, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	t := &relatedTab{Correlation: *s.CorrelationID, Omitted: line.Omitted, More: line.NextCursor != nil}
	for _, e := range line.Entries {
		r := relatedEntry{TimelineEntry: e, Own: e.SagaID != nil && *e.SagaID == s.SagaID}
		switch {
		case e.MessageID != nil:
			r.URL = "/ui/dlq/letters/" + e.MessageID.String()
		case e.RunID != nil:
			r.URL = "/ui/runs/" + e.RunID.String()
		case e.SagaID != nil && !r.Own:
			r.URL = "/ui/sagas/" + e.SagaID.String()
		}
		if e.EndedAt != nil {
			r.Took = web.Duration(e.EndedAt.Sub(e.At))
		}
		t.Entries = append(t.Entries, r)
	}
	return t, nil
}

// previewColumn shows what one action would do.
type previewColumn struct {
	web.Button
	*web.Preview
	Problem *client.Problem
}

// previews makes a dry run of each action that is currently possible.
func (p *pages) previews(v *web.Visit, s *client.Saga, e *client.SagaExplanation) (all []previewColumn, err error) {
	for _, b := range p.possible(v, e) {
		c := previewColumn{Button: b.Button}
		if b.Needs == "" && !verbs[b.name].noDry {
			if err := p.dryRun(v, s, b, &c); err != nil {
				return nil, err
			}
		}
		all = append(all, c)
	}
	return all, nil
}

func (p *pages) dryRun(v *web.Visit, s *client.Saga, b possible, c *previewColumn) error {
	body := map[string]any{"reason": web.PreviewReason}
	if b.name == client.SagaActionExtendDeadline {
		body["timeout_ms"] = (15 * time.Minute).Milliseconds()
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	res, err := verbs[b.name].send(request{
		p.kit.Client, v.Context(), s.SagaID, b.of, bytes.NewReader(raw), web.AsQuery(url.Values{"dry_run": {"true"}}),
	})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		c.Problem = &client.Problem{}
		return json.Unmarshal(answer.Bytes(), c.Problem)
	}
	c.Preview, err = showDryRun(answer.Bytes())
	return err
}
