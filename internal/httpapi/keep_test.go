package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// outage is a store of webhooks whose Create fails while fails is set.
type outage struct {
	webhook.Store
	fails bool
	began chan struct{} // nil: not used
	goOn  chan struct{}
}

func (o *outage) Create(ctx context.Context, s webhook.Subscription, fromBeginning bool) error {
	if o.began != nil {
		o.began <- struct{}{}
		<-o.goOn
	}
	if o.fails {
		return errors.New("the disk is full")
	}
	return o.Store.Create(ctx, s, fromBeginning)
}

const hookBody = `{"url":"https://example.com/hook"}`

// Requirement API Idempotency: requests that fail or are refused use up no key.
func TestFailedRequestLeavesItsKeyFree(t *testing.T) {
	t.Parallel()
	store := &outage{fails: true}
	e := apitest.NewEdge(t, func(c *httpapi.Config) { store.Store, c.Webhooks.Store = c.Webhooks.Store, store })
	send := func(path, body, key string) apitest.Reply {
		return e.Send("POST", path, body, "Idempotency-Key", key)
	}
	send("/api/v1/webhooks", hookBody, "a").Wants(http.StatusServiceUnavailable, "SYS_UNAVAILABLE")
	store.fails = false
	send("/api/v1/webhooks", `{"url":"nowhere"}`, "a").Wants(http.StatusUnprocessableEntity, "WEBHOOK_INVALID")
	send("/api/v1/webhooks", `{"uri":1}`, "a").Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	first := send("/api/v1/webhooks", hookBody, "a")
	if first.Status != http.StatusCreated {
		t.Fatalf("%d %s", first.Status, first.Body)
	}
	send("/api/v1/webhooks", hookBody, "a").Wants(http.StatusConflict, "REQ_IDEMPOTENCY_ANSWER_NOT_KEPT")

	verb := first.Header.Get("Location") + "/disable"
	once := send(verb, `{"reason":"noise"}`, "a") // on another route it is another key
	again := send(verb, `{"reason":"noise"}`, "a")
	if once.Status != http.StatusOK || again.Status != once.Status || string(again.Body) != string(once.Body) ||
		again.Header.Get("ETag") != once.Header.Get("ETag") || again.Header.Get("Idempotent-Replayed") != "true" ||
		once.Header.Get("Idempotent-Replayed") != "" {
		t.Errorf("%d %v %s\n%d %v %s", once.Status, once.Header, once.Body, again.Status, again.Header, again.Body)
	}
	send(verb, `{"reason":"other"}`, "a").Wants(http.StatusUnprocessableEntity, "REQ_IDEMPOTENCY_KEY_REUSED")
}

func TestKeyOfARequestInProgressIsInUse(t *testing.T) {
	t.Parallel()
	store := &outage{began: make(chan struct{}), goOn: make(chan struct{})}
	e := apitest.NewEdge(t, func(c *httpapi.Config) { store.Store, c.Webhooks.Store = c.Webhooks.Store, store })
	done := make(chan int)
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", e.URL+"/api/v1/webhooks", strings.NewReader(hookBody))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "a")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			done <- 0
			return
		}
		defer res.Body.Close()
		done <- res.StatusCode
	}()
	<-store.began
	r := e.Send("POST", "/api/v1/webhooks", hookBody, "Idempotency-Key", "a")
	close(store.goOn)
	if r.Wants(http.StatusConflict, "REQ_IDEMPOTENCY_KEY_IN_USE"); r.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if status := <-done; status != http.StatusCreated {
		t.Errorf("the first: %d", status)
	}
}
