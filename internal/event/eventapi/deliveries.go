package eventapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
)

// ListWebhooks returns a page of webhooks, oldest first.
func (s *Handlers) ListWebhooks(ctx context.Context, in api.ListWebhooksRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByID, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	found, err := s.Webhooks.List(ctx, req.Tenant.ID, webhook.Filter{Request: asked.Request})
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.WebhookList{
		Webhooks:   httpkit.Each(found.Items, s.listed),
		Pagination: httpkit.Pagination(asked, found, func(s *webhook.Listed) uuid.UUID { return s.ID }),
	}}, nil
}

// ListWebhookDeliveries returns a page of deliveries, newest first.
func (s *Handlers) ListWebhookDeliveries(ctx context.Context,
	in api.ListWebhookDeliveriesRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByID, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	filter := webhook.Filter{Request: asked.Request}
	if p.Status != nil {
		filter.Status = webhook.Status(*p.Status)
	}
	found, err := s.Deliveries.Deliveries(ctx, req.Tenant.ID, in.WebhookID, filter)
	if err != nil {
		return nil, err
	}
	w, err := s.Webhooks.Get(ctx, req.Tenant.ID, in.WebhookID)
	if err != nil {
		return nil, err
	}
	at := s.gate(w.TenantID, w.URL)
	return httpkit.Answer{Status: http.StatusOK, Body: api.DeliveryList{
		Deliveries: httpkit.Each(found.Items, func(d *webhook.Delivery) api.Delivery {
			out := toAPIDelivery(d)
			if d.Status == webhook.Pending {
				out.Gate = at
			}
			return out
		}),
		Pagination: httpkit.Pagination(asked, found, func(d *webhook.Delivery) uuid.UUID { return d.ID }),
	}}, nil
}

// GetWebhookDelivery returns a delivery with its body.
func (s *Handlers) GetWebhookDelivery(ctx context.Context,
	in api.GetWebhookDeliveryRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	d, err := s.Deliveries.Delivery(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.WebhookID, in.DeliveryID)
	if err != nil {
		return nil, err
	}
	out := toAPIDelivery(&d)
	if d.Status == webhook.Pending {
		w, err := s.Webhooks.Get(ctx, d.TenantID, d.WebhookID)
		if err != nil {
			return nil, err
		}
		out.Gate = s.gate(w.TenantID, w.URL)
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// RedeliverWebhookDelivery makes a delivery due again.
func (s *Handlers) RedeliverWebhookDelivery(ctx context.Context,
	in api.RedeliverWebhookDeliveryRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	if err := s.sending(ctx, tenant, in.WebhookID); err != nil {
		return nil, err
	}
	if httpkit.DryRun(ctx) {
		return s.wouldRedeliver(ctx, tenant, in)
	}
	d, err := s.Deliveries.Redeliver(httpkit.WithActor(ctx, nil), tenant, in.WebhookID, in.DeliveryID, s.moment())
	if err != nil {
		return nil, err
	}
	return deliveryAccepted(&d), nil
}

// RedeliverFailed makes due again the deliveries that have failed since a given time.
func (s *Handlers) RedeliverFailed(ctx context.Context, in api.RedeliverFailedRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	since := in.Body.Since.UTC()
	if since.Year() < 1970 || since.Year() > 9999 {
		return nil, httpkit.SchemaFault(fault.Field{Pointer: "/since", Code: "invalid", Message: "must be in the years 1970 to 9999"})
	}
	if err := s.sending(ctx, tenant, in.WebhookID); err != nil {
		return nil, err
	}
	if httpkit.DryRun(ctx) {
		return s.wouldRedeliverFailed(ctx, tenant, in.WebhookID, since)
	}
	n, more, err := s.Deliveries.RedeliverFailed(httpkit.WithActor(ctx, nil), tenant, in.WebhookID, since, s.moment())
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusAccepted, Body: api.RedeliverResult{Redelivered: n, More: more}}, nil
}

// wouldRedeliver responds to a dry run with a delivery as it would be stored.
func (s *Handlers) wouldRedeliver(ctx context.Context, tenant uuid.UUID,
	in api.RedeliverWebhookDeliveryRequestObject) (api.Response, error) {
	before, err := s.Deliveries.Delivery(ctx, tenant, in.WebhookID, in.DeliveryID)
	if err != nil {
		return nil, err
	}
	after := webhook.Redeliver(before, s.Now())
	out := toAPIDelivery(&after)
	changes, err := httpkit.Differences(toAPIDelivery(&before), out)
	if err != nil {
		return nil, err
	}
	letters, err := s.lettersRetried(ctx, tenant, []webhook.Delivery{before})
	*changes = append(*changes, httpkit.PlannedChanges(letters)...)
	out.Changes = changes
	return httpkit.Answer{Status: http.StatusOK, Body: out}, err
}

// wouldRedeliverFailed responds to a dry run with the number of deliveries that would be made due.
func (s *Handlers) wouldRedeliverFailed(ctx context.Context, tenant, id uuid.UUID,
	since time.Time) (api.Response, error) {
	failed, more, err := s.Deliveries.Redeliverable(ctx, tenant, id, since)
	if err != nil {
		return nil, err
	}
	changed := dryrun.Many{Of: string(api.PlannedChangeOfWebhookDelivery)}
	for i := range failed {
		after := webhook.Redeliver(failed[i], s.Now())
		changed.Add(dryrun.List{{Member: "status", From: string(failed[i].Status), To: string(after.Status)}}, 1)
	}
	letters, err := s.lettersRetried(ctx, tenant, failed)
	return httpkit.Answer{Status: http.StatusOK, Body: api.RedeliverResult{
		Redelivered: len(failed), More: more, Changes: httpkit.Planned(append(changed.List(), letters...)),
	}}, err
}

// lettersRetried returns the changes that redelivery would make to the dead letters of deliveries.
func (s *Handlers) lettersRetried(ctx context.Context, tenant uuid.UUID,
	before []webhook.Delivery) (dryrun.List, error) {
	at := s.moment()
	counts, err := s.Deliveries.Letters(ctx, tenant, slices.DeleteFunc(slices.Clone(before),
		func(d webhook.Delivery) bool { return webhook.Redelivered(&d, at) == nil }))
	if err != nil {
		return nil, err
	}
	changed := dryrun.Many{Of: string(api.PlannedChangeOfDeadLetter)}
	for status, n := range counts {
		c, err := dlq.Apply(dlq.Letter{Source: dlq.FromWebhook, Status: status},
			dlq.SourceReported{SourceUpdate: &dlq.SourceUpdate{Outcome: dlq.RetryStarted}}, dlq.Moment{Now: at.Now})
		if err != nil {
			return nil, err
		}
		var one dryrun.List
		one.Differs("status", string(status), string(c.After.Status))
		changed.Add(one, n)
	}
	return changed.List(), nil
}

// moment returns the time, jitter and ids for the rules of redeliveries.
func (s *Handlers) moment() webhook.Moment {
	return webhook.Moment{Now: s.Now(), NewID: s.NewID}
}

func deliveryAccepted(d *webhook.Delivery) httpkit.Answer {
	return httpkit.Answer{
		Status: http.StatusAccepted, Body: toAPIDelivery(d),
		Location: "/api/v1/webhooks/" + d.WebhookID.String() + "/deliveries/" + d.ID.String(),
	}
}

func (s *Handlers) listed(w *webhook.Listed) api.Webhook {
	out := toAPIWebhook(&w.Subscription)
	out.Pending, out.OldestPendingAt, out.Gate = &w.Pending, w.Oldest, s.gate(w.TenantID, w.URL)
	return out
}

func toAPIWebhook(s *webhook.Subscription) api.Webhook {
	out := api.Webhook{
		ID: s.ID, URL: s.URL, Description: s.Description, EventTypes: s.EventTypes, WorkflowNames: s.WorkflowNames,
		Enabled:        s.Enabled,
		DisabledReason: httpkit.UnlessEmpty(s.DisabledReason), DisabledAt: s.DisabledAt, FailingSince: s.Health.FailingSince,
		CreatedBy: s.CreatedBy, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Version: s.Version,
		Secrets: []api.WebhookSecret{},
	}
	if out.EventTypes == nil {
		out.EventTypes = []string{}
	}
	if out.WorkflowNames == nil {
		out.WorkflowNames = []string{}
	}
	if s.Health.GivenUp > 0 {
		out.GivenUp = &s.Health.GivenUp
	}
	for _, k := range s.Secrets {
		out.Secrets = append(out.Secrets, api.WebhookSecret{CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt})
	}
	return out
}

func toAPIDelivery(d *webhook.Delivery) api.Delivery {
	out := api.Delivery{
		ID: d.ID, WebhookID: d.WebhookID, EventType: d.EventType, Status: api.DeliveryStatus(d.Status), Attempts: d.Attempt,
		LastAttemptAt: d.LastAttemptAt, Error: httpkit.UnlessEmpty(d.Error), CreatedAt: d.CreatedAt,
		EndedAt: d.EndedAt, Body: d.Body,
	}
	if !d.IsTest() {
		id := strconv.FormatInt(d.EventID, 10)
		out.EventID, out.SagaID = &id, httpkit.UnlessNil(d.SagaID)
	}
	if d.Status == webhook.Pending {
		out.NextAttemptAt = &d.DueAt
	}
	if d.ResponseStatus != 0 {
		out.ResponseStatus = &d.ResponseStatus
	}
	return out
}
