package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
