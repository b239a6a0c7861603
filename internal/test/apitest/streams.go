package apitest

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

// Live is an open stream. It has its own client: the edge's client reads each response to its end
// before returning it.
type Live struct {
	t    *testing.T
	in   *bufio.Scanner
	Stop func()
	ID   string // id of the last event

	begun bool // an event has arrived, and with it the reconnection time
}

// message is one block of a stream.
type message struct {
	ID, Event, data, Comment, Retry string
	Over                            bool // the stream has ended
}

func (e *Edge) Follow(url string, header ...string) *Live {
	e.T.Helper()
	ctx, cancel := context.WithCancel(e.T.Context())
	e.T.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		e.T.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" ||
		res.Header.Get("Cache-Control") != "no-store" {
		e.T.Fatalf("%s: %d %v", url, res.StatusCode, res.Header)
	}
	l := &Live{t: e.T, in: bufio.NewScanner(res.Body), Stop: cancel}
	l.in.Buffer(nil, 1<<20)
	if m := l.Next(); m.Comment != "open" || m.Retry != "" || m.Event != "" {
		e.T.Fatalf("the stream begins with %+v", m)
	}
	return l
}

// Next returns the next message, which ends at an empty line.
func (l *Live) Next() (m message) {
	l.t.Helper()
	for l.in.Scan() {
		line := l.in.Text()
		if line == "" {
			if hint := m.Event != "" && !l.begun; (m.Retry == "1000") != hint {
				l.t.Errorf("a block has the retry %q and the event %q", m.Retry, m.Event)
			}
			l.begun = l.begun || m.Event != ""
			return m
		}
		name, value, ok := strings.Cut(line, ": ")
		if !ok && name != ":" {
			l.t.Fatalf("not a line of an event stream: %q", line)
		}
		switch name {
		case "id":
			m.ID, l.ID = value, value
		case "event":
			m.Event = value
		case "data":
			m.data = value
		case "retry":
			m.Retry = value
		case "":
			m.Comment = value
		default:
			l.t.Fatalf("an unknown field: %q", line)
		}
	}
	m.Over = true
	return m
}

// Events returns the next n events and checks them against the contract.
func (l *Live) Events(n int) []client.AuditEvent {
	l.t.Helper()
	schema := OpenapiYAML(l.t).Components.Schemas["AuditEvent"].Value
	var out []client.AuditEvent
	for len(out) < n {
		m := l.Next()
		if m.Over {
			l.t.Fatalf("the stream ended after %d events of %d", len(out), n)
		}
		if m.Event == "" {
			continue
		}
		var e client.AuditEvent
		var v any
		if err := json.Unmarshal([]byte(m.data), &v); err != nil {
			l.t.Fatalf("data %q: %v", m.data, err)
		}
		if err := schema.VisitJSON(v); err != nil {
			l.t.Errorf("an event violates the contract: %v", err)
		}
		_ = json.Unmarshal([]byte(m.data), &e)
		if m.ID != e.Cursor || m.Event != string(e.EventType) {
			l.t.Errorf("id %q and event %q do not match %s", m.ID, m.Event, m.data)
		}
		out = append(out, e)
	}
	return out
}

// Serve serves the edge's handler with the given timeouts of the server.
func (e *Edge) Serve(timeout time.Duration) string {
	e.T.Helper()
	handler, err := httpapi.New(e.Cfg)
	if err != nil {
		e.T.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Config.ReadTimeout, server.Config.WriteTimeout = timeout, timeout
	server.Start()
	e.T.Cleanup(server.Close)
	return server.URL
}

// States returns the next n states of a stream of GET /watch and checks them against the contract.
func (l *Live) States(n int) (out []string) {
	l.t.Helper()
	schema := OpenapiYAML(l.t).Components.Schemas["WatchedState"].Value
	for len(out) < n {
		m := l.Next()
		if m.Over {
			l.t.Fatalf("the stream ended after %d states of %d", len(out), n)
		}
		if m.Event == "" {
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(m.data), &v); err != nil {
			l.t.Fatalf("data %q: %v", m.data, err)
		}
		if err := schema.VisitJSON(v); err != nil {
			l.t.Errorf("a state violates the contract: %v", err)
		}
		out = append(out, m.Event+" "+m.data)
	}
	return out
}
