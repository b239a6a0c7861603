package eventapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/event/cloudevent"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
)

// secretBytes is the length of a webhook's key, which equals that of the hash function.
const secretBytes = 32

func newSecret() ([]byte, error) {
	key := make([]byte, secretBytes)
	_, err := rand.Read(key)
	return key, err
}

// CreateWebhook subscribes an endpoint. The response is the only one that shows its secret.
func (s *Handlers) CreateWebhook(ctx context.Context, in api.CreateWebhookRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	req, b := httpkit.RequestOf(ctx), in.Body
	key, err := newSecret()
	if err != nil {
		return nil, err
	}
	settings := webhook.Settings{
		URL: &b.URL, Description: b.Description, EventTypes: b.EventTypes, WorkflowNames: b.WorkflowNames, Enabled: b.Enabled,
	}
	sub, err := webhook.New(req.Tenant.ID, s.NewID(), settings, key, req.Principal, s.Now())
	if err != nil {
		return nil, err
	}
	if err := s.checkEndpoint(&sub.URL); err != nil {
		return nil, err
	}
	unknown, err := s.unknownWorkflows(ctx, sub.WorkflowNames)
	if err != nil {
		return nil, err
	}
	if httpkit.DryRun(ctx) {
		return wouldCreate(&sub, unknown)
	}
	if err := s.Webhooks.Create(httpkit.WithActor(ctx, b.Reason), sub, b.From != nil &&
		*b.From == api.WebhookInputFromBeginning); err != nil {
		return nil, err
	}
	a := wondering(webhookAnswer(sub, key), unknown)
	a.Status, a.Location = http.StatusCreated, "/api/v1/webhooks/"+sub.ID.String()
	return a, nil
}

// wouldCreate responds to a dry run with a new webhook. The reported changes are the members that
// differ from those of an empty webhook.
func wouldCreate(sub *webhook.Subscription, unknown []string) (api.Response, error) {
	none := *sub
	none.URL, none.Description, none.EventTypes, none.WorkflowNames, none.Enabled = "", "", nil, nil, false
	changes, err := httpkit.Differences(toAPIWebhook(&none), toAPIWebhook(sub))
	out := wondering(webhookWould(*sub, changes), unknown)
	out.ETag = ""
	return out, err
}

// checkEndpoint rejects a URL that deliveries could never reach. The resolved address is checked
// again for every connection.
func (s *Handlers) checkEndpoint(url *string) error {
	if url == nil {
		return nil
	}
	if reason := s.CheckEndpoint(*url); reason != "" {
		return fault.New(fault.Invalid, webhook.CodeURL, "/url: %s", reason).With(fault.Field{Pointer: "/url",
			Code: webhook.CodeURL, Message: reason})
	}
	return nil
}

// GetWebhook returns a webhook.
func (s *Handlers) GetWebhook(ctx context.Context, in api.GetWebhookRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	sub, err := s.Webhooks.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.WebhookID)
	if err != nil {
		return nil, err
	}
	a := webhookAnswer(sub, nil)
	out := a.Body.(api.Webhook)
	out.Gate = s.gate(sub.TenantID, sub.URL)
	a.Body = out
	return a, nil
}

// changeWebhook reads a webhook, decides, and stores the decision. If the webhook was changed in
// the meantime, it starts over. decide returns whether to skip past events, and whether there is
// anything to store.
func (s *Handlers) changeWebhook(ctx context.Context, id uuid.UUID, match, reason *string,
	decide func(webhook.Subscription) (after webhook.Subscription, skip, change bool, err error)) (
	webhook.Subscription, *api.PlannedChanges, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	for range httpkit.Reloads(ctx) {
		sub, err := s.Webhooks.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, id)
		if err != nil {
			return sub, nil, err
		}
		switch fits, err := httpkit.IfMatch(match, sub.Version); {
		case err != nil:
			return sub, nil, err
		case !fits:
			return sub, nil, httpkit.Stale(webhook.CodeStale, "webhook", sub.Version)
		}
		after, skip, change, err := decide(sub)
		if err != nil || !change {
			return sub, nil, err
		}
		if httpkit.DryRun(ctx) {
			after.Version = sub.Version
			changes, err := httpkit.Differences(toAPIWebhook(&sub), toAPIWebhook(&after))
			return after, changes, err
		}
		switch err := s.Webhooks.Replace(httpkit.WithActor(ctx, reason), after, skip); {
		case err == nil:
			return after, nil, nil
		case !fault.IsCode(err, webhook.CodeStale):
			return sub, nil, err
		}
	}
	return webhook.Subscription{}, nil, httpkit.KeepsChanging("webhook")
}

// UpdateWebhook changes the members of a webhook that the body contains.
func (s *Handlers) UpdateWebhook(ctx context.Context, in api.UpdateWebhookRequestObject) (api.Response, error) {
	b := in.Body
	settings := webhook.Settings{URL: b.URL, Description: b.Description, EventTypes: b.EventTypes,
		WorkflowNames: b.WorkflowNames, Enabled: b.Enabled}
	var names []string
	if b.WorkflowNames != nil {
		names = *b.WorkflowNames
	}
	unknown, err := s.unknownWorkflows(ctx, names)
	if err != nil {
		return nil, err
	}
	sub, changes, err := s.changeWebhook(ctx, in.WebhookID, in.Params.IfMatch, b.Reason,
		func(sub webhook.Subscription) (webhook.Subscription, bool, bool, error) {
			after, err := sub.With(settings, s.Now())
			if err == nil {
				err = s.checkEndpoint(b.URL)
			}
			return after, false, true, err
		})
	if err != nil {
		return nil, err
	}
	return wondering(webhookWould(sub, changes), unknown), nil
}

// EnableWebhook enables a webhook.
func (s *Handlers) EnableWebhook(ctx context.Context, in api.EnableWebhookRequestObject) (api.Response, error) {
	skip := in.Body != nil && in.Body.From != nil && *in.Body.From == api.WebhookEnableInputFromNow
	var reason *string
	if in.Body != nil {
		reason = in.Body.Reason
	}
	sub, changes, err := s.setWebhook(ctx, in.WebhookID, in.Params.IfMatch, reason, true, skip)
	if err != nil {
		return nil, err
	}
	return webhookWould(sub, changes), nil
}

// DisableWebhook disables a webhook.
func (s *Handlers) DisableWebhook(ctx context.Context, in api.DisableWebhookRequestObject) (api.Response, error) {
	sub, changes, err := s.setWebhook(ctx, in.WebhookID, in.Params.IfMatch, httpkit.ReasonOf(in.Body), false, false)
	if err != nil {
		return nil, err
	}
	return webhookWould(sub, changes), nil
}

func (s *Handlers) setWebhook(ctx context.Context, id uuid.UUID, match, reason *string, enabled,
	skip bool) (webhook.Subscription, *api.PlannedChanges, error) {
	return s.changeWebhook(ctx, id, match, reason,
		func(sub webhook.Subscription) (webhook.Subscription, bool, bool, error) {
			after, err := sub.With(webhook.Settings{Enabled: &enabled}, s.Now())
			return after, skip, skip || sub.Enabled != enabled, err
		})
}

// RotateWebhookSecret creates a new secret. The response is the only one that shows it.
func (s *Handlers) RotateWebhookSecret(ctx context.Context,
	in api.RotateWebhookSecretRequestObject) (api.Response, error) {
	key, err := newSecret()
	if err != nil {
		return nil, err
	}
	var changes dryrun.List
	sub, _, err := s.changeWebhook(ctx, in.WebhookID, in.Params.IfMatch, httpkit.ReasonOf(in.Body),
		func(sub webhook.Subscription) (webhook.Subscription, bool, bool, error) {
			after := sub.Rotated(key, s.Now())
			changes = rotated(&sub, &after)
			return after, false, true, nil
		})
	switch {
	case err != nil:
		return nil, err
	case httpkit.DryRun(ctx): // the actual rotation will create a different secret
		return webhookWould(sub, httpkit.Planned(changes)), nil
	}
	return webhookAnswer(sub, key), nil
}

// rotated returns the changes that a rotation makes. Secrets are identified by their time of
// creation.
func rotated(before, after *webhook.Subscription) (all dryrun.List) {
	newest := func(s *webhook.Subscription) (created, expires *time.Time) {
		if len(s.Secrets) == 0 { // the secrets were lost
			return nil, nil
		}
		return &s.Secrets[0].CreatedAt, s.Secrets[len(s.Secrets)-1].ExpiresAt
	}
	was, ended := newest(before)
	is, ends := newest(after)
	all.Differs("secret", dryrun.Text(was), dryrun.Text(is))
	all.Differs("former_secret_expires_at", dryrun.Text(ended), dryrun.Text(ends))
	return all
}

// DeleteWebhook removes a webhook.
func (s *Handlers) DeleteWebhook(ctx context.Context, in api.DeleteWebhookRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	var version int64
	dry := httpkit.DryRun(ctx)
	if in.Params.IfMatch != nil || dry {
		sub, err := s.Webhooks.Get(ctx, tenant, in.WebhookID)
		if err != nil {
			return nil, err
		}
		switch fits, err := httpkit.IfMatch(in.Params.IfMatch, sub.Version); {
		case err != nil:
			return nil, err
		case !fits:
			return nil, httpkit.Stale(webhook.CodeStale, "webhook", sub.Version)
		}
		version = sub.Version
		if dry {
			return webhookWould(sub, httpkit.Planned(dryrun.List{{Member: "place", From: "live"}})), nil
		}
	}
	if err := s.Webhooks.Delete(httpkit.WithActor(ctx, in.Params.Reason), tenant, in.WebhookID, version); err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusNoContent}, nil
}

// TestWebhook creates a delivery of a test event.
func (s *Handlers) TestWebhook(ctx context.Context, in api.TestWebhookRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	if err := s.sending(ctx, tenant, in.WebhookID); err != nil {
		return nil, err
	}
	d := webhook.Delivery{
		TenantID: tenant, WebhookID: in.WebhookID, ID: s.NewID(), EventType: cloudevent.PingType, Status: webhook.Pending,
		CreatedAt: s.Now(),
	}
	d.DueAt = d.CreatedAt
	doc, err := cloudevent.Ping(tenant, d.WebhookID, d.ID, d.CreatedAt)
	if err != nil {
		return nil, err
	}
	if d.Body, err = json.Marshal(doc); err != nil {
		return nil, err
	}
	if httpkit.DryRun(ctx) {
		body := toAPIDelivery(&d)
		body.Changes = httpkit.Planned(dryrun.List{{Member: "new_delivery", To: string(d.Status)}})
		return httpkit.Answer{Status: http.StatusOK, Body: body}, nil
	}
	if err := s.Deliveries.Add(httpkit.WithActor(ctx, nil), d); err != nil {
		return nil, err
	}
	return deliveryAccepted(&d), nil
}

// sending returns nil if the webhook is enabled. Faults: NotFound, Conflict.
func (s *Handlers) sending(ctx context.Context, tenant, id uuid.UUID) error {
	sub, err := s.Webhooks.Get(ctx, tenant, id)
	if err == nil && !sub.Enabled {
		err = fault.New(fault.Conflict, webhook.CodeDisabled, "the webhook is disabled (%s): enable it first", sub.DisabledReason)
	}
	return err
}

// unknownWorkflows returns the names for which there is no workflow. They may be registered later,
// or be misspelled.
func (s *Handlers) unknownWorkflows(ctx context.Context, names []string) (unknown []string, err error) {
	for _, name := range names {
		switch _, err := s.Workflows.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, name, 0); {
		case fault.KindOf(err) == fault.NotFound:
			unknown = append(unknown, name)
		case err != nil:
			return nil, err
		}
	}
	return unknown, nil
}

// wondering adds a warning about unknown workflows to the response.
func wondering(a httpkit.Answer, unknown []string) httpkit.Answer {
	out := a.Body.(api.Webhook)
	out.UnknownWorkflows = unknown
	a.Body = out
	return a
}

// webhookWould responds with a webhook, which for a dry run is the webhook as it would be stored.
func webhookWould(s webhook.Subscription, changes *api.PlannedChanges) httpkit.Answer {
	a := webhookAnswer(s, nil)
	out := a.Body.(api.Webhook)
	out.Changes = changes
	a.Body = out
	return a
}

func webhookAnswer(s webhook.Subscription, key []byte) httpkit.Answer {
	out := toAPIWebhook(&s)
	if key != nil {
		secret := webhooks.FormatSecret(key)
		out.Secret = &secret
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out, ETag: httpkit.ETagOf(s.Version), Secret: key != nil}
}
