package httpapi_test

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
)

func TestAStreamBeginsNowOrAtTheBeginningOrAfterAnID(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve")
	e.done(`{"workflow_name":"order"}`)
	now := e.follow(e.url + sagaEvents + "/stream")
	start := now.id
	if start == "" {
		t.Error("a stream that begins now says where: else its client could not resume before the first event")
	}
	second := e.done(`{"workflow_name":"order"}`)
	e.tail.Wake()
	got := now.events(4)
	if story(got) != story1 || got[0].SagaID != second.SagaID {
		t.Errorf("from now on: %s", story(got))
	}
	all := e.events(sagaEvents + "?page_size=200").Events
	begin := e.follow(e.url + sagaEvents + "/stream?from_start=true")
	if diff := cmp.Diff(all, begin.events(8)); diff != "" {
		t.Errorf("from the beginning (-feed +stream):\n%s", diff)
	}
	for name, l := range map[string]*live{
		"the first id":                 e.follow(e.url+sagaEvents+"/stream", "Last-Event-ID", start),
		"an id that wins over a query": e.follow(e.url+sagaEvents+"/stream?cursor="+all[7].Cursor, "Last-Event-ID", start),
		"the feed's cursor":            e.follow(e.url + sagaEvents + "/stream?cursor=" + all[3].Cursor),
		"with a filter":                e.follow(e.url + sagaEvents + "/stream?from_start=true&saga_id=" + second.SagaID.String()),
	} {
		if diff := cmp.Diff(all[4:], l.events(4)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	e.send("GET", sagaEvents+"/stream", "", "Last-Event-ID", "made up").wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	e.send("GET", sagaEvents+"/stream?from_start=true&cursor="+start, "").wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	if r := e.send("HEAD", sagaEvents+"/stream", ""); r.status != http.StatusOK {
		t.Errorf("HEAD: %d", r.status)
	}
}

func TestAStreamMissesNothingWhileSixteenWrite(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve", "pay")
	l := e.follow(e.url + sagaEvents + "/stream")
	var writers sync.WaitGroup
	const each = 5
	for range 16 {
		writers.Go(func() {
			for range each {
				r := e.send("POST", sagas, `{"workflow_name":"order"}`)
				if r.status != http.StatusCreated {
					t.Errorf("create: %d", r.status)
				}
				e.tail.Wake()
			}
		})
	}
	got := l.events(16 * each * 6)
	writers.Wait()
	var want []client.AuditEvent
	for cursor := ""; ; {
		page := e.events(sagaEvents + "?page_size=200" + cursor)
		want = append(want, page.Events...)
		if !page.Pagination.HasNext {
			break
		}
		cursor = "&cursor=" + *page.Pagination.NextCursor
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-feed +stream):\n%s", diff)
	}
}

func TestASilentStreamSaysThatItIsThereAndHowFarItIs(t *testing.T) {
	e := newEdge(t, func(c *httpapi.Config) { c.Limits.StreamSilence = 20 * time.Millisecond })
	e.register("order", "reserve")
	l := e.follow(e.url + sagaEvents + "/stream?event_type=saga.failed")
	start := l.id
	if m := l.next(); m.comment == "" || m.id != "" || m.event != "" {
		t.Errorf("silence is broken with %+v", m)
	}
	e.done(`{"workflow_name":"order"}`)
	e.tail.Wake()
	for l.id == start {
		if m := l.next(); m.event != "" || m.over {
			t.Fatalf("got %+v", m)
		}
	}
	if got := e.events(sagaEvents + "?cursor=" + l.id); len(got.Events) != 0 {
		t.Errorf("after the id of a stream that nothing fitted: %s", story(got.Events))
	}
}

func TestAStreamEndsWithAHintWhenTheServerStopsOrItIsOld(t *testing.T) {
	stopping := make(chan struct{})
	e := newEdge(t, func(c *httpapi.Config) { c.Stopping = stopping })
	young := newEdge(t, func(c *httpapi.Config) { c.Limits.StreamAge = 20 * time.Millisecond })
	l, old := e.follow(e.url+sagaEvents+"/stream"), young.follow(young.url+sagaEvents+"/stream")
	close(stopping)
	for name, l := range map[string]*live{"the server stops": l, "it is old": old} {
		if m := l.next(); m.retry != "1000" || m.comment == "" {
			t.Errorf("%s: %+v", name, m)
		}
		if m := l.next(); !m.over {
			t.Errorf("%s: after the hint comes %+v", name, m)
		}
	}
}

func TestOnlySoManyStreams(t *testing.T) {
	var mu sync.Mutex
	open := 0
	e := newEdge(t, func(c *httpapi.Config) {
		c.Limits.MaxStreams = 2
		c.Streams = func(n int) { mu.Lock(); open = n; mu.Unlock() }
	})
	first := e.follow(e.url + sagaEvents + "/stream")
	e.follow(e.url + sagaEvents + "/stream")
	r := e.send("GET", sagaEvents+"/stream", "")
	r.wants(http.StatusServiceUnavailable, "SYS_TOO_MANY_STREAMS")
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	first.stop()
	for e.send("HEAD", sagaEvents+"/stream", "").status != http.StatusOK {
		time.Sleep(time.Millisecond) // until the server has seen that the client left
	}
	mu.Lock()
	defer mu.Unlock()
	if open > 2 {
		t.Errorf("%d streams are said to be open", open)
	}
}

func TestAStreamOutlivesTheServersTimeouts(t *testing.T) {
	e := newEdge(t, func(c *httpapi.Config) { c.Limits.StreamSilence = 20 * time.Millisecond })
	const timeout = 50 * time.Millisecond
	l := e.follow(e.serve(timeout) + sagaEvents + "/stream")
	for begun := time.Now(); time.Since(begun) < 4*timeout; {
		if m := l.next(); m.over {
			t.Fatalf("the stream ended after %v", time.Since(begun))
		}
	}
}

func TestAReaderThatDoesNotReadIsDismissed(t *testing.T) {
	closed := make(chan struct{})
	e := newEdge(t, func(c *httpapi.Config) {
		c.Limits.StreamWrite = 50 * time.Millisecond
		c.Streams = func(n int) {
			if n == 0 {
				close(closed)
			}
		}
	})
	e.register("order", "reserve")
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
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
			e.send("POST", sagas, `{"workflow_name":"order","correlation_id":"`+long+`"}`)
			e.tail.Wake()
		}
	}
}
