package letterpages

import (
	"encoding/json"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// letterPage is one letter: what it waits for, its content, and what has been done about it.
type letterPage struct {
	Letter    *client.DeadLetter
	Explained []template.HTML
	Retryable bool
	Accepted  string // the action that was just accepted
	Saga      *client.SagaExplanation
	Rail      []railStep
	Target    string
	Actions   []web.Button
	Tab       string
	Tabs      []web.Tab
	Areas     []web.Tab

	Carried   carried
	Revisions []revision
	Attempts  []attempt
	JSON      json.RawMessage
	Now       time.Time
}

// railStep is a step of the saga that the letter is of.
type railStep struct {
	client.StepView
	This bool // the letter is about it
}

// revision is an edit, with what it changed.
type revision struct {
	client.DeadLetterRevision
	Changes []operation
	Headers []string // in words
	Key     *header  // the new one; nil: it is the one of before
	Whole   bool     // the payload is not JSON: it was replaced
}

// attempt is a retry in words.
type attempt struct {
	client.DeadLetterAttempt
	Outcome outcome
	To      string
	Took    string
}

var letterTabs = []string{"Content", "Attempts", "Revisions", "Lineage", "JSON"}

func (p *pages) letter(v *web.Visit) (*web.Page, error) {
	l, res, err := p.letterOf(v)
	if err != nil {
		return nil, err
	}
	revisions, err := p.revisionsOf(v, l.ID)
	if err != nil {
		return nil, err
	}
	q := v.URL.Query()
	d := letterPage{
		Letter: l, Explained: explained(l, v.Now), Target: destination(l), Now: v.Now, JSON: res.Body,
		Tab: strings.ToLower(q.Get("tab")), Areas: areas("Letters"), Actions: p.letterButtons(v, l),
		Accepted: accepted[q.Get("accepted")], Retryable: allows(l, client.DeadLetterVerbRetry),
	}
	if !slices.ContainsFunc(letterTabs, func(t string) bool { return strings.EqualFold(t, d.Tab) }) {
		d.Tab = "content"
	}
	others := len(l.Lineage) - 1 // besides itself
	counts := map[string]int{"Attempts": len(l.Attempts), "Revisions": len(revisions), "Lineage": others}
	for _, t := range letterTabs {
		tab := web.Tab{Name: t, URL: "?tab=" + strings.ToLower(t), Current: strings.EqualFold(t, d.Tab)}
		if n := counts[t]; n > 0 {
			tab.Count = web.Count(n)
		}
		d.Tabs = append(d.Tabs, tab)
	}
	if l.SagaID != nil && l.Source == client.DeadLetterSourceSAGA {
		// Without the saga's data the page is still useful, so an error only replaces its box.
		if e, err := p.kit.Client.ExplainSagaWithResponse(v.Context(), *l.SagaID); err == nil {
			d.Saga = e.JSON200
		}
		if s, err := p.kit.Client.ListStepsWithResponse(v.Context(), *l.SagaID, &client.ListStepsParams{
			View: new(client.ListStepsParamsViewBasic), // names and states; what was sent can be large
		}); err == nil && s.JSON200 != nil {
			for _, step := range s.JSON200.Steps {
				d.Rail = append(d.Rail, railStep{step, step.Name == text(l.StepName)})
			}
		}
	}
	switch d.Tab {
	case "content":
		if d.Carried, err = carriedBy(v, l, revisions); err != nil {
			return nil, err
		}
	case "revisions":
		d.Revisions = revisionsShown(l, revisions)
	case "attempts":
		for _, a := range slices.Backward(l.Attempts) {
			d.Attempts = append(d.Attempts, attempt{
				a, outcomeOf(a.Outcome), targetOf(&a.Target), web.Duration(a.EndedAt.Sub(a.StartedAt)),
			})
		}
	}
	page := &web.Page{Template: "letter", Title: titleOf(l), Nav: "Dead letters", Refresh: 5, Data: d}
	if l.Status == client.DeadLetterStatusRETRYING {
		page.Refresh = 1
	}
	return page, nil
}

// revisionsShown returns the edits, newest first, each compared with the previous content.
func revisionsShown(l *client.DeadLetter, all []client.DeadLetterRevision) (out []revision) {
	before := sentBy(l, client.DeadLetterRevision{})
	for _, r := range all {
		r = sentBy(l, r)
		shown := revision{DeadLetterRevision: r, Headers: headerChanges(before.Headers, r.Headers)}
		if was, is := keyOf(before.Key, before.KeyBase64), keyOf(r.Key, r.KeyBase64); !sameKey(was, is) {
			shown.Key = is
		}
		changes, err := difference(before.Payload, r.Payload)
		switch {
		case err == nil:
			shown.Changes = changes
		case before.Payload != nil || r.Payload != nil || text(before.PayloadBase64) != text(r.PayloadBase64):
			shown.Whole = true
		}
		before = r
		out = append(out, shown)
	}
	slices.Reverse(out)
	return out
}

func sameKey(was, is *header) bool {
	return was == nil && is == nil || was != nil && is != nil && *was == *is
}

// headerChanges describes which headers were added and removed.
func headerChanges(before, after []client.DeadLetterHeader) (all []string) {
	was, is := headersOf(before), headersOf(after)
	left := slices.Clone(is)
	for _, h := range was {
		if i := slices.Index(left, h); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			all = append(all, "without "+h.Name+": "+h.Text)
		}
	}
	for _, h := range left {
		all = append(all, "with "+h.Name+": "+h.Text)
	}
	return all
}
