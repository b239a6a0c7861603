package targets_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/targets"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga/memstore"
)

// A delivery is sent again by the loop of webhooks, which reports the result later. A delivery that
// can never be sent has failed, and one that waits for a person is withdrawn.
func TestADeliveryIsHandedToItsWebhook(t *testing.T) {
	t.Parallel()
	tenant, hook, unknown := uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}
	for name, tt := range map[string]struct {
		enabled     bool
		hook, given uuid.UUID // given: the delivery, Nil: the one that is stored
		want        dlq.AttemptOutcome
		accepted    bool
		code        string // of the fault
	}{
		"it is enabled":            {true, hook, uuid.Nil, dlq.Uncertain, true, ""},
		"it is disabled":           {false, hook, uuid.Nil, dlq.Withdrawn, false, webhook.CodeDisabled},
		"it was deleted":           {true, unknown, uuid.Nil, dlq.FailedDrive, false, ""},
		"its delivery was deleted": {true, hook, unknown, dlq.FailedDrive, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memstore.New(time.Now)
			s := webhook.Subscription{TenantID: tenant, ID: hook, URL: "https://example.test", Enabled: true, Version: 1}
			if err := store.Webhooks.Create(t.Context(), s, false); err != nil {
				t.Fatal(err)
			}
			d := webhook.Delivery{TenantID: tenant, WebhookID: hook, ID: uuid.UUID{4}, EventID: 5, Status: webhook.Pending}
			if err := store.Webhooks.Add(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if !tt.enabled {
				s.Enabled, s.DisabledReason, s.Version = false, "it failed too often", 2
				if err := store.Webhooks.Replace(t.Context(), s, false); err != nil {
					t.Fatal(err)
				}
			}
			l := dlq.Drive{Letter: dlq.Letter{TenantID: tenant, Link: dlq.Link{WebhookID: tt.hook, DeliveryID: d.ID}}}
			if tt.given != uuid.Nil {
				l.Link.DeliveryID = tt.given
			}
			target := targets.Webhook{
				Webhooks: store.Webhooks, Deliveries: store.Webhooks, Now: time.Now, NewID: uuid.New,
			}
			got := target.Drive(t.Context(), []dlq.Drive{l})[0]
			if got.Outcome != tt.want || got.Accepted != tt.accepted || got.StartedAt.IsZero() || got.EndedAt.IsZero() {
				t.Errorf("%+v, want %s, accepted %t", got, tt.want, tt.accepted)
			}
			if tt.code != "" && !fault.IsCode(got.Fault, tt.code) || tt.code == "" && got.Fault != nil {
				t.Errorf("the fault is %v, want %q", got.Fault, tt.code)
			}
			if !tt.accepted && got.Error == "" {
				t.Error("the letter does not say why")
			}
		})
	}
}
