package jobapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
)

func TestEventsArePublishedReadAndListed(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	publish := func(body string, status int) client.JobEventRecord {
		t.Helper()
		r := e.Send("POST", "/api/v1/events", body)
		if r.Status != status {
			t.Fatalf("%s: %d %s", body, r.Status, r.Body)
		}
		var out client.JobEventRecord
		r.Into(&out)
		return out
	}
	first := publish(`{"event_type":"order.paid","payload":{"n":1},"dedupe_key":"k","correlation_id":"c","occurred_at":"2026-01-02T03:04:05Z"}`, http.StatusAccepted)
	if again := publish(`{"event_type":"order.paid","payload":{"n":2},"dedupe_key":"k"}`, http.StatusOK); again.EventID != first.EventID {
		t.Errorf("the second one is %s", again.EventID)
	}
	for payload, differs := range map[string]bool{`{"n":1}`: false, `{"n":1e0}`: false, `{"n":2}`: true,
		`{"n":1,"m":0}`: true, `[1]`: true, `null`: true} {
		r := e.Send("POST", "/api/v1/events", `{"event_type":"order.paid","dedupe_key":"k","payload":`+payload+`}`)
		var again client.JobEventRecord
		if r.Into(&again); r.Status != 200 || again.Duplicate == nil || (again.PayloadDiffers != nil) != differs ||
			r.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("the same key with %s: %d %s", payload, r.Status, r.Body)
		}
	}
	publish(`{"event_type":"order.sent"}`, http.StatusAccepted)
	r := e.Send("GET", "/api/v1/events/"+first.EventID.String(), "")
	if body := strings.ReplaceAll(string(r.Body), " ", ""); r.Status != http.StatusOK ||
		!strings.Contains(body, `"payload":{"n":1}`) || !strings.Contains(body, `"occurred_at":"2026-01-02T03:04:05Z"`) {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	var list client.JobEventRecordList
	for query, want := range map[string]int{"": 2, "?event_type=order.paid": 1, "?correlation_id=c": 1,
		"?processed=true": 0, "?processed=false": 2} {
		r := e.Send("GET", "/api/v1/events"+query, "")
		if r.Into(&list); r.Status != http.StatusOK || len(list.Events) != want {
			t.Errorf("%s: %d %s", query, r.Status, r.Body)
		}
	}
	r = e.Send("GET", "/api/v1/events?page_size=1", "")
	r.Into(&list)
	if len(list.Events) != 1 || list.Pagination.NextCursor == nil {
		t.Fatalf("%s", r.Body)
	}
	r = e.Send("GET", "/api/v1/events?page_size=1&cursor="+*list.Pagination.NextCursor, "")
	if r.Into(&list); len(list.Events) != 1 || list.Events[0].EventID != first.EventID {
		t.Errorf("the second page is %s", r.Body)
	}
	e.Send("GET", "/api/v1/events/"+uuid.NewString(), "").Wants(http.StatusNotFound, "JOB_EVENT_NOT_FOUND")
	e.Send("POST", "/api/v1/events", `{"event_type":"order.*"}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
}
