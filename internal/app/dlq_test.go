package app_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestANodeRetriesLettersByItselfUntilTheirTargetHasThem(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) <= 2 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer target.Close()
	n := start(t, testdb.DSN(t), "a", func(c *config.Config) {
		c.DLQ.AutoRetry = true
		c.DLQ.InitialInterval, c.DLQ.MaxInterval, c.DLQ.PollInterval, c.DLQ.MaxRetries = 10*time.Millisecond,
			10*time.Millisecond, 10*time.Millisecond, 5
	})
	status, doc := call(
		t,
		"POST",
		n.url+"/api/v1/dlq/messages",
		`{"original_topic":"orders","error_message":"boom","payload":{"n":1},"target":{"kind":"http","url":"`+target.URL+`"}}`,
	)
	if status != 201 || doc["max_retries"] != 5.0 || doc["next_retry_at"] == nil {
		t.Fatalf("push: %d %v", status, doc)
	}
	at := n.url + "/api/v1/dlq/messages/" + doc["id"].(string)
	patience.Until(t, "the letter is resolved", func() bool {
		_, doc = call(t, "GET", at+"?include=attempts", "")
		return doc["status"] == "RESOLVED"
	})
	if attempts, _ := doc["attempts"].([]any); doc["retry_count"] != 2.0 || doc["resolution"] != "REDRIVEN" ||
		len(attempts) != 3 ||
		calls.Load() != 3 {
		t.Errorf("%d calls: %v", calls.Load(), doc)
	}
	// Without brokers, nothing is changed or lost.
	_, doc = call(t, "POST", n.url+"/api/v1/dlq/messages", `{"original_topic":"orders","error_message":"boom"}`)
	if status, doc := call(t, "POST", n.url+"/api/v1/dlq/messages/"+doc["id"].(string)+"/retry", ""); status != 503 ||
		doc["code"] != "DLQ_NO_KAFKA" {
		t.Errorf("without brokers: %d %v", status, doc)
	}
}

func TestAFailedCompensationIsDealtWithOverTheAPI(t *testing.T) {
	t.Parallel()
	s := newStranded(t)
	retried, letter := s.fail()
	at := s.url + "/api/v1/dlq/messages/" + letter.String()
	if status, doc := call(t, "POST", at+"/discard", `{"reason":"gone"}`); status != 409 ||
		doc["code"] != "DLQ_SAGA_WAITS" {
		t.Errorf("discard: %d %v", status, doc)
	}
	s.broken.Store(false)
	if status, doc := call(t, "POST", at+"/retry", `{"reason":"the shop is back"}`); status != 202 {
		t.Fatalf("retry: %d %v", status, doc)
	}
	s.ends(retried, isState("compensated"))
	if _, doc := call(t, "GET", at, ""); doc["status"] != "RESOLVED" || doc["resolution"] != "CONFIRMED" {
		t.Errorf("after the retry: %v", doc)
	}
	s.broken.Store(true)
	undone, letter := s.fail()
	at = s.url + "/api/v1/dlq/messages/" + letter.String()
	if status, doc := call(t, "POST", at+"/resolve", `{"reason":"refunded by hand"}`); status != 200 ||
		doc["resolution"] != "MANUAL" {
		t.Fatalf("resolve: %d %v", status, doc)
	}
	if doc := s.ends(undone, isState("compensated")); doc["dead_letter_id"] != nil {
		t.Errorf("%v", doc)
	}
}
