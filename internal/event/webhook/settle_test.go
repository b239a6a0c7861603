package webhook_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/event/webhook"
)

var (
	now    = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	moment = webhook.Moment{Now: now, Jitter: 0.5, NewID: func() uuid.UUID { return uuid.UUID{9} }}
)

func subscription(t *testing.T) webhook.Subscription {
	t.Helper()
	s, err := webhook.New(
		uuid.New(),
		uuid.New(),
		webhook.Settings{URL: new("https://h.example/in")},
		[]byte("k"),
		"alice",
		now.Add(-time.Hour),
	)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inFlight returns a delivery in its n-th attempt.
func inFlight(n int) webhook.Delivery {
	return webhook.Delivery{EventID: 1, Status: webhook.Pending, Attempt: n, DueAt: now}
}

func TestConsequencesOfOutcomes(t *testing.T) {
	last := webhook.DefaultPolicy.Retry.MaxAttempts
	for _, tt := range []struct {
		name    string
		d       webhook.Delivery
		o       webhook.Outcome
		status  webhook.Status
		wait    time.Duration // until the next attempt, while pending
		failing bool
		givenUp int
	}{
		{"200 is success", inFlight(1), webhook.Outcome{Status: 200}, webhook.Delivered, 0, false, 0},
		{"299 is success", inFlight(last), webhook.Outcome{Status: 299}, webhook.Delivered, 0, false, 0},
		{"the first failure waits five seconds", inFlight(1), webhook.Outcome{Status: 500}, webhook.Pending, 5 * time.Second, true, 0},
		{"the second three times as long", inFlight(2), webhook.Outcome{Error: "no answer in time"}, webhook.Pending, 15 * time.Second, true, 0},
		{"no wait is longer than an hour", inFlight(last - 1), webhook.Outcome{Status: 502}, webhook.Pending, time.Hour, true, 0},
		{"a redirect is a failure", inFlight(1), webhook.Outcome{Status: 302}, webhook.Pending, 5 * time.Second, true, 0},
		{"a refusal is a failure like any other", inFlight(1), webhook.Outcome{Status: 400}, webhook.Pending, 5 * time.Second, true, 0},
		{"Retry-After makes it longer", inFlight(1), webhook.Outcome{Status: 429, RetryAfter: time.Minute}, webhook.Pending, time.Minute, true, 0},
		{"Retry-After does not make it shorter", inFlight(2), webhook.Outcome{Status: 503, RetryAfter: time.Second}, webhook.Pending, 15 * time.Second, true, 0},
		{"the last failure gives up", inFlight(last), webhook.Outcome{Status: 500}, webhook.Failed, 0, true, 1},
		{"attempts of former rounds do not count", webhook.Delivery{EventID: 1, Status: webhook.Pending, Attempt: last + 1, RoundStart: last}, webhook.Outcome{Status: 500}, webhook.Pending, 5 * time.Second, true, 0},
		{"a test is tried once and blames nobody", webhook.Delivery{Status: webhook.Pending, Attempt: 1}, webhook.Outcome{Status: 500}, webhook.Failed, 0, false, 0},
		{"an abandoned attempt is made again at once and blames nobody", inFlight(last), webhook.Outcome{Abandoned: true}, webhook.Pending, 0, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := webhook.Settle(subscription(t), tt.d, tt.o, webhook.DefaultPolicy, moment)
			d, h := r.Delivery, r.Subscription.Health
			if d.Status != tt.status || (d.EndedAt != nil) != (tt.status != webhook.Pending) {
				t.Errorf("status %s, ended %v; want %s", d.Status, d.EndedAt, tt.status)
			}
			if d.Status == webhook.Pending && d.DueAt.Sub(now) != tt.wait {
				t.Errorf("waits %s, want %s", d.DueAt.Sub(now), tt.wait)
			}
			if !r.Subscription.Enabled || r.Disabled {
				t.Errorf("it is disabled: %v", r.Disabled)
			}
			if (h.FailingSince != nil) != tt.failing || h.GivenUp != tt.givenUp || r.Changed != tt.failing {
				t.Errorf("health %+v, changed %v", h, r.Changed)
			}
			if failed := !tt.o.Abandoned && tt.o.Status/100 != 2; failed != (d.Error != "") || d.ResponseStatus != tt.o.Status {
				t.Errorf("error %q, status %d", d.Error, d.ResponseStatus)
			}
		})
	}
}

func TestAnAbandonedAttemptDoesNotCount(t *testing.T) {
	d := inFlight(1)
	for n := range 100 {
		d = webhook.Settle(subscription(t), d, webhook.Outcome{Abandoned: true}, webhook.DefaultPolicy, moment).Delivery
		if d.Attempt-d.RoundStart != 0 {
			t.Fatalf("after %d: %+v", n, d)
		}
		d.Attempt++
	}
}

func TestSuccessResetsFailures(t *testing.T) {
	s := subscription(t)
	s.Health = webhook.Health{FailingSince: &now, GivenUp: 9}
	r := webhook.Settle(s, inFlight(3), webhook.Outcome{Status: 204}, webhook.DefaultPolicy, moment)
	if r.Subscription.Health != (webhook.Health{}) || !r.Changed || !r.Recovered || r.Subscription.Version != s.Version {
		t.Errorf("%+v", r)
	}
	again := webhook.Settle(r.Subscription, inFlight(1), webhook.Outcome{Status: 204}, webhook.DefaultPolicy, moment)
	if again.Changed || again.Recovered {
		t.Errorf("a healthy endpoint recovers: %+v", again)
	}
}

func TestAnEndpointThatIsGivenUpIsDisabledOnce(t *testing.T) {
	s := subscription(t)
	for n := 1; n <= 12; n++ {
		r := webhook.Settle(s, inFlight(16), webhook.Outcome{Error: "the connection failed"}, webhook.DefaultPolicy, moment)
		if r.Disabled != (n == 10) || r.Subscription.Enabled != (n < 10) {
			t.Fatalf("after %d given up: disabled %v, enabled %v", n, r.Disabled, r.Subscription.Enabled)
		}
		s = r.Subscription
	}
	if s.Version != 2 ||
		s.DisabledReason != "10 consecutive deliveries failed permanently; the last error: the connection failed" ||
		!s.DisabledAt.Equal(now) {
		t.Errorf("%+v", s)
	}
}

func TestGoneDisablesAtOnce(t *testing.T) {
	r := webhook.Settle(subscription(t), inFlight(1), webhook.Outcome{Status: 410}, webhook.DefaultPolicy, moment)
	if !r.Disabled || r.Subscription.Enabled || r.Delivery.Status != webhook.Failed ||
		r.Subscription.DisabledReason != "the endpoint answered 410 Gone" {
		t.Errorf("%+v", r)
	}
	r = webhook.Settle(
		subscription(t),
		webhook.Delivery{Status: webhook.Pending, Attempt: 1},
		webhook.Outcome{Status: 410},
		webhook.DefaultPolicy,
		moment,
	)
	if r.Disabled {
		t.Error("a test disabled the subscription")
	}
}

func TestRedeliver(t *testing.T) {
	for _, status := range webhook.Statuses {
		d := webhook.Delivery{Status: status, Attempt: 5, RoundStart: 2, DueAt: now.Add(time.Hour)}
		if status != webhook.Pending {
			d.EndedAt = &now
		}
		want := webhook.Delivery{Status: webhook.Pending, Attempt: 5, RoundStart: 5, DueAt: now}
		if status == webhook.Pending {
			want.RoundStart = 2 // its round continues
		}
		if diff := cmp.Diff(want, webhook.Redeliver(d, now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", status, diff)
		}
	}
	due := webhook.Delivery{Status: webhook.Pending, Attempt: 5, RoundStart: 2, DueAt: now.Add(-time.Second)}
	if diff := cmp.Diff(due, webhook.Redeliver(due, now)); diff != "" {
		t.Errorf("one that is due (-want +got):\n%s", diff)
	}
}
