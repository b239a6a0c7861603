package systempages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// webhookAdmin is the permission required for every change to a webhook.
const webhookAdmin = "sagas:admin"

const (
	meansCreate    = "Events are sent to the URL, signed with a secret that is shown only once."
	meansRedeliver = "The same event is sent again, with the same webhook-id and a fresh series of attempts."
	meansTest      = "One event of type io.skald.webhook.ping is sent once. Its delivery shows the response."
	meansRotate    = "A new secret is created and shown only once. For 24 hours, requests carry the signatures of both secrets."
	meansDisable   = "Nothing is sent until the webhook is enabled again. Events wait until then; none are lost."
	meansEnable    = "Sending resumes where it stopped, or from now."
	meansDelete    = "The webhook and its deliveries are deleted. Nothing more is sent."
	meansSince     = "Deliveries that gave up and were created since a given time are sent again; at most 1,000 at once."
	meansEdit      = "The new settings apply to everything not yet sent."
)

// webhookOf reads the webhook in the URL, with its ETag.
func (p *pages) webhookOf(v *web.Visit) (*client.Webhook, string, error) {
	id, err := v.ID("webhook")
	if err != nil {
		return nil, "", err
	}
	res, err := p.kit.Client.GetWebhookWithResponse(v.Context(), id)
	if err != nil {
		return nil, "", err
	}
	w, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	return w, res.HTTPResponse.Header.Get("ETag"), err
}

func webhookPath(id uuid.UUID) string { return "/ui/webhooks/" + id.String() }

func deliveryPath(webhook, id uuid.UUID) string {
	return webhookPath(webhook) + "/deliveries/" + id.String()
}

// webhookButtons returns the actions on a webhook.
func (p *pages) webhookButtons(v *web.Visit, w *client.Webhook) []web.Button {
	if p.kit.ReadOnly {
		return nil
	}
	at := webhookPath(w.ID)
	button := func(label, path, means string, class web.Class) web.Button {
		return v.Button(label, at+path, webhookAdmin, means, class)
	}
	all := []web.Button{
		button("Test", "/test", meansTest, web.Safe), button("Edit", "/edit", meansEdit, web.Safe),
		button("Redeliver what failed", "/redeliver", meansSince, web.Safe),
		button("Rotate the secret", "/rotate-secret", meansRotate, web.Safe),
	}
	if w.Enabled {
		all = append(all, button("Disable", "/disable", meansDisable, web.Safe))
	} else {
		all = append([]web.Button{button("Enable", "/enable", meansEnable, web.Safe)}, all...)
	}
	return append(all, button("Delete", "/delete", meansDelete, web.Dangerous))
}

// webhookFields returns the settings of a webhook.
func webhookFields(w *client.Webhook) []web.Field {
	return []web.Field{
		{Name: "url", Label: "URL", Hint: "https://example.org/hooks/skald", Value: w.URL, Required: true},
		{Name: "description", Label: "Description", Value: w.Description},
		{Name: "event_types", Label: "Event types, one per line (empty: all)", Kind: "lines",
			Hint: "saga.completed\ncompensation.*", Value: strings.Join(w.EventTypes, "\n")},
		{Name: "workflow_names", Label: "Workflows, one per line (empty: all)", Kind: "lines",
			Value: strings.Join(w.WorkflowNames, "\n")},
	}
}

// createWebhook is the form for a new webhook. Afterwards it shows the secret instead of the
// webhook.
func (p *pages) createWebhook(*web.Visit) (*web.Action, error) {
	return &web.Action{
		Label: "Create", Title: "Create a webhook", Nav: "Webhooks",
		Back:  web.Link{Name: "Webhooks", URL: "/ui/webhooks"},
		Needs: webhookAdmin, Means: meansCreate, DryRun: web.DryRunInQuery,
		Fields: append(webhookFields(&client.Webhook{}), web.Field{
			Name: "from", Label: "Begin", Kind: "select", Value: "now",
			Options: []web.Option{
				{Value: "now", Label: "now"}, {Value: "beginning", Label: "with the oldest event that is still stored"},
			},
		}),
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.CreateWebhookWithBody(ctx, &client.CreateWebhookParams{}, web.JSON, body, edit)
		},
		Result: showSecret,
	}, nil
}

// showSecret returns the page that shows a secret once.
func showSecret(answer []byte) (*web.Page, error) {
	var w client.Webhook
	if err := json.Unmarshal(answer, &w); err != nil {
		return nil, err
	}
	return &web.Page{Template: "webhook-secret", Title: "The secret of the webhook", Nav: "Webhooks", Data: &w}, nil
}

// enabled describes the state of a webhook in words.
func enabled(is bool) string {
	if is {
		return "enabled"
	}
	return "disabled"
}

// onWebhook is the form for an action on the webhook in the URL. Its title ends with the webhook's
// own URL.
func (p *pages) onWebhook(v *web.Visit, label, title, means string) (*web.Action, *client.Webhook, error) {
	w, etag, err := p.webhookOf(v)
	if err != nil {
		return nil, nil, err
	}
	at := webhookPath(w.ID)
	return &web.Action{
		Label: label, Title: title + " " + w.URL, Nav: "Webhooks", Back: web.Link{Name: w.URL, URL: at},
		Needs: webhookAdmin, Means: means, ETag: etag, Subject: w.ID.String(), State: enabled(w.Enabled),
		DryRun: web.DryRunInQuery,
		Done:   func([]byte) string { return at },
	}, w, nil
}

func (p *pages) editWebhook(v *web.Visit) (*web.Action, error) {
	a, w, err := p.onWebhook(v, "Save", "Edit the webhook to", meansEdit)
	if err != nil {
		return nil, err
	}
	a.NoKey, a.Edits, a.Fields = true, true, webhookFields(w)
	a.Body = func(_ web.Form, members map[string]any) error {
		for name, none := range map[string]any{"description": "", "event_types": []string{}, "workflow_names": []string{}} {
			if members[name] == nil { // emptied fields are also changed
				members[name] = none
			}
		}
		return nil
	}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.UpdateWebhookWithBody(ctx, w.ID, &client.UpdateWebhookParams{}, web.JSON, body, edit)
	}
	return a, nil
}

func (p *pages) deleteWebhook(v *web.Visit) (*web.Action, error) {
	a, w, err := p.onWebhook(v, "Delete", "Delete the webhook to", meansDelete)
	if err != nil {
		return nil, err
	}
	id := w.ID.String()
	a.Class, a.NoKey = web.Dangerous, true
	a.Warning = "Events that have not been sent yet will never be sent. If you want to continue later, disable the webhook instead."
	a.Confirm, a.About = id[len(id)-6:], "the end of the webhook's id"
	a.Done = func([]byte) string { return "/ui/webhooks" }
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		var form struct {
			Reason *string `json:"reason"`
		}
		if err := json.NewDecoder(body).Decode(&form); err != nil {
			return nil, err
		}
		return p.kit.Client.DeleteWebhook(ctx, w.ID, &client.DeleteWebhookParams{Reason: form.Reason}, edit)
	}
	return a, nil
}

func (p *pages) enableWebhook(v *web.Visit) (*web.Action, error) {
	a, w, err := p.onWebhook(v, "Enable", "Enable the webhook to", meansEnable)
	if err != nil {
		return nil, err
	}
	a.Fields = []web.Field{{
		Name: "from", Label: "Continue", Kind: "select", Value: "stop", Options: []web.Option{
			{Value: "stop", Label: "where it stopped: events from the meantime are sent"},
			{Value: "now", Label: "from now: events from the meantime are skipped, and pending deliveries are discarded"},
		},
	}}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.EnableWebhookWithBody(ctx, w.ID, &client.EnableWebhookParams{}, web.JSON, body, edit)
	}
	return a, nil
}

func (p *pages) disableWebhook(v *web.Visit) (*web.Action, error) {
	a, w, err := p.onWebhook(v, "Disable", "Disable the webhook to", meansDisable)
	if err != nil {
		return nil, err
	}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.DisableWebhookWithBody(ctx, w.ID, &client.DisableWebhookParams{}, web.JSON, body, edit)
	}
	return a, nil
}

func (p *pages) rotateSecret(v *web.Visit) (*web.Action, error) {
	a, w, err := p.onWebhook(v, "Rotate the secret", "Rotate the secret of the webhook to", meansRotate)
	if err != nil {
		return nil, err
	}
	a.Result = showSecret
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.RotateWebhookSecretWithBody(ctx, w.ID, &client.RotateWebhookSecretParams{}, web.JSON, body, edit)
	}
	return a, nil
}

func (p *pages) testWebhook(v *web.Visit) (*web.Action, error) {
	a, w, err := p.onWebhook(v, "Test", "Send a test event to", meansTest)
	if err != nil {
		return nil, err
	}
	a.NoReason, a.ETag, a.Done = true, "", showDelivery(w.ID)
	a.Send = func(ctx context.Context, _ io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.TestWebhook(ctx, w.ID, &client.TestWebhookParams{}, edit)
	}
	return a, nil
}

// showDelivery redirects to the delivery that the API has made due.
func showDelivery(webhook uuid.UUID) func(answer []byte) string {
	return func(answer []byte) string {
		var d client.Delivery
		if json.Unmarshal(answer, &d) != nil || d.ID == uuid.Nil {
			return webhookPath(webhook)
		}
		return deliveryPath(webhook, d.ID)
	}
}

func (p *pages) redeliver(v *web.Visit) (*web.Action, error) {
	a, w, err := p.onWebhook(v, "Redeliver", "Send one delivery again to", meansRedeliver)
	if err != nil {
		return nil, err
	}
	id, err := v.ID("delivery")
	if err != nil {
		return nil, err
	}
	at := deliveryPath(w.ID, id)
	a.NoReason, a.ETag, a.Done = true, "", func([]byte) string { return at }
	a.Back = web.Link{Name: "delivery", URL: at}
	a.Send = func(ctx context.Context, _ io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.RedeliverWebhookDelivery(ctx, w.ID, id, &client.RedeliverWebhookDeliveryParams{}, edit)
	}
	return a, nil
}

func (p *pages) redeliverSince(v *web.Visit) (*web.Action, error) {
	a, w, err := p.onWebhook(v, "Redeliver what failed", "Redeliver what failed to reach", meansSince)
	if err != nil {
		return nil, err
	}
	a.NoReason, a.ETag = true, ""
	a.Fields = []web.Field{{
		Name: "since", Label: "Created since: a time, or an offset such as -24h", Value: "-24h", Required: true,
	}}
	a.Body = func(form web.Form, members map[string]any) error {
		if at, ok := web.Relative(v.Now, strings.TrimSpace(form["since"])); ok {
			members["since"] = at.UTC().Format(time.RFC3339)
		}
		return nil
	}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.RedeliverFailedWithBody(ctx, w.ID, &client.RedeliverFailedParams{}, web.JSON, body, edit)
	}
	a.Done = func(answer []byte) string {
		var r client.RedeliverResult
		if json.NewDecoder(bytes.NewReader(answer)).Decode(&r) != nil {
			return webhookPath(w.ID)
		}
		return webhookPath(w.ID) + "?" + url.Values{
			"redelivered": {fmt.Sprint(r.Redelivered)}, "more": {fmt.Sprint(r.More)},
		}.Encode()
	}
	return a, nil
}
