package sagapages

import (
	"context"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// action is one of the API's actions on a saga.
type action struct {
	label   string
	class   web.Class
	warning string
	step    bool // it is about one step
	fields  []web.Field
	send    send
}

// send calls the operation of an action. step is empty for those that are about the whole saga.
type send func(
	c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, step string, body io.Reader,
	edit client.RequestEditorFn,
) (*http.Response, error)

var actions = map[client.SagaAction]action{
	client.SagaActionCancel: {label: "Cancel", class: web.Changes, send: func(
		c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, _ string, body io.Reader,
		edit client.RequestEditorFn,
	) (*http.Response, error) {
		return c.CancelSagaWithBody(ctx, id, &client.CancelSagaParams{}, web.JSON, body, edit)
	}},
	client.SagaActionCompensate: {label: "Compensate", class: web.Changes, send: func(
		c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, _ string, body io.Reader,
		edit client.RequestEditorFn,
	) (*http.Response, error) {
		return c.CompensateSagaWithBody(ctx, id, &client.CompensateSagaParams{}, web.JSON, body, edit)
	}},
	client.SagaActionResumeCompensation: {label: "Resume compensation", class: web.Changes, send: func(
		c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, _ string, body io.Reader,
		edit client.RequestEditorFn,
	) (*http.Response, error) {
		return c.ResumeCompensationWithBody(ctx, id, &client.ResumeCompensationParams{}, web.JSON, body, edit)
	}},
	client.SagaActionRetry: {
		label: "Retry", class: web.Changes,
		fields: []web.Field{
			{Name: "from_step", Label: "From step", Hint: "the step that failed"},
			{Name: "input_patch", Label: "Change of the input (JSON merge patch)", Kind: "json", Hint: `{"quantity": 1}`},
			{Name: "not_applied", Label: "None of the earlier attempts was applied; I have checked it", Kind: "check"},
		},
		send: func(
			c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, _ string, body io.Reader,
			edit client.RequestEditorFn,
		) (*http.Response, error) {
			return c.RetrySagaWithBody(ctx, id, &client.RetrySagaParams{}, web.JSON, body, edit)
		},
	},
	client.SagaActionSuspend: {label: "Suspend", class: web.Changes, send: func(
		c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, _ string, body io.Reader,
		edit client.RequestEditorFn,
	) (*http.Response, error) {
		return c.SuspendSagaWithBody(ctx, id, &client.SuspendSagaParams{}, web.JSON, body, edit)
	}},
	client.SagaActionResume: {label: "Resume", class: web.Changes, send: func(
		c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, _ string, body io.Reader,
		edit client.RequestEditorFn,
	) (*http.Response, error) {
		return c.ResumeSagaWithBody(ctx, id, &client.ResumeSagaParams{}, web.JSON, body, edit)
	}},
	client.SagaActionExtendDeadline: {
		label: "Extend the deadline", class: web.Changes,
		fields: []web.Field{{Name: "timeout_ms", Label: "Milliseconds from now", Kind: "number", Value: "900000"}},
		send: func(
			c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, _ string, body io.Reader,
			edit client.RequestEditorFn,
		) (*http.Response, error) {
			return c.ExtendDeadlineWithBody(ctx, id, &client.ExtendDeadlineParams{}, web.JSON, body, edit)
		},
	},
	client.SagaActionAcknowledge: {label: "Acknowledge", class: web.Changes, send: func(
		c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, _ string, body io.Reader,
		edit client.RequestEditorFn,
	) (*http.Response, error) {
		return c.AcknowledgeSagaWithBody(ctx, id, &client.AcknowledgeSagaParams{}, web.JSON, body, edit)
	}},
	client.SagaActionForceComplete: {
		label: "Force completion", class: web.Dangerous,
		warning: "The saga ends as completed whatever its steps did. Nothing is called any more.",
		send: func(
			c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, _ string, body io.Reader,
			edit client.RequestEditorFn,
		) (*http.Response, error) {
			return c.ForceCompleteWithBody(ctx, id, &client.ForceCompleteParams{}, web.JSON, body, edit)
		},
	},
	client.SagaActionForceFail: {
		label: "Force failure", class: web.Dangerous,
		warning: "The saga ends as failed without compensation. What its steps did stays.",
		send: func(
			c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, _ string, body io.Reader,
			edit client.RequestEditorFn,
		) (*http.Response, error) {
			return c.ForceFailWithBody(ctx, id, &client.ForceFailParams{}, web.JSON, body, edit)
		},
	},
	client.SagaActionSkipStep: {label: "Skip the step", class: web.Changes, step: true, send: func(
		c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, step string, body io.Reader,
		edit client.RequestEditorFn,
	) (*http.Response, error) {
		return c.SkipStepWithBody(ctx, id, step, &client.SkipStepParams{}, web.JSON, body, edit)
	}},
	client.SagaActionCompleteStep: {
		label: "Mark the step as completed", class: web.Changes, step: true,
		fields: []web.Field{{Name: "output", Label: "Its output", Kind: "json"}},
		send: func(
			c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, step string, body io.Reader,
			edit client.RequestEditorFn,
		) (*http.Response, error) {
			return c.CompleteStepWithBody(ctx, id, step, &client.CompleteStepParams{}, web.JSON, body, edit)
		},
	},
	client.SagaActionFailStep: {label: "Mark the step as failed", class: web.Changes, step: true, send: func(
		c *client.ClientWithResponses, ctx context.Context, id uuid.UUID, step string, body io.Reader,
		edit client.RequestEditorFn,
	) (*http.Response, error) {
		return c.FailStepWithBody(ctx, id, step, &client.FailStepParams{}, web.JSON, body, edit)
	}},
}

// buttonsOf returns the actions that the API lists for a saga, in its order, dangerous ones last.
func (p *pages) buttonsOf(v *web.Visit, e *client.SagaExplanation) (all []web.Button) {
	if p.kit.ReadOnly {
		return nil
	}
	var last []web.Button
	for _, a := range e.Actions {
		known, ok := actions[a.Action]
		if !ok || known.step && e.Step == nil {
			continue
		}
		label, path := known.label, "/ui/sagas/"+e.SagaID.String()+"/actions/"+string(a.Action)
		if known.step {
			label += " " + e.Step.Name
			path += "?" + url.Values{"step": {e.Step.Name}}.Encode()
		}
		b := v.Button(label, path, a.Permission, a.Description, known.class)
		if b.Danger {
			last = append(last, b)
		} else {
			all = append(all, b)
		}
	}
	return append(all, last...)
}

// action is the form of an action on a saga.
func (p *pages) action(v *web.Visit) (*web.Action, error) {
	id, err := uuid.Parse(v.PathValue("saga"))
	name := client.SagaAction(v.PathValue("action"))
	known, ok := actions[name]
	if err != nil || !ok {
		return nil, web.ErrNoPage
	}
	explain, err := p.kit.Client.ExplainSagaWithResponse(v.Context(), id)
	if err != nil {
		return nil, err
	}
	e, err := web.Got(explain.JSON200, explain.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	res, err := p.kit.Client.GetSagaWithResponse(v.Context(), id, &client.GetSagaParams{})
	if err != nil {
		return nil, err
	}
	s, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	step := v.Form.Get("step")
	a := &web.Action{
		Label: known.label, Title: known.label + ": " + titleOf(s), Nav: "Sagas",
		Back: web.Link{Name: titleOf(s), URL: "/ui/sagas/" + id.String()}, Class: known.class, Warning: known.warning,
		Fields: append([]web.Field(nil), known.fields...), ETag: res.HTTPResponse.Header.Get("ETag"),
		DryRun: web.DryRunInQuery, Show: showDryRun,
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return known.send(p.kit.Client, ctx, id, step, body, edit)
		},
		Done: func([]byte) string { return "/ui/sagas/" + id.String() + "?accepted=" + string(name) },
	}
	for _, possible := range e.Actions {
		if possible.Action == name {
			a.Means, a.Needs = possible.Description, possible.Permission
		}
	}
	if known.class == web.Dangerous {
		a.Confirm, a.About = id.String()[len(id.String())-6:], "the end of the saga's id"
	}
	return a, nil
}

// showDryRun says which calls an action would make, and how the saga would end.
func showDryRun(answer []byte) (*web.Preview, error) {
	var dry client.DryRunResult
	if err := json.Unmarshal(answer, &dry); err != nil {
		return nil, err
	}
	shown := &web.Preview{}
	for _, c := range dry.Calls {
		if c.Action == client.StepActionCOMPENSATE {
			shown.Sentences = append(shown.Sentences, web.Sentence("Call %s (compensation of %s).", c.Method+" "+c.URL, c.Step))
		} else {
			shown.Sentences = append(shown.Sentences, web.Sentence("Call %s (%s).", c.Method+" "+c.URL, c.Step))
		}
	}
	var ends template.HTML
	if len(dry.Calls) == 0 {
		ends = "Nothing is called. "
	}
	end := web.BadgeOf(dry.EndState).Word
	if dry.State == dry.EndState {
		ends += web.Sentence("The saga is then %s.", end)
	} else {
		ends += web.Sentence("The saga then ends as %s.", end)
	}
	if dry.InFlight != nil && *dry.InFlight {
		ends += " A call may be in flight; its outcome comes first."
	}
	shown.Ends = ends
	return shown, nil
}
