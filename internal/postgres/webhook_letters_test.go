package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// webhookLetters is one webhook of the tenant big, whose deliveries are tried once.
type webhookLetters struct {
	*lettered
	hooks *postgres.Webhooks
	hook  webhook.Subscription
}

func newWebhookLetters(t *testing.T) *webhookLetters {
	t.Helper()
	db := connect(t, plainLogin(t, testdb.DSN(t)))
	p := &webhookLetters{lettered: &lettered{t: t, db: db.SQL(), letters: postgres.NewLetters(db, dlq.DefaultPolicy)}, hooks: postgres.NewWebhooks(db, nil)}
	url := "https://example.com/events"
	var err error
	if p.hook, err = webhook.New(big, newID(), webhook.Settings{URL: &url}, []byte("a key of thirty-two bytes length"), "op", now()); err != nil {
		t.Fatal(err)
	}
	if err := p.hooks.Create(t.Context(), p.hook, false); err != nil {
		t.Fatal(err)
	}
	return p
}

// failed adds a delivery and lets it be given up.
func (p *webhookLetters) failed() uuid.UUID {
	p.t.Helper()
	d := webhook.Delivery{
		TenantID: big, WebhookID: p.hook.ID, ID: newID(), EventID: 7, EventType: "saga.failed", Body: []byte(`{"event":1}`),
		Status: webhook.Pending, DueAt: now().Add(-time.Second), CreatedAt: now().Add(-time.Hour),
	}
	if err := p.hooks.Add(p.t.Context(), d); err != nil {
		p.t.Fatal(err)
	}
	p.settle(webhook.Outcome{Status: 503})
	return d.ID
}

// settle claims what is due and ends it so.
func (p *webhookLetters) settle(o webhook.Outcome) {
	p.t.Helper()
	policy := webhook.DefaultPolicy
	policy.Retry.MaxAttempts, policy.DisableAfter = 1, 100
	claimed, err := p.hooks.Claim(p.t.Context(), &p.hook, now().Add(time.Second), time.Minute, 10)
	if err != nil || len(claimed) == 0 {
		p.t.Fatalf("%d claimed, %v", len(claimed), err)
	}
	for i := range claimed {
		if _, stored, err := p.hooks.Settle(p.t.Context(), &claimed[i], o, policy, webhook.Moment{Now: now()}); err != nil || !stored {
			p.t.Fatalf("stored %v, %v", stored, err)
		}
	}
}

// letterOf returns the letter of a delivery.
func (p *webhookLetters) letterOf(delivery uuid.UUID) dlq.Letter {
	p.t.Helper()
	return p.letter(ask[uuid.UUID](p.t, p.db, `SELECT id FROM dlq.dlq_messages WHERE delivery_id = $1`, delivery))
}

func (p *webhookLetters) redeliver(id uuid.UUID) {
	p.t.Helper()
	if _, err := p.hooks.Redeliver(p.t.Context(), big, p.hook.ID, id, now()); err != nil {
		p.t.Fatal(err)
	}
}

func TestADeliveryThatIsGivenUpLeavesALetter(t *testing.T) {
	t.Parallel()
	p := newWebhookLetters(t)
	id := p.failed()
	l := p.letterOf(id)
	want := l
	want.Status, want.NextRetryAt, want.Source, want.RootID = dlq.Pending, nil, dlq.FromWebhook, l.ID
	want.OriginalTopic, want.Content.Payload, want.Failure.Type = "webhook."+p.hook.ID.String(), []byte(`{"event":1}`), "http_503"
	if diff := cmp.Diff(want, l); diff != "" {
		t.Fatalf("the letter (-want +got):\n%s", diff)
	}
	p.redeliver(id)
	if l = p.letterOf(id); l.Status != dlq.Retrying || l.Token == uuid.Nil {
		t.Fatalf("redelivered: %+v", l)
	}
	p.settle(webhook.Outcome{Status: 500})
	if l = p.letterOf(id); l.Status != dlq.Pending || l.RetryCount != 1 || l.Failure.Type != "http_500" {
		t.Fatalf("given up again: %+v", l)
	}
	if n, _, err := p.hooks.RedeliverFailed(t.Context(), big, p.hook.ID, time.Time{}, now()); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	p.settle(webhook.Outcome{Status: 204})
	if l = p.letterOf(id); l.Status != dlq.Resolved || l.Resolution != dlq.Confirmed {
		t.Fatalf("delivered: %+v", l)
	}
	p.redeliver(id) // somebody wants it once more, and it fails
	if l = p.letterOf(id); l.Status != dlq.Resolved {
		t.Fatalf("a delivery that had arrived is sent again: %+v", l)
	}
	p.settle(webhook.Outcome{Error: "no route"})
	if l = p.letterOf(id); l.Status != dlq.Pending || l.RetryCount != 2 || l.Failure.Type != "no_answer" {
		t.Fatalf("and is given up: %+v", l)
	}
	if got := p.attempts(l.ID); got != "1 FAILED, 2 ACKNOWLEDGED" {
		t.Errorf("its retries: %s", got)
	}
}

func TestLettersOfAWebhookThatIsDeletedAreDiscarded(t *testing.T) {
	t.Parallel()
	p := newWebhookLetters(t)
	waiting, retried, arrived := p.failed(), p.failed(), p.failed()
	p.redeliver(arrived)
	p.settle(webhook.Outcome{Status: 200})
	p.redeliver(retried)
	if err := p.hooks.Delete(t.Context(), big, p.hook.ID, 0); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uuid.UUID{waiting, retried} {
		if l := p.letterOf(id); l.Status != dlq.Dead || l.Resolution != dlq.Discarded {
			t.Errorf("%s %s", l.Status, l.Resolution)
		}
	}
	if got := p.attempts(p.letterOf(retried).ID); got != "1 WITHDRAWN" {
		t.Errorf("the retry that was under way: %s", got)
	}
	if l := p.letterOf(arrived); l.Resolution != dlq.Confirmed {
		t.Errorf("one that had arrived is %s", l.Resolution)
	}
}

func TestEnablingFromNowOnDiscardsLettersThatAreBeingRetried(t *testing.T) {
	t.Parallel()
	p := newWebhookLetters(t)
	waiting, retried := p.failed(), p.failed()
	off, err := p.hook.With(webhook.Settings{Enabled: new(false)}, now())
	if err != nil || p.hooks.Replace(t.Context(), off, false) != nil {
		t.Fatal(err)
	}
	p.redeliver(retried)
	on, err := off.With(webhook.Settings{Enabled: new(true)}, now())
	if err != nil || p.hooks.Replace(t.Context(), on, true) != nil {
		t.Fatal(err)
	}
	if l := p.letterOf(waiting); l.Status != dlq.Pending {
		t.Errorf("one that waits for a person is %s", l.Status)
	}
	if l := p.letterOf(retried); l.Resolution != dlq.Discarded {
		t.Errorf("one whose delivery was skipped is %s", l.Status)
	}
}

func TestDeliveriesLastAsLongAsTheirLetters(t *testing.T) {
	t.Parallel()
	p := newWebhookLetters(t)
	waiting, arrived := p.failed(), p.failed()
	p.redeliver(arrived)
	p.settle(webhook.Outcome{Status: 200})
	if n, err := p.hooks.Expire(t.Context(), now()); err != nil || n != 1 {
		t.Fatalf("%d deliveries expired, %v; want the one that has arrived", n, err)
	}
	p.redeliver(waiting)
	p.settle(webhook.Outcome{Status: 200})
	if n, err := p.hooks.Expire(t.Context(), now()); err != nil || n != 1 {
		t.Fatalf("%d deliveries expired, %v; want the other one", n, err)
	}
}
