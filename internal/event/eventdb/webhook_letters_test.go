package eventdb_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/event/eventdb"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// webhookLetters contains a webhook of the tenant big, whose deliveries are attempted once.
type webhookLetters struct {
	*pgtest.Lettered
	hooks *eventdb.Webhooks
	hook  webhook.Subscription
}

func newWebhookLetters(t *testing.T) *webhookLetters {
	t.Helper()
	db := pgtest.Connect(t, pgtest.PlainLogin(t, testdb.DSN(t)))
	p := &webhookLetters{Lettered: &pgtest.Lettered{T: t, DB: db.SQL(), Letters: dlqdb.NewLetters(db, dlq.DefaultPolicy)},
		hooks: eventdb.NewWebhooks(db, nil)}
	url := "https://example.com/events"
	var err error
	if p.hook, err = webhook.New(pgtest.Big, pgtest.NewID(), webhook.Settings{URL: &url}, []byte("a key of thirty-two bytes length"), "op",
		pgtest.Now()); err != nil {
		t.Fatal(err)
	}
	if err := p.hooks.Create(t.Context(), p.hook, false); err != nil {
		t.Fatal(err)
	}
	return p
}

// failed adds a delivery that is given up.
func (p *webhookLetters) failed() uuid.UUID {
	p.T.Helper()
	d := webhook.Delivery{
		TenantID: pgtest.Big, WebhookID: p.hook.ID, ID: pgtest.NewID(), EventID: 7, EventType: "saga.failed",
		Body:   []byte(`{"event":1}`),
		Status: webhook.Pending, DueAt: pgtest.Now().Add(-time.Second), CreatedAt: pgtest.Now().Add(-time.Hour),
	}
	if err := p.hooks.Add(p.T.Context(), d); err != nil {
		p.T.Fatal(err)
	}
	p.settle(webhook.Outcome{Status: 503})
	return d.ID
}

// settle claims the due delivery and ends it with o.
func (p *webhookLetters) settle(o webhook.Outcome) {
	p.T.Helper()
	policy := webhook.DefaultPolicy
	policy.Retry.MaxAttempts, policy.DisableAfter = 1, 100
	claimed, err := p.hooks.Claim(p.T.Context(), &p.hook, pgtest.Now().Add(time.Second), time.Minute, 10)
	if err != nil || len(claimed) == 0 {
		p.T.Fatalf("%d claimed, %v", len(claimed), err)
	}
	for i := range claimed {
		if _, stored, err := p.hooks.Settle(p.T.Context(), &claimed[i], o, policy,
			webhook.Moment{Now: pgtest.Now(), NewID: pgtest.NewID}); err != nil || !stored {
			p.T.Fatalf("stored %v, %v", stored, err)
		}
	}
}

// letterOf returns the letter of a delivery.
func (p *webhookLetters) letterOf(delivery uuid.UUID) dlq.Letter {
	p.T.Helper()
	return p.Letter(pgtest.Ask[uuid.UUID](p.T, p.DB, `SELECT id FROM dlq.dlq_messages WHERE delivery_id = $1`, delivery))
}

func (p *webhookLetters) redeliver(id uuid.UUID) {
	p.T.Helper()
	if _, err := p.hooks.Redeliver(p.T.Context(), pgtest.Big, p.hook.ID, id,
		webhook.Moment{Now: pgtest.Now(), NewID: pgtest.NewID}); err != nil {
		p.T.Fatal(err)
	}
}

func TestADeliveryThatIsGivenUpLeavesALetter(t *testing.T) {
	t.Parallel()
	p := newWebhookLetters(t)
	id := p.failed()
	l := p.letterOf(id)
	want := l
	want.Status, want.NextRetryAt, want.Source, want.RootID = dlq.Pending, nil, dlq.FromWebhook, l.ID
	want.OriginalTopic, want.Content.Payload, want.Failure.Type = "webhook."+p.hook.ID.String(),
		[]byte(`{"event":1}`), "http_503"
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
	if n, _, err := p.hooks.RedeliverFailed(t.Context(), pgtest.Big, p.hook.ID, time.Time{},
		webhook.Moment{Now: pgtest.Now(), NewID: pgtest.NewID}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	p.settle(webhook.Outcome{Status: 204})
	if l = p.letterOf(id); l.Status != dlq.Resolved || l.Resolution != dlq.Confirmed {
		t.Fatalf("delivered: %+v", l)
	}
	p.redeliver(id) // a redelivery is requested, and it fails
	if l = p.letterOf(id); l.Status != dlq.Resolved {
		t.Fatalf("a delivery that had arrived is sent again: %+v", l)
	}
	p.settle(webhook.Outcome{Error: "no route"})
	if l = p.letterOf(id); l.Status != dlq.Pending || l.RetryCount != 2 || l.Failure.Type != "no_answer" {
		t.Fatalf("and is given up: %+v", l)
	}
	if got := p.Attempts(l.ID); got != "1 FAILED, 2 ACKNOWLEDGED" {
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
	if err := p.hooks.Delete(t.Context(), pgtest.Big, p.hook.ID, 0); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uuid.UUID{waiting, retried} {
		if l := p.letterOf(id); l.Status != dlq.Dead || l.Resolution != dlq.Discarded {
			t.Errorf("%s %s", l.Status, l.Resolution)
		}
	}
	if got := p.Attempts(p.letterOf(retried).ID); got != "1 WITHDRAWN" {
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
	off, err := p.hook.With(webhook.Settings{Enabled: new(false)}, pgtest.Now())
	if err != nil || p.hooks.Replace(t.Context(), off, false) != nil {
		t.Fatal(err)
	}
	p.redeliver(retried)
	on, err := off.With(webhook.Settings{Enabled: new(true)}, pgtest.Now())
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

func TestDeliveriesAreKeptAsLongAsTheirLetters(t *testing.T) {
	t.Parallel()
	p := newWebhookLetters(t)
	waiting, arrived := p.failed(), p.failed()
	p.redeliver(arrived)
	p.settle(webhook.Outcome{Status: 200})
	if n, err := p.hooks.Expire(t.Context(), pgtest.Now()); err != nil || n != 1 {
		t.Fatalf("%d deliveries expired, %v; want the one that has arrived", n, err)
	}
	p.redeliver(waiting)
	p.settle(webhook.Outcome{Status: 200})
	if n, err := p.hooks.Expire(t.Context(), pgtest.Now()); err != nil || n != 1 {
		t.Fatalf("%d deliveries expired, %v; want the other one", n, err)
	}
}
