// Package apitest provides the HTTP edge for tests: an edge over an in-memory store and the real
// engine, requests with known credentials, and a check of every response against the contract.
package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/saga/participant"
	"github.com/skald-saga/skald/internal/saga/sagaapi"
	"github.com/skald-saga/skald/internal/tenant"
)

// Tenant is the tenant of requests to edges that require no credential.
var Tenant = tenant.Tenant{ID: uuid.MustParse("00000000-0000-0000-0000-000000000001")}

// Edge is the HTTP edge over an in-memory store, with the engine.
type Edge struct {
	*client.ClientWithResponses
	T     *testing.T
	URL   string
	http  *http.Client // checks every response against the contract
	Store *memstore.Store
	Node  *node
	Tail  *audit.Tail
	Cfg   httpapi.Config
	Log   *syncBuffer
}

// NewEdge starts an edge; change modifies its configuration first.
func NewEdge(t *testing.T, change ...func(*httpapi.Config)) *Edge {
	t.Helper()
	clock := newClock()
	e := &Edge{T: t, Store: memstore.New(clock.now), Log: &syncBuffer{}}
	drive := func(ctx context.Context, c *saga.Change) error {
		batch := []saga.Change{*c}
		results, err := e.Store.Sagas.Commit(ctx, batch)
		if err != nil {
			return err
		}
		*c = batch[0]
		return results[0]
	}
	commit := func(ctx context.Context, c saga.Change) error { return drive(ctx, &c) }
	e.Node = startNode(t, e.Store, clock.now, drive)
	calls := participant.New(participant.Config{Version: "test"})
	e.Tail = audit.NewTail(e.Store.Trail, slog.New(slog.DiscardHandler))
	e.Cfg = httpapi.Config{
		Sagas: sagaapi.Sagas{
			Store: e.Store.Sagas, Workflows: e.Store.Workflows, Archive: e.Store.Sagas,
			Notes: e.Store.Sagas, Reports: e.Store.Sagas, Participant: e.Store.Participants.Get,
			Create: func(ctx context.Context, n saga.NewSaga) (saga.CreateResult, error) {
				results, err := e.Store.Sagas.Create(ctx, []saga.NewSaga{n})
				if err != nil {
					return saga.CreateResult{}, err
				}
				return results[0], nil
			},
			Commit: commit, Engine: e.Node, Timeout: time.Hour, CompensationTimeout: time.Hour,
			Written: calls.Written(), StepTimeout: 30 * time.Second,
			Callbacks: sagaapi.Callbacks{
				Served: true, Open: openCallback, Outcome: calls.Report, Progress: calls.Progress, Moved: e.Node.Moved,
				Store:    e.Store.Sagas,
				MaxBytes: 1 << 16,
			},
		},
		Trail: httpapi.Trail{
			Events: e.Store.Trail, Follow: e.Tail.Follow,
			Verify: func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (trail.Verification, error) {
				return audit.Verify(ctx, e.Store.Trail, tenant, from, limit)
			},
		},
		Webhooks:     httpapi.Webhooks{Store: e.Store.Webhooks, Deliveries: e.Store.Webhooks, CheckEndpoint: CheckEndpoint},
		Participants: httpapi.Participants{Store: e.Store.Participants, Gates: e.Store.Participants, Changed: func() {}},
		Access:       httpapi.Access{Keys: e.Store.Keys, Sessions: e.Store.Sessions, Development: true, Tenant: Tenant},
		Ends:         e.Node.Ends,
		Answers:      e.Store.Answers, CursorKey: bytes.Repeat([]byte("k"), 32),
		Limits: httpkit.Limits{MaxWait: 10 * time.Second},
		Now:    clock.now, NewID: func() uuid.UUID { return uuid.Must(uuid.NewV7()) },
		Version: httpapi.Version{Version: "1.2.3", Go: "go1.26"},
		Log:     slog.New(slog.NewJSONHandler(e.Log, nil)),
	}
	for _, f := range change {
		f(&e.Cfg)
	}
	handler, err := httpapi.New(e.Cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() { server.Close(); e.Tail.Close() })
	e.URL = server.URL
	e.http = &http.Client{
		Transport:     &contractChecker{t: t, next: server.Client().Transport, router: contractRouter(t)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	e.ClientWithResponses, err = client.NewClientWithResponses(e.URL, client.WithHTTPClient(e.http))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var callbackTokens = httpkit.Callbacks{Key: bytes.Repeat([]byte("k"), 32)}

func openCallback(token string) (a reported.Attempt, ok bool) {
	what, ok := callbackTokens.Open(httpkit.CallbackOfStep, token)
	if !ok {
		return a, false
	}
	return reported.AttemptOf(what)
}

// CallbackPath returns the path of a call's callback URL.
func CallbackPath(c *saga.Call) string {
	return "/api/v1/step-callbacks/" + callbackTokens.Seal(httpkit.CallbackOfStep, callback.Of(c).Bytes())
}

// Register stores a workflow with the named steps; a step named "name!" has no compensation.
func (e *Edge) Register(name string, steps ...string) client.Workflow {
	e.T.Helper()
	r := e.Send("POST", "/api/v1/workflows", Definition(name, steps...))
	if r.Status != http.StatusCreated && r.Status != http.StatusOK {
		e.T.Fatalf("register %s: %d %s", name, r.Status, r.Body)
	}
	var w client.Workflow
	r.Into(&w)
	return w
}

// Definition returns the definition of a workflow with the named steps; a step named "name!" has no
// compensation.
func Definition(name string, steps ...string) string {
	return `{"name":"` + name + `","steps":[` + StepsJSON(steps...) + `]}`
}

// StepsJSON returns the steps of Definition.
func StepsJSON(steps ...string) string {
	var parts []string
	for _, step := range steps {
		name, none := strings.CutSuffix(step, "!")
		undo := `{"http":{"url":"http://127.0.0.1:9/undo"}}`
		if none {
			undo = `"none"`
		}
		parts = append(parts, `{"name":"`+name+`","action":{"http":{"url":"http://127.0.0.1:9/do"}},"compensation":`+undo+`}`)
	}
	return strings.Join(parts, ",")
}

// Start creates a saga, which must be accepted, and returns it.
func (e *Edge) Start(body string, header ...string) client.Saga {
	e.T.Helper()
	r := e.Send("POST", "/api/v1/sagas", body, header...)
	if r.Status != http.StatusCreated {
		e.T.Fatalf("create %s: %d %s", body, r.Status, r.Body)
	}
	var s client.Saga
	r.Into(&s)
	return s
}

// Reply is a response before its body is decoded.
type Reply struct {
	T      *testing.T
	Status int
	Header http.Header
	Body   []byte
}

// Send makes a request with a JSON body ("" for none) and headers given as name-value pairs. PUT
// and PATCH requests to the dead-letter queue, which require If-Match, are sent with "*" unless the
// test gives another value; Do doesn't add the header.
func (e *Edge) Send(method, path, body string, header ...string) Reply {
	e.T.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
		header = append([]string{"Content-Type", "application/json"}, header...)
	}
	req, err := http.NewRequestWithContext(e.T.Context(), method, e.URL+path, in)
	if err != nil {
		e.T.Fatal(err)
	}
	if (method == "PUT" || method == "PATCH") && strings.HasPrefix(path, "/api/v1/dlq/") {
		req.Header.Set("If-Match", "*")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return e.Do(req)
}

// Do sends a request and reads the response.
func (e *Edge) Do(req *http.Request) Reply {
	e.T.Helper()
	res, err := e.http.Do(req)
	if err != nil {
		e.T.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		e.T.Fatal(err)
	}
	return Reply{e.T, res.StatusCode, res.Header, body}
}

// Into decodes the body.
func (r Reply) Into(v any) {
	r.T.Helper()
	if err := json.Unmarshal(r.Body, v); err != nil {
		r.T.Fatalf("decode %s: %v", r.Body, err)
	}
}

// Reads decodes the body of a response, which must have this status.
func (r Reply) Reads(status int, v any) {
	r.T.Helper()
	if r.Status != status {
		r.T.Fatalf("got %d %s, want %d", r.Status, r.Body, status)
	}
	r.Into(v)
}

// Problem returns the response's problem document; the response must be one.
func (r Reply) Problem() client.Problem {
	r.T.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		r.T.Fatalf("Content-Type = %q of %d %s, want a problem", got, r.Status, r.Body)
	}
	var p client.Problem
	r.Into(&p)
	return p
}

// Wants fails the test unless the response is this problem.
func (r Reply) Wants(status int, code string) client.Problem {
	r.T.Helper()
	p := r.Problem()
	if r.Status != status || p.Code != code {
		r.T.Fatalf("got %d %s (%s), want %d %s", r.Status, p.Code, p.Detail, status, code)
	}
	return p
}

// clock advances by a microsecond each time it is read.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock {
	return &clock{at: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(time.Microsecond)
	return c.at
}

// syncBuffer holds a log that tests read while the server writes to it.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
