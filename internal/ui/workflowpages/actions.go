package workflowpages

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

const (
	meansEnable  = "New sagas of this workflow are accepted again."
	meansDisable = "New sagas of this workflow are refused. Sagas that have started continue."
)

// buttonsOf returns the actions on a workflow.
func (p *pages) buttonsOf(v *web.Visit, w *client.Workflow) []web.Button {
	if p.kit.ReadOnly {
		return nil
	}
	at := pathOf(w.Name)
	if w.Enabled {
		return []web.Button{v.Button("Disable", at+"/disable", "workflows:write", meansDisable, web.Changes)}
	}
	return []web.Button{v.Button("Enable", at+"/enable", "workflows:write", meansEnable, web.Changes)}
}

// pathOf returns the path of a workflow's page, below the base.
func pathOf(name string) string { return "/ui/workflows/" + url.PathEscape(name) }

// enable and disable handle the forms for these actions.
func (p *pages) enable(v *web.Visit) (*web.Action, error) {
	a, name, err := p.change(v, "Enable", meansEnable)
	if err != nil {
		return nil, err
	}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.EnableWorkflowWithBody(ctx, name, &client.EnableWorkflowParams{}, web.JSON, body, edit)
	}
	return a, nil
}

func (p *pages) disable(v *web.Visit) (*web.Action, error) {
	a, name, err := p.change(v, "Disable", meansDisable)
	if err != nil {
		return nil, err
	}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.DisableWorkflowWithBody(ctx, name, &client.DisableWorkflowParams{}, web.JSON, body, edit)
	}
	return a, nil
}

func (p *pages) change(v *web.Visit, label, means string) (*web.Action, string, error) {
	name := v.PathValue("workflow")
	w, err := p.latest(v, name)
	if err != nil {
		return nil, "", err
	}
	if w == nil {
		return nil, "", web.ErrNoPage
	}
	states := map[bool]string{true: "enabled", false: "disabled"}
	return &web.Action{
		State: states[w.Enabled], Subject: name, DryRun: web.DryRunInQuery,
		Label: label, Title: label + " " + name, Nav: "Workflows", Back: web.Link{Name: name, URL: pathOf(name)},
		Class: web.Changes, Needs: "workflows:write", Means: means, ETag: w.etag,
		Done: func([]byte) string { return pathOf(name) },
	}, name, nil
}
