package sagapages

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// possible is an action that the saga's state allows.
type possible struct {
	web.Button
	name  client.SagaAction
	of    string // the step that the action is about; empty: the whole saga
	step  bool
	force bool
}

// possible returns the actions that the API lists for a saga, in the same order but with dangerous
// ones last.
func (p *pages) possible(v *web.Visit, e *client.SagaExplanation) (all []possible) {
	if p.kit.ReadOnly {
		return nil
	}
	var last []possible
	for _, a := range e.Actions {
		known, ok := verbs[a.Action]
		if !ok || known.step && e.Step == nil {
			continue
		}
		b := possible{name: a.Action, step: known.step, force: known.class == web.Dangerous}
		path := "/ui/sagas/" + e.SagaID.String() + "/actions/" + string(a.Action)
		if known.step {
			b.of = e.Step.Name
			path += "?" + url.Values{"step": {b.of}}.Encode()
		}
		b.Button = v.Button(known.labelFor(e.Step), path, a.Permission, a.Description, known.class)
		if b.force {
			last = append(last, b)
		} else {
			all = append(all, b)
		}
	}
	return append(all, last...)
}

// labelFor returns the label of the action for a saga at the given step, or at no step if it is
// nil.
func (k verb) labelFor(step *client.ExplainedStep) string {
	switch {
	case !k.step || step == nil:
		return strings.ReplaceAll(k.label, "%s", "the step")
	case step.Action == client.StepActionCOMPENSATE:
		return fmt.Sprintf(k.undo, step.Name)
	}
	return fmt.Sprintf(k.label, step.Name)
}

// buttonsOf returns the possible actions as buttons.
func (p *pages) buttonsOf(v *web.Visit, e *client.SagaExplanation) (all []web.Button) {
	for _, b := range p.possible(v, e) {
		all = append(all, b.Button)
	}
	return all
}

// action is the form for an action on a saga.
func (p *pages) action(v *web.Visit) (*web.Action, error) {
	id, err := v.ID("saga")
	name := client.SagaAction(v.PathValue("action"))
	known, ok := verbs[name]
	if err != nil || !ok {
		return nil, web.ErrNoPage
	}
	e, err := p.explain(v, id)
	if err != nil {
		return nil, err
	}
	res, err := p.kit.Client.GetSagaWithResponse(
		v.Context(), id, &client.GetSagaParams{View: new(client.GetSagaParamsView("basic"))},
	)
	if err != nil {
		return nil, err
	}
	s, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	step, label := v.Form.Get("step"), known.labelFor(e.Step)
	a := &web.Action{
		Label: label, Title: label + ": " + titleOf(s), Nav: "Sagas",
		Back: web.Link{Name: titleOf(s), URL: "/ui/sagas/" + id.String()}, Class: known.class, Warning: known.warning,
		Fields: append([]web.Field(nil), known.fields...), ETag: res.HTTPResponse.Header.Get("ETag"),
		Subject: id.String(), State: web.BadgeOf(s.State).Word,
		DryRun: web.DryRunInQuery, Show: showDryRun, Needs: known.needs(),
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return known.send(request{p.kit.Client, ctx, id, step, body, edit})
		},
		Done: func([]byte) string { return "/ui/sagas/" + id.String() + "?accepted=" + string(name) },
	}
	if known.noDry {
		a.Show = nil
	}
	for _, possible := range e.Actions {
		if possible.Action == name {
			a.Means = possible.Description
		}
	}
	switch {
	case name == client.SagaActionCancel:
		a.Label = "Cancel the saga" // next to Back, the word alone could mean the form
	case name == client.SagaActionRetry:
		if err := p.retry(v, a, s, e); err != nil {
			return nil, err
		}
	case name == client.SagaActionExtendDeadline:
		a.Body = func(form web.Form, members map[string]any) error {
			if strings.TrimSpace(form["until"]) != "" {
				delete(members, "timeout_ms") // a time was given, so the duration does not apply
			} else if n, ok := members["timeout_ms"].(string); ok {
				members["timeout_ms"] = json.Number(n)
			}
			return nil
		}
	case name == client.SagaActionCompleteStep && e.Step != nil && e.Step.Action == client.StepActionCOMPENSATE:
		a.Fields = nil // an undo has no output
	}
	if known.class == web.Dangerous {
		a.Confirm, a.About = id.String()[len(id.String())-6:], "the end of the saga's id"
	}
	return a, nil
}

// ended reports whether a state is final.
func ended(state client.SagaState) bool {
	switch state {
	case client.SagaStatePending, client.SagaStateRunning, client.SagaStateStepCompleted, client.SagaStateCompensating:
		return false
	}
	return true
}

// showDryRun describes which calls an action would make, and how the saga would end.
func showDryRun(answer []byte) (*web.Preview, error) {
	var dry client.DryRunResult
	if err := json.Unmarshal(answer, &dry); err != nil {
		return nil, err
	}
	shown := &web.Preview{Sentences: web.Planned(dry.Changes)}
	for _, c := range dry.Calls {
		if c.Action == client.StepActionCOMPENSATE {
			shown.Sentences = append(shown.Sentences, web.Sentence("Call %s (compensation of %s).", c.Method+" "+c.URL, c.Step))
		} else {
			shown.Sentences = append(shown.Sentences, web.Sentence("Call %s (%s).", c.Method+" "+c.URL, c.Step))
		}
	}
	suspended := dry.Suspended != nil && *dry.Suspended
	var ends template.HTML
	if len(dry.Calls) == 0 {
		ends = "No calls are made. "
	}
	end := web.BadgeOf(dry.EndState).Word
	switch {
	case suspended && !ended(dry.EndState):
		ends = web.Sentence("It is suspended: no calls are made until it is resumed. Until then, it stays %s.", end)
	case dry.State == dry.EndState:
		ends += web.Sentence("The saga is then %s.", end)
	default:
		ends += web.Sentence("If every call succeeds, the saga then ends as %s.", end)
	}
	if dry.InFlight != nil && *dry.InFlight {
		ends += " A call may be in flight; its outcome is handled first."
	}
	shown.Ends = ends
	return shown, nil
}
