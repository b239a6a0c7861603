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

// letterPage shows one letter: what it is waiting for, its content, and its history.
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

// railStep is a step of the saga that the letter belongs to.
type railStep struct {
	client.StepView
	This bool // whether the letter is about this step
}

// revision is an edit together with what it changed.
type revision struct {
	client.DeadLetterRevision
	Changes []operation
	Headers []string // changes of headers in words
	Key     *header  // the new key; nil: it was not changed
	Whole   bool     // the payload is not JSON, so it was replaced as a whole
}

// attempt describes a retry in words.
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
	others := len(l.Lineage) - 1 // not counting the letter itself
	counts := map[string]int{"Attempts": len(l.Attempts), "Revisions": len(revisions), "Lineage": others}
	for _, t := range letterTabs {
		tab := web.Tab{Name: t, URL: "?tab=" + strings.ToLower(t), Current: strings.EqualFold(t, d.Tab)}
		if n := counts[t]; n > 0 {
			tab.Count = web.Count(n)
		}
		d.Tabs = append(d.Tabs, tab)
	}
	if l.SagaID != nil && l.Source == client.DeadLetterSourceSAGA {
		// The page is still useful without the saga's data, so an error only replaces the box.
		if e, err := p.kit.Client.ExplainSagaWithResponse(v.Context(), *l.SagaID); err == nil {
			d.Saga = e.JSON200
		}
		if s, err := p.kit.Client.ListStepsWithResponse(v.Context(), *l.SagaID, &client.ListStepsParams{
			View: new(client.ListStepsParamsViewBasic), // only names and states, because what was sent can be large
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
