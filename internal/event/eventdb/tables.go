package eventdb

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/postgres"
)

// webhookTable is saga.webhooks without the cursor, joined with the subscription's rows of
// saga.webhook_secrets.
var webhookTable = postgres.NewTable(
	postgres.UUID("tenant_id", func(s *webhook.Subscription) *uuid.UUID { return &s.TenantID }),
	postgres.UUID("id", func(s *webhook.Subscription) *uuid.UUID { return &s.ID }),
	postgres.Text("url", func(s *webhook.Subscription) *string { return &s.URL }),
	postgres.Text("description", func(s *webhook.Subscription) *string { return &s.Description }),
	postgres.Texts("event_types", func(s *webhook.Subscription) *[]string { return &s.EventTypes }),
	postgres.Texts("workflow_names", func(s *webhook.Subscription) *[]string { return &s.WorkflowNames }),
	postgres.Bool("enabled", func(s *webhook.Subscription) *bool { return &s.Enabled }),
	postgres.Text("disabled_reason", func(s *webhook.Subscription) *string { return &s.DisabledReason }),
	postgres.TimeOrNil("disabled_at", func(s *webhook.Subscription) **time.Time { return &s.DisabledAt }),
	postgres.Text("created_by", func(s *webhook.Subscription) *string { return &s.CreatedBy }),
	postgres.Time("created_at", func(s *webhook.Subscription) *time.Time { return &s.CreatedAt }),
	postgres.Time("updated_at", func(s *webhook.Subscription) *time.Time { return &s.UpdatedAt }),
	postgres.Int("version", func(s *webhook.Subscription) *int64 { return &s.Version }),
	postgres.TimeOrNil("failing_since", func(s *webhook.Subscription) **time.Time { return &s.Health.FailingSince }),
	postgres.Int("given_up", func(s *webhook.Subscription) *int { return &s.Health.GivenUp }),
	postgres.Read("secrets", func(s *webhook.Subscription) any { return (*secrets)(&s.Secrets) }).ReadFrom(`(
	SELECT json_agg(json_build_object('key', translate(encode(k.key, 'base64'), E'\n', ''), 'created_at', k.created_at,
	                                  'expires_at', k.expires_at)
	                ORDER BY k.place)
	  FROM saga.webhook_secrets k WHERE k.tenant_id = w.tenant_id AND k.webhook_id = w.id)`),
)

var webhookColumns = webhookTable.Selected("w")

// secrets are a subscription's secrets, newest first, which are read as one document.
type secrets []webhook.Secret

// Scan implements sql.Scanner.
func (all *secrets) Scan(src any) error {
	var stored []struct {
		Key       []byte     `json:"key"`
		CreatedAt time.Time  `json:"created_at"`
		ExpiresAt *time.Time `json:"expires_at"`
	}
	text, ok := src.([]byte)
	if src == nil {
		return nil // these secrets are lost, but the other ones must still be read
	}
	if !ok {
		return fmt.Errorf("stored secrets have the type %T", src)
	}
	if err := json.Unmarshal(text, &stored); err != nil {
		return fmt.Errorf("decode the stored secrets: %w", err)
	}
	for _, k := range stored {
		postgres.UTC(&k.CreatedAt, k.ExpiresAt)
		*all = append(*all, webhook.Secret(k))
	}
	return nil
}

// deliveryTable is saga.webhook_deliveries without the lease.
var deliveryTable = postgres.NewTable(
	postgres.UUID("tenant_id", func(d *webhook.Delivery) *uuid.UUID { return &d.TenantID }),
	postgres.UUID("webhook_id", func(d *webhook.Delivery) *uuid.UUID { return &d.WebhookID }),
	postgres.UUID("id", func(d *webhook.Delivery) *uuid.UUID { return &d.ID }),
	postgres.Int("event_id", func(d *webhook.Delivery) *int64 { return &d.EventID }),
	postgres.Text("event_type", func(d *webhook.Delivery) *string { return &d.EventType }),
	postgres.UUIDOrZero("saga_id", func(d *webhook.Delivery) *uuid.UUID { return &d.SagaID }),
	postgres.JSON("body", func(d *webhook.Delivery) *[]byte { return &d.Body }).Cast(""), // a text, sent unchanged
	postgres.Text("status", func(d *webhook.Delivery) *webhook.Status { return &d.Status }),
	postgres.Int("attempt", func(d *webhook.Delivery) *int { return &d.Attempt }),
	postgres.Int("round_start", func(d *webhook.Delivery) *int { return &d.RoundStart }),
	postgres.Time("due_at", func(d *webhook.Delivery) *time.Time { return &d.DueAt }),
	postgres.TimeOrNil("last_attempt_at", func(d *webhook.Delivery) **time.Time { return &d.LastAttemptAt }),
	postgres.IntOr(0, "response_status", func(d *webhook.Delivery) *int { return &d.ResponseStatus }),
	postgres.TextOrEmpty("error", func(d *webhook.Delivery) *string { return &d.Error }),
	postgres.Time("created_at", func(d *webhook.Delivery) *time.Time { return &d.CreatedAt }),
	postgres.TimeOrNil("ended_at", func(d *webhook.Delivery) **time.Time { return &d.EndedAt }),
)

var (
	// listedDelivery holds the columns of a delivery in a list.
	listedDelivery = deliveryTable.Without("body")
	// addedDelivery holds the columns of a new delivery, and queuedDelivery the same columns
	// without tenant and webhook.
	addedDelivery = deliveryTable.Only("tenant_id", "webhook_id", "id", "event_id", "event_type", "saga_id", "body",
		"status", "due_at", "created_at")
	queuedDelivery = addedDelivery.Without("tenant_id", "webhook_id")
	// settledDelivery holds the columns that rules change.
	settledDelivery = deliveryTable.Only("tenant_id", "webhook_id", "id", "status", "round_start", "due_at",
		"response_status", "error", "ended_at")
)

var deliveryColumns = deliveryTable.Selected("d")
