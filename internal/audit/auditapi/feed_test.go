package auditapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/patience"
)

const sagaEvents = "/api/v1/saga-events"

// story returns a short form of events.
func story(events []client.AuditEvent) string {
	var out []string
	for _, e := range events {
		line := string(e.EventType)
		if e.StepName != nil {
			line += " " + *e.StepName
		}
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

const story1 = "saga.started, saga.step.started reserve, saga.step.completed reserve, saga.completed"

func TestTheHistoryOfASagaReadsForwardsAndBackwards(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	s := e.Done(`{"workflow_name":"order","correlation_id":"c-1","business_key":"k-1","initiated_by":"ann"}`)
	path := apitest.SagasPath + "/" + s.SagaID.String() + "/events"
	all := e.Events(path)
	if got := story(all.Events); got != story1 || all.Pagination.HasNext || all.Pagination.NextCursor != nil {
		t.Fatalf("history = %s, pagination %+v", got, all.Pagination)
	}
	first := all.Events[0]
	want := first
	want.OldState, want.NewState, want.Status = nil, new(client.SagaStatePending), new(client.SagaStatusSTARTED)
	want.CorrelationID, want.BusinessKey, want.WorkflowName = new("c-1"), new("k-1"), new("order")
	if diff := cmp.Diff(want, first); diff != "" || first.RequestID == nil {
		t.Errorf("the first event, of request %v (-want +got):\n%s", first.RequestID, diff)
	}
	step := all.Events[1]
	if *step.StepID != s.SagaID.String()+":0" || *step.StepIndex != 0 || *step.OldState != "pending" ||
		*step.NewState != "running" {
		t.Errorf("the event of a step = %+v", step)
	}
	// Read page by page, in both orders.
	for _, order := range []string{"asc", "desc"} {
		var got []client.AuditEvent
		query := "?page_size=3&order=" + order
		for cursor := ""; ; {
			page := e.Events(path + query + cursor)
			got = append(got, page.Events...)
			if !page.Pagination.HasNext {
				break
			}
			cursor = "&cursor=" + *page.Pagination.NextCursor
		}
		if order == "desc" {
			slices.Reverse(got)
		}
		if story(got) != story1 {
			t.Errorf("%s, three by three: %s", order, story(got))
		}
	}
	if got := story(e.Events(path + "?event_type=saga.completed&event_type=saga.started").Events); got != "saga.started, saga.completed" {
		t.Errorf("two types: %s", got)
	}
	// A page may start after any event.
	if got := story(e.Events(path + "?cursor=" + all.Events[1].Cursor).Events); got != "saga.step.completed reserve, saga.completed" {
		t.Errorf("after the second event: %s", got)
	}
	if r := e.Send("GET", path+"?order=desc&cursor="+all.Events[1].Cursor, ""); r.Status != http.StatusBadRequest {
		t.Errorf("a cursor of the other order: %d", r.Status)
	}
	e.Send("GET", apitest.SagasPath+"/0192f0c1-0000-7000-8000-000000000009/events", "").Wants(http.StatusNotFound, "SAGA_NOT_FOUND")
	if got := e.Events(path + "?event_type=saga.failed"); len(got.Events) != 0 {
		t.Errorf("events of a type that it does not have: %s", story(got.Events))
	}
}

func TestFeedContinuesWhereItEnded(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	empty := e.Events(sagaEvents)
	if len(empty.Events) != 0 || empty.Pagination.HasNext || empty.Pagination.NextCursor == nil {
		t.Fatalf("an empty feed: %+v", empty)
	}
	cursor := *empty.Pagination.NextCursor
	var got []client.AuditEvent
	for i := range 3 {
		e.Done(fmt.Sprintf(`{"workflow_name":"order","correlation_id":"%d"}`, i))
		for more := true; more; {
			page := e.Events(sagaEvents + "?page_size=3&cursor=" + cursor)
			got = append(got, page.Events...)
			cursor, more = *page.Pagination.NextCursor, page.Pagination.HasNext
			if more != (len(page.Events) == 3) {
				t.Errorf("%d events, has_next %v", len(page.Events), more)
			}
		}
	}
	if story(got) != strings.Join([]string{story1, story1, story1}, ", ") {
		t.Errorf("the feed tells: %s", story(got))
	}
	if diff := cmp.Diff(got, e.Events(sagaEvents+"?page_size=200").Events); diff != "" {
		t.Errorf("in pieces and at once (-pieces +once):\n%s", diff)
	}
	after := e.Events(sagaEvents + "?page_size=200&cursor=" + got[8].Cursor + "&event_type=saga.completed")
	if story(after.Events) != "saga.completed" {
		t.Errorf("after an event, with another filter: %s", story(after.Events))
	}
}

func TestEveryFilterOfTheFeedSelects(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	e.Register("refund", "pay")
	a := e.Done(`{"workflow_name":"order"}`)
	e.Start(`{"workflow_name":"refund"}`, "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	e.Node.Rest()
	all := e.Events(sagaEvents + "?page_size=200").Events
	at := func(i int) string { return url.QueryEscape(all[i].Timestamp.Format(time.RFC3339Nano)) }
	refund := "saga.started, saga.step.started pay, saga.step.completed pay, saga.completed"
	for query, want := range map[string]string{
		"workflow_name=refund":                               refund,
		"saga_id=" + a.SagaID.String():                       story1,
		"trace_id=4bf92f3577b34da6a3ce929d0e0e4736":          refund,
		"event_type=saga.completed&workflow_name=order":      "saga.completed",
		"event_type=saga.started&event_type=retry.exhausted": "saga.started, saga.started",
		"actor=nobody":           "",
		"actor=" + *all[0].Actor: "saga.started, saga.started",
		"from=" + at(6):          story(all[6:]),
		"to=" + at(2):            story(all[:2]),
	} {
		if got := story(e.Events(sagaEvents + "?page_size=200&" + query).Events); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for _, query := range []string{
		"event_type=saga.exploded", "event_type=", "saga_id=1", "saga_id=00000000-0000-0000-0000-000000000000", "from=yesterday", "to=0001-01-01T00:00:00Z",
		"page_size=0", "page_size=201", "page=1", "cursor=abc", "cursor=" + a.SagaID.String(), "wait=soon", "wait=-1s",
		"workflow_name=", "include=total", "colour=red",
	} {
		for _, path := range []string{sagaEvents, sagaEvents + "/stream"} {
			if r := e.Send("GET", path+"?"+query, ""); r.Status != http.StatusBadRequest {
				t.Errorf("%s?%s: %d %s", path, query, r.Status, r.Body)
			}
		}
	}
}

func TestFeedWaitsForMatchingEvents(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	cursor := *e.Events(sagaEvents).Pagination.NextCursor
	answered := make(chan client.AuditEventList)
	go func() { answered <- e.Events(sagaEvents + "?wait=10s&event_type=saga.completed&cursor=" + cursor) }()
	s := e.Start(`{"workflow_name":"order"}`)
	e.Tail.Wake()
	if got := <-answered; story(got.Events) != "saga.completed" || got.Events[0].SagaID != s.SagaID {
		t.Errorf("waited for %s", story(got.Events))
	}
	begun := time.Now()
	if got := e.Events(sagaEvents + "?wait=50ms&actor=nobody"); len(got.Events) != 0 || got.Pagination.HasNext {
		t.Errorf("after the wait: %+v", got)
	}
	if due := begun.Add(50 * time.Millisecond); time.Now().Before(due) {
		t.Error("a wait of 50 ms was over before")
	}
}

func TestAWaitForEventsEndsWhenTheServerStops(t *testing.T) {
	stopping := make(chan struct{})
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.Stopping, c.Limits.MaxWait = stopping, time.Hour })
	time.AfterFunc(20*time.Millisecond, func() { close(stopping) })
	answered := make(chan client.AuditEventList)
	go func() { answered <- e.Events(sagaEvents + "?wait=1h") }()
	patience.Receive(t, "it is answered long before its wait ends", answered)
}

func TestAPIVerifiesTheTrail(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	verify := func(query string) (v client.AuditVerification) {
		t.Helper()
		r := e.Send("GET", "/api/v1/audit/verify?"+query, "")
		if r.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", query, r.Status, r.Body)
		}
		r.Into(&v)
		return v
	}
	if v := verify(""); !v.Ok || v.CheckedSeals != 0 || *v.UnsealedEvents != 0 {
		t.Errorf("nothing: %+v", v)
	}
	for range 3 {
		e.Done(`{"workflow_name":"order"}`)
		if n, err := e.Store.Trail.Seal(t.Context(), apitest.Tenant.ID); err != nil || n != 4 {
			t.Fatalf("sealed %d, %v", n, err)
		}
	}
	e.Done(`{"workflow_name":"order"}`)
	v := verify("limit=2")
	want := client.AuditVerification{Ok: true, CheckedSeals: 2, CheckedEvents: 8, NextSeq: new(int64(3)), Head: v.Head}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("two seals (-want +got):\n%s", diff)
	}
	if v.Head.Seq != 2 {
		t.Errorf("the head is seal %d, want 2", v.Head.Seq)
	}
	if v := verify("from_seq=3"); !v.Ok || v.CheckedSeals != 1 || v.NextSeq != nil || *v.UnsealedEvents != 4 {
		t.Errorf("the last seal: %+v", v)
	}
	third := verify("from_seq=3").Head.Hash
	for _, tt := range []struct {
		query   string
		ok      bool
		bad     int64 // the seal that is reported
		checked int
		head    int64
	}{
		{"kept=2:" + v.Head.Hash, true, 0, 1, 3},
		{"kept=3:" + third, true, 0, 0, 3}, // the newest seal: nothing follows it
		{"kept=2:" + v.Head.Hash + "&from_seq=1", true, 0, 3, 3},
		{"kept=1:" + v.Head.Hash, false, 1, 1, 1}, // the hash of another seal
		{"kept=3:" + v.Head.Hash + "&from_seq=1", false, 3, 1, 3},
		{"kept=4:" + third, false, 4, 0, 0}, // the chain is shorter
		{"kept=999999999999999999:" + third, false, 999999999999999999, 0, 0},
	} {
		v := verify(tt.query)
		var bad, head int64
		if v.FirstBad != nil && v.FirstBad.Seq != nil {
			bad = *v.FirstBad.Seq
		}
		if v.Head != nil {
			head = v.Head.Seq
		}
		if v.Ok != tt.ok || bad != tt.bad || v.CheckedSeals != tt.checked || head != tt.head {
			t.Errorf("%s: %+v, want %+v", tt.query, v, tt)
		}
	}
	for _, query := range []string{"from_seq=0", "from_seq=x", "limit=0", "limit=1001", "seq=1", "kept=2", "kept=" + third,
		"kept=0:" + third, "kept=9999999999999999999:" + third, "kept=2:" + strings.ToUpper(third), "kept=:"} {
		if r := e.Send("GET", "/api/v1/audit/verify?"+query, ""); r.Status != http.StatusBadRequest {
			t.Errorf("%s: %d", query, r.Status)
		}
	}
}
