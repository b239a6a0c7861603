package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
)

// live is an open stream. Its client is not the edge's, which reads answers to
// their end before it gives them out.
type live struct {
	t    *testing.T
	in   *bufio.Scanner
	stop func()
	id   string // the last one
}

// message is what a client gets at once.
type message struct {
	id, event, data, comment, retry string
	over                            bool // the stream has ended
}

func (e *edge) follow(url string, header ...string) *live {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	e.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Cache-Control") != "no-store" {
		e.t.Fatalf("%s: %d %v", url, res.StatusCode, res.Header)
	}
	l := &live{t: e.t, in: bufio.NewScanner(res.Body), stop: cancel}
	l.in.Buffer(nil, 1<<20)
	if m := l.next(); m.retry != "1000" {
		e.t.Fatalf("the stream begins with %+v", m)
	}
	return l
}

// next returns the next message, as far as an empty line.
func (l *live) next() (m message) {
	l.t.Helper()
	for l.in.Scan() {
		line := l.in.Text()
		if line == "" {
			return m
		}
		name, value, ok := strings.Cut(line, ": ")
		if !ok && name != ":" {
			l.t.Fatalf("a line of no event stream: %q", line)
		}
		switch name {
		case "id":
			m.id, l.id = value, value
		case "event":
			m.event = value
		case "data":
			m.data = value
		case "retry":
			m.retry = value
		case "":
			m.comment = value
		default:
			l.t.Fatalf("an unknown field: %q", line)
		}
	}
	m.over = true
	return m
}

// events returns the next n events and checks them against the contract.
func (l *live) events(n int) []client.AuditEvent {
	l.t.Helper()
	schema := openapiYAML(l.t).Components.Schemas["AuditEvent"].Value
	var out []client.AuditEvent
	for len(out) < n {
		m := l.next()
		if m.over {
			l.t.Fatalf("the stream ended after %d events of %d", len(out), n)
		}
		if m.event == "" {
			continue
		}
		var e client.AuditEvent
		var v any
		if err := json.Unmarshal([]byte(m.data), &v); err != nil {
			l.t.Fatalf("data %q: %v", m.data, err)
		}
		if err := schema.VisitJSON(v); err != nil {
			l.t.Errorf("an event against the contract: %v", err)
		}
		_ = json.Unmarshal([]byte(m.data), &e)
		if m.id != e.Cursor || m.event != string(e.EventType) {
			l.t.Errorf("id %q and event %q of %s", m.id, m.event, m.data)
		}
		out = append(out, e)
	}
	return out
}

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

// serve serves the edge's handler with the given timeouts of the server.
func (e *edge) serve(timeout time.Duration) string {
	e.t.Helper()
	handler, err := httpapi.New(e.cfg)
	if err != nil {
		e.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Config.ReadTimeout, server.Config.WriteTimeout = timeout, timeout
	server.Start()
	e.t.Cleanup(server.Close)
	return server.URL
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
