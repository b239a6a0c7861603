package app_test

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/dlq/targets"
	"github.com/skald-saga/skald/internal/event/eventdb"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// oneUndo gives up a compensation after one attempt; its second step refuses everything.
const oneUndo = `{"name": "pair", "compensation_retry": {"max_attempts": 1}, "steps": [
	{"name": "one", "action": {"http": {"url": "URL/one"}}, "compensation": {"http": {"url": "URL/one/undo"}}},
	{"name": "two", "action": {"http": {"url": "URL/two"}}, "compensation": "none"}]}`

// wideUndo continues when a compensation gives up. Two of its three compensations do, and its last
// step refuses everything.
const wideUndo = `{"name": "wide", "compensation_retry": {"max_attempts": 1}, "on_compensation_failure": "go_on", "steps": [
	{"name": "a", "action": {"http": {"url": "URL/a"}}, "compensation": {"http": {"url": "URL/one/undo"}}},
	{"name": "b", "action": {"http": {"url": "URL/b"}}, "compensation": {"http": {"url": "URL/b/undo"}}},
	{"name": "c", "action": {"http": {"url": "URL/c"}}, "compensation": {"http": {"url": "URL/one/undo"}}},
	{"name": "two", "action": {"http": {"url": "URL/two"}}, "compensation": "none"}]}`

// stranded is a node whose participant cannot compensate while broken is set, with the letters in
// its database as another node would retry them.
type stranded struct {
	*node
	t       *testing.T
	broken  atomic.Bool
	undos   atomic.Int64
	letters *dlqdb.Letters
	driver  *targets.Saga
	db      *sql.DB
}

func newStranded(t *testing.T) *stranded {
	t.Helper()
	s := &stranded{t: t}
	s.broken.Store(true)
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/two":
			w.WriteHeader(http.StatusConflict)
		case r.URL.Path == "/one/undo" && s.broken.Load():
			s.undos.Add(1)
			w.WriteHeader(http.StatusInternalServerError)
		default:
			io.WriteString(w, `{"ok":true}`)
		}
	}))
	t.Cleanup(participant.Close)
	dsn := testdb.DSN(t)
	s.node = start(t, dsn, "a", func(c *config.Config) { c.DLQ.Lease = 3 * time.Second })
	for _, workflow := range []string{oneUndo, wideUndo} {
		if status, doc := call(t, "POST", s.url+"/api/v1/workflows",
			strings.ReplaceAll(workflow, "URL", participant.URL)); status != 201 {
			t.Fatalf("register: %d %v", status, doc)
		}
	}
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s.db, s.letters = db.SQL(), dlqdb.NewLetters(db, dlq.DefaultPolicy)
	s.driver = app.NewSagaLetters(db, s.letters)
	return s
}

// fail runs a saga to its dirty end and returns it.
func (s *stranded) fail() (id, letter uuid.UUID) {
	s.t.Helper()
	_, doc := call(s.t, "POST", s.url+"/api/v1/sagas?wait=4m", `{"workflow_name": "pair", "correlation_id": "order-7"}`)
	if doc["state"] != "failed" || doc["dead_letter_id"] == nil {
		s.t.Fatalf("the saga is %v, its letter %v", doc["state"], doc["dead_letter_id"])
	}
	return uuid.MustParse(doc["saga_id"].(string)), uuid.MustParse(doc["dead_letter_id"].(string))
}

func (s *stranded) letter(id uuid.UUID) dlq.Letter {
	s.t.Helper()
	var tenant uuid.UUID
	if err := s.db.QueryRowContext(s.t.Context(), `SELECT tenant_id FROM dlq.dlq_messages WHERE id = $1`, id).Scan(&tenant); err != nil {
		s.t.Fatal(err)
	}
	l, err := s.letters.Get(s.t.Context(), tenant, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// claimed claims a letter, as Queue.Take does.
func (s *stranded) claimed(id uuid.UUID) dlq.Drive {
	s.t.Helper()
	if _, err := s.db.ExecContext(s.t.Context(), `
		UPDATE dlq.dlq_messages SET status = 'RETRYING', resolution = NULL, terminal_at = NULL, retry_token = gen_random_uuid(), last_retry_at = clock_timestamp(),
		       retry_lease_until = clock_timestamp() + interval '1 minute', attempts = attempts + 1, version = version + 1
		 WHERE id = $1`, id); err != nil {
		s.t.Fatal(err)
	}
	return dlq.Drive{Letter: s.letter(id), To: dlq.Target{Kind: dlq.ToSaga}, Actor: "carla"}
}

// ends waits for the saga to be in a state, and returns it.
func (s *stranded) ends(id uuid.UUID, is func(doc map[string]any) bool) map[string]any {
	s.t.Helper()
	var doc map[string]any
	patience.Until(s.t, "the saga is in its state", func() bool {
		_, doc = call(s.t, "GET", s.url+"/api/v1/sagas/"+id.String(), "")
		return is(doc)
	})
	return doc
}

func isState(state string) func(map[string]any) bool {
	return func(doc map[string]any) bool { return doc["state"] == state }
}

func TestAFailedCompensationIsRetriedByItsLetter(t *testing.T) {
	t.Parallel()
	s := newStranded(t)
	id, letter := s.fail()
	l := s.letter(letter)
	want := l
	want.Status, want.CorrelationID, want.OriginalTopic = dlq.Pending, "order-7", "saga.pair.one.compensate"
	want.Link.SagaID, want.Link.StepName = id, "one"
	if diff := cmp.Diff(want, l); diff != "" {
		t.Fatalf("the letter (-want +got):\n%s", diff)
	}
	if _, err := s.letters.Get(t.Context(), uuid.New(), letter); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another tenant sees it: %v", err)
	}
	_, x := call(t, "GET", s.url+"/api/v1/sagas/"+id.String()+"/explain", "")
	if x["blocked_by"] != letter.String() || !strings.Contains(x["summary"].(string), letter.String()) {
		t.Errorf("explained: %v", x)
	}

	undos := s.undos.Load()
	if r := s.driver.Drive(t.Context(), []dlq.Drive{s.claimed(letter)}); !r[0].Accepted {
		t.Fatalf("%+v", r[0])
	}
	s.ends(id, func(doc map[string]any) bool { return doc["state"] == "failed" && s.undos.Load() == undos+1 })
	if l = s.letter(letter); l.Status != dlq.Pending || l.RetryCount != 1 {
		t.Fatalf("given up again, the letter is %s after %d retries", l.Status, l.RetryCount)
	}

	s.broken.Store(false)
	if r := s.driver.Drive(t.Context(), []dlq.Drive{s.claimed(letter)}); !r[0].Accepted {
		t.Fatalf("%+v", r[0])
	}
	doc := s.ends(id, isState("compensated"))
	if l = s.letter(letter); l.Status != dlq.Resolved || l.Resolution != dlq.Confirmed || doc["clean"] != true ||
		doc["dead_letter_id"] != nil {
		t.Errorf("the letter is %s %s, the saga %v", l.Status, l.Resolution, doc)
	}
	var retries string
	err := s.db.QueryRowContext(t.Context(), `SELECT string_agg(number || ' ' || outcome || ' ' || actor, ', ' ORDER BY number)
		FROM dlq.dlq_attempts WHERE message_id = $1`, letter).Scan(&retries)
	if err != nil || retries != "1 FAILED carla, 2 ACKNOWLEDGED carla" {
		t.Errorf("its retries: %s, %v", retries, err)
	}
}

func TestALetterOfASagaThroughTheAPI(t *testing.T) {
	t.Parallel()
	s := newStranded(t)
	verb := func(letter uuid.UUID, verb, body string) (int, map[string]any) {
		t.Helper()
		return call(t, "POST", s.url+"/api/v1/dlq/messages/"+letter.String()+"/"+verb, body)
	}
	id, letter := s.fail()
	if status, doc := verb(letter, "discard", `{"reason": "no"}`); status != 409 || doc["code"] != dlq.CodeSagaWaits {
		t.Errorf("discard while the saga waits: %d %v", status, doc)
	}
	s.broken.Store(false)
	if status, doc := verb(letter, "retry", `{"reason": "it is back"}`); status != 202 { // RETRYING, or already ended
		t.Fatalf("retry: %d %v", status, doc)
	}
	if doc := s.ends(id, isState("compensated")); doc["clean"] != true || s.letter(letter).Resolution != dlq.Confirmed {
		t.Errorf("the saga %v, the letter %s", doc, s.letter(letter).Resolution)
	}
	if status, doc := verb(letter, "retry", `{"force": true, "reason": "once more"}`); status != 409 {
		t.Errorf("retried once more: %d %v", status, doc)
	}
	s.broken.Store(true)
	id, letter = s.fail()
	if status, doc := verb(letter, "resolve", `{"reason": "by hand"}`); status != 200 || doc["resolution"] != "MANUAL" {
		t.Fatalf("resolve: %d %v", status, doc)
	}
	if doc := s.ends(id, isState("compensated")); doc["clean"] != true {
		t.Errorf("the saga %v", doc)
	}
	s.eachOfSeveralLetters(verb)
}

// A node that dies between the claim of a letter and the change of its saga leaves both
// unchanged, except for the counter.
func TestAClaimThatDidNotReachTheSagaIsReverted(t *testing.T) {
	t.Parallel()
	s := newStranded(t)
	id, letter := s.fail()
	s.claimed(letter)
	if _, err := s.db.ExecContext(t.Context(), `UPDATE dlq.dlq_messages SET retry_lease_until = now() - interval '1 second' WHERE id = $1`, letter); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "somebody takes the letter back", func() bool { return s.letter(letter).Status != dlq.Retrying })
	if l := s.letter(letter); l.Status != dlq.Pending || l.RetryCount != 1 {
		t.Errorf("the letter is %s after %d retries", l.Status, l.RetryCount)
	}
	s.broken.Store(false)
	if status, doc := call(t, "POST", s.url+"/api/v1/dlq/messages/"+letter.String()+"/retry", `{}`); status != 202 {
		t.Fatalf("retry: %d %v", status, doc)
	}
	s.ends(id, isState("compensated"))
}

func TestALetterOfASagaThatDoesNotWaitIsNotDriven(t *testing.T) {
	t.Parallel()
	s := newStranded(t)
	id, letter := s.fail()
	d := s.claimed(letter)
	s.broken.Store(false)
	if status, doc := call(t, "POST", s.url+"/api/v1/sagas/"+id.String()+"/resume-compensation", `{}`); status != 202 {
		t.Fatalf("resume: %d %v", status, doc)
	}
	s.ends(id, isState("compensated"))
	if l := s.letter(letter); l.Resolution != dlq.Confirmed {
		t.Fatalf("resumed by its own verb, the letter is %s %s", l.Status, l.Resolution)
	}
	other := d
	other.Link.SagaID, other.TenantID = uuid.New(), uuid.New()
	for i, r := range s.driver.Drive(t.Context(), []dlq.Drive{d, other}) {
		if r.Accepted || r.Outcome != dlq.FailedDrive || r.Error == "" {
			t.Errorf("%d: %+v", i, r)
		}
	}
	if _, err := s.db.ExecContext(t.Context(), `UPDATE dlq.dlq_messages SET status = 'PENDING' WHERE id = $1`, letter); err != nil {
		t.Fatal(err)
	}
	if l, err := s.driver.UndoneByHand(t.Context(), s.letter(letter), operator.By{Actor: "carla"}); err != nil ||
		l.Resolution != dlq.Manual ||
		s.letter(letter).Resolution != dlq.Manual {
		t.Errorf("a letter that no saga waits for is resolved alone: %s, %v", l.Status, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if r := s.driver.Drive(gone, []dlq.Drive{d})[0]; r.Accepted || r.Outcome != dlq.Withdrawn {
		t.Errorf("without a database: %+v", r)
	}
}

func TestAStepThatWasUndoneByHandLetsItsSagaGoOn(t *testing.T) {
	t.Parallel()
	s := newStranded(t)
	id, letter := s.fail()
	by := operator.By{Actor: "carla", Reason: "called the bank", RequestID: "r-1"}
	after, err := s.driver.UndoneByHand(t.Context(), s.letter(letter), by)
	if err != nil || after.Status != dlq.Resolved || after.Resolution != dlq.Manual {
		t.Fatalf("%+v, %v", after, err)
	}
	doc := s.ends(id, isState("compensated"))
	if doc["clean"] != true {
		t.Errorf("the saga: %v", doc)
	}
	var who string
	err = s.db.QueryRowContext(t.Context(), `
		SELECT a.actor || ' ' || a.verb || ' ' || a.reason || ' ' || a.request_id || ' ' || (l.response_payload ->> 'reason')
		  FROM saga.audit_actions a JOIN saga.saga_step_logs l ON l.saga_id = $1 AND l.status = 'SKIPPED' AND l.step_name = 'one'
		 WHERE a.subject = $2`, id, letter.String()).Scan(&who)
	if err != nil || who != "carla resolve called the bank r-1 called the bank" {
		t.Errorf("who did it: %s, %v", who, err)
	}
}

func TestALetterOfAWebhookRedeliversIt(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: testdb.DSN(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	hooks := eventdb.NewWebhooks(db, nil)
	now := func() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
	driver := &targets.Webhook{Webhooks: hooks, Deliveries: hooks, Now: now, NewID: uuid.New}
	tenant, url := uuid.New(), "https://example.com/events"
	hook, err := webhook.New(
		tenant,
		uuid.New(),
		webhook.Settings{URL: &url},
		[]byte("a key of thirty-two bytes length"),
		"op",
		now(),
	)
	if err != nil || hooks.Create(t.Context(), hook, false) != nil {
		t.Fatal(err)
	}
	d := webhook.Delivery{
		TenantID: tenant, WebhookID: hook.ID, ID: uuid.New(), EventID: 7, EventType: "saga.failed", Body: []byte(`{}`),
		Status: webhook.Pending, DueAt: now(), CreatedAt: now(),
	}
	if err := hooks.Add(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if _, err := db.SQL().ExecContext(t.Context(), `UPDATE saga.webhook_deliveries SET status = 'failed', ended_at = now()`); err != nil {
		t.Fatal(err)
	}
	letter := dlq.Drive{Letter: dlq.Letter{TenantID: tenant, Link: dlq.Link{WebhookID: hook.ID, DeliveryID: d.ID}}}
	drive := func() dlq.Result { return driver.Drive(t.Context(), []dlq.Drive{letter})[0] }
	if r := drive(); !r.Accepted {
		t.Errorf("%+v", r)
	}
	if d, err = hooks.Delivery(t.Context(), tenant, hook.ID, d.ID); err != nil || d.Status != webhook.Pending {
		t.Errorf("the delivery is %s, %v", d.Status, err)
	}
	off, err := hook.With(webhook.Settings{Enabled: new(false)}, now())
	if err != nil || hooks.Replace(t.Context(), off, false) != nil {
		t.Fatal(err)
	}
	if r := drive(); r.Accepted || r.Outcome != dlq.Withdrawn || !strings.Contains(r.Error, "enable it first") {
		t.Errorf("a disabled webhook: %+v", r)
	}
	if err := hooks.Delete(t.Context(), tenant, hook.ID, 0); err != nil {
		t.Fatal(err)
	}
	if r := drive(); r.Accepted || r.Outcome != dlq.FailedDrive || r.Error == "" {
		t.Errorf("a webhook that is gone: %+v", r)
	}
}
