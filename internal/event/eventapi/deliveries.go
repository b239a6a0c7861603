package eventapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/rest"
)

// ListWebhooks answers a page of webhooks, oldest first.
func (s *Handlers) ListWebhooks(ctx context.Context, in api.ListWebhooksRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := rest.RequestOf(ctx), in.Params
	paging, filter, err := s.webhookFilter(req.List(), p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	page, err := s.Webhooks.List(ctx, req.Tenant.ID, filter)
	if err != nil {
		return nil, err
	}
	out := api.WebhookList{Webhooks: make([]api.Webhook, len(page.Subscriptions))}
	for i := range page.Subscriptions {
		out.Webhooks[i] = toAPIWebhook(&page.Subscriptions[i])
	}
	out.Pagination = paging.Answer(page.More, page.Total, func() []byte {
		return page.Subscriptions[len(page.Subscriptions)-1].ID[:]
	})
	return rest.Answer{Status: http.StatusOK, Body: out}, nil
}

// webhookFilter reads the parameters that lists of webhooks and of deliveries share.
func (s *Handlers) webhookFilter(list rest.ListID, page, size *int32, cursor *string,
	include []string) (rest.Paging, webhook.Filter, error) {
	p, err := s.PagingOf(list, page, size, cursor, include)
	if err != nil {
		return p, webhook.Filter{}, err
	}
	f := webhook.Filter{Limit: p.Size, Offset: p.Offset(), Total: p.Total}
	if p.Page == 0 {
		if f.After, err = uuid.FromBytes(p.After); err != nil {
			return p, f, rest.BadCursor()
		}
	}
	return p, f, nil
}

// ListWebhookDeliveries answers a page of deliveries, newest first.
func (s *Handlers) ListWebhookDeliveries(ctx context.Context,
	in api.ListWebhookDeliveriesRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := rest.RequestOf(ctx), in.Params
	paging, filter, err := s.webhookFilter(req.List(), p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	if p.Status != nil {
		filter.Status = webhook.Status(*p.Status)
	}
	page, err := s.Deliveries.Deliveries(ctx, req.Tenant.ID, in.WebhookID, filter)
	if err != nil {
		return nil, err
	}
	out := api.DeliveryList{Deliveries: make([]api.Delivery, len(page.Deliveries))}
	for i := range page.Deliveries {
		out.Deliveries[i] = toAPIDelivery(&page.Deliveries[i])
	}
	out.Pagination = paging.Answer(page.More, page.Total, func() []byte {
		return page.Deliveries[len(page.Deliveries)-1].ID[:]
	})
	return rest.Answer{Status: http.StatusOK, Body: out}, nil
}

// GetWebhookDelivery answers a delivery with its body.
func (s *Handlers) GetWebhookDelivery(ctx context.Context,
	in api.GetWebhookDeliveryRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	d, err := s.Deliveries.Delivery(ctx, rest.RequestOf(ctx).Tenant.ID, in.WebhookID, in.DeliveryID)
	if err != nil {
		return nil, err
	}
	return rest.Answer{Status: http.StatusOK, Body: toAPIDelivery(&d)}, nil
}

// RedeliverWebhookDelivery makes a delivery due again.
func (s *Handlers) RedeliverWebhookDelivery(ctx context.Context,
	in api.RedeliverWebhookDeliveryRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	tenant := rest.RequestOf(ctx).Tenant.ID
	if err := s.sending(ctx, tenant, in.WebhookID); err != nil {
		return nil, err
	}
	d, err := s.Deliveries.Redeliver(rest.WithActor(ctx, nil), tenant, in.WebhookID, in.DeliveryID, s.moment())
	if err != nil {
		return nil, err
	}
	return deliveryAccepted(&d), nil
}

// RedeliverFailed makes what was given up since a time due again.
func (s *Handlers) RedeliverFailed(ctx context.Context, in api.RedeliverFailedRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	tenant := rest.RequestOf(ctx).Tenant.ID
	since := in.Body.Since.UTC()
	if since.Year() < 1970 || since.Year() > 9999 {
		return nil, rest.SchemaFault(fault.Field{Pointer: "/since", Code: "invalid", Message: "must be in the years 1970 to 9999"})
	}
	if err := s.sending(ctx, tenant, in.WebhookID); err != nil {
		return nil, err
	}
	n, more, err := s.Deliveries.RedeliverFailed(rest.WithActor(ctx, nil), tenant, in.WebhookID, since, s.moment())
	if err != nil {
		return nil, err
	}
	return rest.Answer{Status: http.StatusAccepted, Body: api.RedeliverResult{Redelivered: n, More: more}}, nil
}

// moment is what the rules of redeliveries need.
func (s *Handlers) moment() webhook.Moment {
	return webhook.Moment{Now: s.Now(), NewID: s.NewID}
}

func deliveryAccepted(d *webhook.Delivery) rest.Answer {
	return rest.Answer{
		Status: http.StatusAccepted, Body: toAPIDelivery(d),
		Location: "/api/v1/webhooks/" + d.WebhookID.String() + "/deliveries/" + d.ID.String(),
	}
}

func toAPIWebhook(s *webhook.Subscription) api.Webhook {
	out := api.Webhook{
		ID: s.ID, URL: s.URL, Description: s.Description, EventTypes: s.EventTypes, WorkflowNames: s.WorkflowNames,
		Enabled:        s.Enabled,
		DisabledReason: rest.UnlessEmpty(s.DisabledReason), DisabledAt: s.DisabledAt, FailingSince: s.Health.FailingSince,
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
		LastAttemptAt: d.LastAttemptAt, Error: rest.UnlessEmpty(d.Error), CreatedAt: d.CreatedAt,
		EndedAt: d.EndedAt, Body: d.Body,
	}
	if !d.IsTest() {
		id := strconv.FormatInt(d.EventID, 10)
		out.EventID, out.SagaID = &id, &d.SagaID
	}
	if d.Status == webhook.Pending {
		out.NextAttemptAt = &d.DueAt
	}
	if d.ResponseStatus != 0 {
		out.ResponseStatus = &d.ResponseStatus
	}
	return out
}
