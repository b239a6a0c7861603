package webhook_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/event/webhook"
)

func TestTheUpdateOfADeliverysLetter(t *testing.T) {
	first := webhook.Delivery{
		WebhookID: uuid.UUID{1},
		ID:        uuid.UUID{2},
		EventID:   7,
		Attempt:   1,
		Status:    webhook.Pending,
		Body:      []byte(`{"event":1}`),
	}
	again, test := first, first
	again.Attempt, again.RoundStart = 2, 1
	test.EventID = 0
	once := webhook.DefaultPolicy
	once.Retry.MaxAttempts = 1
	for _, tt := range []struct {
		name   string
		d      webhook.Delivery
		o      webhook.Outcome
		policy webhook.Policy
		want   dlq.Outcome
		class  dlq.ErrorClass
		kind   string
	}{
		{"a delivery that never failed says nothing", first, webhook.Outcome{Status: 200}, once, "", "", ""},
		{"one that is sent again and arrives", again, webhook.Outcome{Status: 200}, once, dlq.Succeeded, "", ""},
		{"one that is tried again", first, webhook.Outcome{Status: 500}, webhook.DefaultPolicy, "", "", ""},
		{"one that is given up", first, webhook.Outcome{Status: 500}, once, dlq.GaveUp, dlq.Transient, "http_500"},
		{"one that is refused", first, webhook.Outcome{Status: 404}, once, dlq.GaveUp, dlq.Permanent, "http_404"},
		{"one that is led astray", first, webhook.Outcome{Status: 301}, once, dlq.GaveUp, dlq.Unknown, "http_301"},
		{"one without an answer", again, webhook.Outcome{Error: "no route"}, once, dlq.GaveUp, dlq.Transient, "no_answer"},
		{"one to an endpoint that is gone", first, webhook.Outcome{Status: 410}, webhook.DefaultPolicy, dlq.GaveUp, dlq.Permanent, "http_410"},
		{"one that its node gave up", again, webhook.Outcome{Abandoned: true}, once, "", "", ""},
		{"a test", test, webhook.Outcome{Status: 500}, once, "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := webhook.Settle(webhook.Subscription{ID: uuid.UUID{1}, Enabled: true}, tt.d, tt.o, tt.policy, moment)
			n := r.LetterUpdate(moment)
			switch {
			case tt.want == "" && n == nil:
			case n == nil || n.Outcome != tt.want:
				t.Fatalf("tells %+v; want %q", n, tt.want)
			case n.Outcome == dlq.GaveUp:
				l := n.Letter
				want := l
				want.ID, want.RootID = uuid.UUID{9}, uuid.UUID{9}
				want.Failure.Class, want.Failure.Type, want.Failure.Message = tt.class, tt.kind, r.Delivery.Error
				want.OriginalTopic, want.DedupeKey = "webhook."+tt.d.WebhookID.String(), "skald:webhook:"+tt.d.ID.String()
				want.Content.Payload, want.Status, want.NextRetryAt = tt.d.Body, dlq.Pending, nil
				want.Link, want.Target.Kind = dlq.Link{WebhookID: tt.d.WebhookID, DeliveryID: tt.d.ID}, dlq.ToWebhook
				if diff := cmp.Diff(want, l); diff != "" {
					t.Errorf("the letter (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestOnlyAFailedDeliverysLetterIsRetriedByARedelivery(t *testing.T) {
	for _, status := range webhook.Statuses {
		d := webhook.Delivery{EventID: 7, Status: status}
		if n := webhook.Redelivered(&d, moment); (n != nil) != (status == webhook.Failed) ||
			n != nil && (n.Outcome != dlq.RetryStarted || n.Token != uuid.UUID{9}) {
			t.Errorf("%s: %+v", status, n)
		}
	}
	if n := webhook.Redelivered(&webhook.Delivery{Status: webhook.Failed}, moment); n != nil {
		t.Errorf("a test: %+v", n)
	}
}
