package auditapi_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/patience"
)

func TestStreamStartsNowAtTheBeginningOrAfterAnID(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	e.Done(`{"workflow_name":"order"}`)
	now := e.Follow(e.URL + sagaEvents + "/stream")
	start := now.ID
	if start == "" {
		t.Error("a stream that begins now says where: else its client could not resume before the first event")
	}
	second := e.Done(`{"workflow_name":"order"}`)
	e.Tail.Wake()
	got := now.Events(4)
	if story(got) != story1 || got[0].SagaID != second.SagaID {
		t.Errorf("from now on: %s", story(got))
	}
	all := e.Events(sagaEvents + "?page_size=200").Events
	begin := e.Follow(e.URL + sagaEvents + "/stream?from_start=true")
	if diff := cmp.Diff(all, begin.Events(8)); diff != "" {
		t.Errorf("from the beginning (-feed +stream):\n%s", diff)
	}
	for name, l := range map[string]*apitest.Live{
		"the first id":                 e.Follow(e.URL+sagaEvents+"/stream", "Last-Event-ID", start),
		"an id that wins over a query": e.Follow(e.URL+sagaEvents+"/stream?cursor="+all[7].Cursor, "Last-Event-ID", start),
		"the feed's cursor":            e.Follow(e.URL + sagaEvents + "/stream?cursor=" + all[3].Cursor),
		"with a filter":                e.Follow(e.URL + sagaEvents + "/stream?from_start=true&saga_id=" + second.SagaID.String()),
	} {
		if diff := cmp.Diff(all[4:], l.Events(4)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	e.Send("GET", sagaEvents+"/stream", "", "Last-Event-ID", "made up").Wants(http.StatusBadRequest,
		"REQ_INVALID_PARAMETER")
	e.Send("GET", sagaEvents+"/stream?from_start=true&cursor="+start, "").Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	if r := e.Send("HEAD", sagaEvents+"/stream", ""); r.Status != http.StatusOK {
		t.Errorf("HEAD: %d", r.Status)
	}
}

func TestStreamMissesNothingBesideSixteenWriters(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve", "pay")
	l := e.Follow(e.URL + sagaEvents + "/stream")
	var writers sync.WaitGroup
	const each = 5
	for range 16 {
		writers.Go(func() {
			for range each {
				r := e.Send("POST", apitest.SagasPath, `{"workflow_name":"order"}`)
				if r.Status != http.StatusCreated {
					t.Errorf("create: %d", r.Status)
				}
				e.Tail.Wake()
			}
		})
	}
	writers.Wait()
	var want []client.AuditEvent
	patience.Until(t, "all sagas have ended", func() bool {
		want = nil
		for cursor := ""; ; {
			page := e.Events(sagaEvents + "?page_size=200" + cursor)
			want = append(want, page.Events...)
			if !page.Pagination.HasNext {
				return len(want) >= 16*each*6
			}
			cursor = "&cursor=" + *page.Pagination.NextCursor
		}
	})
	late := e.Follow(e.URL + sagaEvents + "/stream?from_start=true")
	last := e.Start(`{"workflow_name":"order"}`).SagaID
	e.Tail.Wake()
	for name, l := range map[string]*apitest.Live{"beside the writers": l, "after them": late} {
		var got []client.AuditEvent
		for { // up to the last expected event, so that a gap is detected immediately
			next := l.Events(1)[0]
			if next.SagaID == last {
				break
			}
			got = append(got, next)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-feed +stream):\n%s", name, diff)
		}
	}
}

func TestIdleStreamSendsHeartbeatsWithItsPosition(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.Limits.StreamSilence = 20 * time.Millisecond })
	e.Register("order", "reserve")
	l := e.Follow(e.URL + sagaEvents + "/stream?event_type=saga.failed")
	start := l.ID
	if m := l.Next(); m.Comment == "" || m.ID != "" || m.Event != "" {
		t.Errorf("silence is broken with %+v", m)
	}
	e.Done(`{"workflow_name":"order"}`)
	e.Tail.Wake()
	for l.ID == start {
		if m := l.Next(); m.Event != "" || m.Over {
			t.Fatalf("got %+v", m)
		}
	}
	if got := e.Events(sagaEvents + "?cursor=" + l.ID); len(got.Events) != 0 {
		t.Errorf("after the id of a stream that nothing fitted: %s", story(got.Events))
	}
}

func TestStreamEndsWithAHintOnShutdownOrMaximumAge(t *testing.T) {
	stopping := make(chan struct{})
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.Stopping = stopping })
	young := apitest.NewEdge(t, func(c *httpapi.Config) { c.Limits.StreamAge = 20 * time.Millisecond })
	l, old := e.Follow(e.URL+sagaEvents+"/stream"), young.Follow(young.URL+sagaEvents+"/stream")
	close(stopping)
	for name, l := range map[string]*apitest.Live{"the server stops": l, "it is old": old} {
		if m := l.Next(); m.Comment != "connect again" {
			t.Errorf("%s: %+v", name, m)
		}
		if m := l.Next(); !m.Over {
			t.Errorf("%s: after the hint comes %+v", name, m)
		}
	}
}

func TestNumberOfStreamsIsLimited(t *testing.T) {
	var mu sync.Mutex
	open := 0
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		c.Limits.MaxStreams = 2
		c.Trail.Streams = func(n int) { mu.Lock(); open = n; mu.Unlock() }
	})
	first := e.Follow(e.URL + sagaEvents + "/stream")
	e.Follow(e.URL + sagaEvents + "/stream")
	r := e.Send("GET", sagaEvents+"/stream", "")
	r.Wants(http.StatusTooManyRequests, "REQ_TOO_MANY_STREAMS")
	if r.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	first.Stop()
	patience.Until(t, "the server has seen that the client left", func() bool {
		return e.Send("HEAD", sagaEvents+"/stream", "").Status == http.StatusOK
	})
	mu.Lock()
	defer mu.Unlock()
	if open > 2 {
		t.Errorf("%d streams are said to be open", open)
	}
}

func TestStreamOutlivesTheServersTimeouts(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.Limits.StreamSilence = 20 * time.Millisecond })
	const timeout = 50 * time.Millisecond
	l := e.Follow(e.Serve(timeout) + sagaEvents + "/stream")
	for n := range 10 { // silence for four timeouts
		if m := l.Next(); m.Over {
			t.Fatalf("the stream ended after %d messages", n)
		}
	}
}

func TestReaderThatDoesNotReadIsDisconnected(t *testing.T) {
	closed := make(chan struct{})
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		c.Limits.StreamWrite = 50 * time.Millisecond
		c.Trail.Streams = func(n int) {
			if n == 0 {
				close(closed)
			}
		}
	})
	e.Register("order", "reserve")
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s/stream?from_start=true HTTP/1.1\r\nHost: localhost\r\n\r\n", sagaEvents)
	long := strings.Repeat("x", 200)
	for {
		select {
		case <-closed:
			return
		default:
			e.Send("POST", apitest.SagasPath, `{"workflow_name":"order","correlation_id":"`+long+`"}`)
			e.Tail.Wake()
		}
	}
}
