package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/event/eventdb"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// receiver is an endpoint as described in docs/webhooks.md: it verifies signatures, drops
// duplicates, and fails the first attempts of every delivery.
type receiver struct {
	*httptest.Server
	t        *testing.T
	failures int

	mu       sync.Mutex
	secrets  []string
	attempts map[string]int            // by webhook-id
	bodies   map[string]string         // by webhook-id: the same in every attempt
	events   map[string]map[string]any // data of accepted events, by event id
	copies   map[string]int            // accepted copies, by event id
	changed  chan struct{}
}

func newReceiver(t *testing.T, failures int) *receiver {
	r := &receiver{
		t: t, failures: failures, attempts: map[string]int{}, bodies: map[string]string{},
		events: map[string]map[string]any{}, copies: map[string]int{}, changed: make(chan struct{}, 1),
	}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		return // the sender has left
	}
	id := req.Header.Get(webhooks.HeaderID)
	if err := webhooks.Verify(r.secrets, req.Header, body, time.Now()); err != nil {
		r.t.Errorf("%s: %v", id, err)
	}
	if got := req.Header.Get("Content-Type"); got != "application/cloudevents+json; charset=utf-8" {
		r.t.Errorf("Content-Type %q", got)
	}
	if before, again := r.bodies[id]; again && before != string(body) {
		r.t.Errorf("%s came with another body:\n%s\n%s", id, before, body)
	}
	r.bodies[id] = string(body)
	if r.attempts[id]++; r.attempts[id] <= r.failures {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	var doc struct {
		ID   string         `json:"id"`
		Data map[string]any `json:"data"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		r.t.Errorf("%s: %v", id, err)
	}
	r.events[doc.ID] = doc.Data
	r.copies[doc.ID]++
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// wait returns when n events have been accepted.
func (r *receiver) wait(n int) {
	r.t.Helper()
	patience.Until(r.t, fmt.Sprintf("%d events come", n), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.events) >= n
	})
}

// subscribe registers the receiver and returns the webhook's path.
func (r *receiver) subscribe(base string) string {
	r.t.Helper()
	status, doc := call(r.t, "POST", base+"/api/v1/webhooks", `{"url": "`+r.URL+`"}`)
	if status != http.StatusCreated {
		r.t.Fatalf("subscribe: %d %v", status, doc)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, doc["secret"].(string))
	return "/api/v1/webhooks/" + doc["id"].(string)
}

// quickRetries makes nodes retry after milliseconds.
func quickRetries(c *config.Config) {
	c.Webhooks.InitialInterval, c.Webhooks.MaxInterval = 20*time.Millisecond, 100*time.Millisecond
}

// registerPair registers the workflow of two steps at a participant that refuses on request.
func registerPair(t *testing.T, base string) {
	t.Helper()
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); r.URL.Path == "/two" && strings.Contains(string(body), `"refuse":true`) {
			w.WriteHeader(http.StatusConflict)
		}
		io.WriteString(w, `{"card":"4111-card"}`)
	}))
	t.Cleanup(participant.Close)
	if status, doc := call(t, "POST", base+"/api/v1/workflows",
		strings.ReplaceAll(twoSteps, "URL", participant.URL)); status != http.StatusCreated {
		t.Fatalf("register: %d %v", status, doc)
	}
}

// runSagas runs sagas until they end; every third saga fails.
func runSagas(t *testing.T, base string, n int) {
	t.Helper()
	last := map[any]bool{} // the sagas whose last event is not in the feed yet
	for i := range n {
		_, doc := call(
			t,
			"POST",
			base+"/api/v1/sagas?wait=4m",
			fmt.Sprintf(`{"workflow_name": "pair", "correlation_id": "c%d", "payload": {"refuse": %t}}`, i, i%3 == 2),
		)
		if doc["completed_at"] == nil {
			t.Fatalf("saga %d: %v", i, doc)
		}
		last[doc["saga_id"]] = true
	}
	// The feed returns an event once every transaction that began before its own has ended.
	patience.Until(t, "the feed has every event", func() bool {
		for _, e := range happened(t, base) {
			if s := e["status"]; s == "COMPLETED" || s == "FAILED" {
				delete(last, e["saga_id"])
			}
		}
		return len(last) == 0
	})
}

// happened returns every audit event of the tenant, in order, as receivers get them.
func happened(t *testing.T, base string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for cursor := ""; ; {
		_, doc := call(t, "GET", base+"/api/v1/saga-events?page_size=200"+cursor, "")
		events := doc["events"].([]any)
		for _, e := range events {
			e := e.(map[string]any)
			delete(e, "cursor")
			if failure, _ := e["error"].(map[string]any); failure != nil {
				delete(failure, "details")
			}
			all = append(all, e)
		}
		if len(events) == 0 {
			return all
		}
		cursor = "&cursor=" + doc["pagination"].(map[string]any)["next_cursor"].(string)
	}
}

func TestAWebhookGetsEveryEventThoughItFailsAndNodesComeAndGo(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	a, b := start(t, dsn, "a", quickRetries), start(t, dsn, "b", quickRetries)
	r := newReceiver(t, 3)
	registerPair(t, a.url)
	path := r.subscribe(b.url)
	runSagas(t, a.url, 3)
	r.wait(1)
	if err := a.stop(); err != nil { // in the middle of its work
		t.Errorf("stop: %v", err)
	}
	runSagas(t, b.url, 4)
	c := start(t, dsn, "c", quickRetries)
	runSagas(t, c.url, 2)
	want := happened(t, c.url)
	r.wait(len(want))

	for _, e := range want {
		if diff := cmp.Diff(e, r.events[e["id"].(string)]); diff != "" {
			t.Errorf("an event reads otherwise (-API +webhook):\n%s", diff)
		}
	}
	if len(r.events) != len(want) || len(r.bodies) != len(want) {
		t.Errorf("%d events under %d webhook-ids came; %d happened", len(r.events), len(r.bodies), len(want))
	}
	for id, n := range r.copies {
		if n > 1 {
			t.Logf("event %s was accepted %d times, under one webhook-id", id, n) // a stop may cause a second copy
		}
	}
	for id, body := range r.bodies {
		if strings.Contains(body, "4111-card") {
			t.Errorf("%s holds what a participant answered: %s", id, body)
		}
	}
	for { // the last outcome is stored shortly after the delivery was accepted
		_, pending := call(t, "GET", c.url+path+"/deliveries?status=pending", "")
		if pending["pagination"].(map[string]any)["total_count"] != 0.0 {
			continue
		}
		_, doc := call(t, "GET", c.url+path+"/deliveries?page_size=200", "")
		for _, d := range doc["deliveries"].([]any) {
			if d := d.(map[string]any); d["status"] != "delivered" || d["attempts"].(float64) < 4 ||
				d["response_status"] != 200.0 {
				t.Errorf("delivery %v", d)
			}
		}
		break
	}
	if _, doc := call(t, "GET", c.url+path, ""); doc["enabled"] != true || doc["failing_since"] != nil ||
		doc["version"] != 1.0 {
		t.Errorf("the webhook is %v", doc)
	}
	res, err := http.Get(c.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if metrics, _ := io.ReadAll(res.Body); !strings.Contains(
		string(metrics),
		`skald_webhook_attempts_total{result="delivered"}`,
	) {
		t.Error("the metrics lack the deliveries")
	}
}

func TestWhatADeadNodeHadClaimedIsSentByAnother(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	// It creates and claims deliveries, and then disappears.
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store := eventdb.NewWebhooks(db, nil)
	r := newReceiver(t, 0)
	a := start(t, dsn, "a", quickRetries)
	registerPair(t, a.url)
	path := r.subscribe(a.url)
	id := uuid.MustParse(strings.TrimPrefix(path, "/api/v1/webhooks/"))
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	b := start(t, dsn, "b", func(c *config.Config) { // creates deliveries, and cannot send them
		c.Egress.Deny = []string{strings.TrimPrefix(r.URL, "http://")}
		c.Webhooks.InitialInterval, c.Webhooks.MaxInterval = 2*time.Second, 2*time.Second
	})
	runSagas(t, b.url, 2)
	want := happened(t, b.url)
	tenant := config.Default(config.Test).Tenant.DefaultID
	patience.Until(t, fmt.Sprintf("%d deliveries are made", len(want)), func() bool {
		_, doc := call(t, "GET", b.url+path+"/deliveries", "")
		return doc["pagination"].(map[string]any)["total_count"] == float64(len(want))
	})
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	sub, err := store.Get(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := store.Claim(t.Context(), &sub, time.Now().Add(time.Minute), time.Second, 1000)
	if err != nil || len(claimed) != len(want) {
		t.Fatalf("claimed %d of %d, %v", len(claimed), len(want), err)
	}
	start(t, dsn, "c", quickRetries)
	r.wait(len(want))
	for _, d := range claimed {
		if n := r.attempts[d.ID.String()]; n != 1 || r.events[fmt.Sprint(d.EventID)]["event_type"] != d.EventType {
			t.Errorf("%s came %d times", d.ID, n)
		}
	}
	if !strings.Contains(b.logs.String(), "egress denied") {
		t.Error("that egress was denied was not logged")
	}
}
