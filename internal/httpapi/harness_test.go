package httpapi_test

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
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/memstore"
	"github.com/skald-saga/skald/internal/saga"
)

var tenant = saga.Tenant{ID: uuid.MustParse("00000000-0000-0000-0000-000000000001")}

// edge is the HTTP edge on a store in memory, with the engine.
type edge struct {
	*client.ClientWithResponses
	t     *testing.T
	url   string
	http  *http.Client // checks every answer against the contract
	store *memstore.Store
	node  *node
	tail  *audit.Tail
	cfg   httpapi.Config
	log   *syncBuffer
}

// newEdge starts an edge; change alters its configuration before that.
func newEdge(t *testing.T, change ...func(*httpapi.Config)) *edge {
	t.Helper()
	clock := newClock()
	e := &edge{t: t, store: memstore.New(clock.now), log: &syncBuffer{}}
	commit := func(ctx context.Context, c saga.Change) error {
		results, err := e.store.Sagas.Commit(ctx, []saga.Change{c})
		if err != nil {
			return err
		}
		return results[0]
	}
	e.node = startNode(t, e.store, clock.now, commit)
	e.tail = audit.NewTail(e.store.Trail, slog.New(slog.DiscardHandler))
	e.cfg = httpapi.Config{
		Sagas: e.store.Sagas, Workflows: e.store.Workflows, Archive: e.store.Sagas, Reports: e.store.Sagas,
		Create: func(ctx context.Context, n saga.NewSaga) (saga.CreateResult, error) {
			results, err := e.store.Sagas.Create(ctx, []saga.NewSaga{n})
			if err != nil {
				return saga.CreateResult{}, err
			}
			return results[0], nil
		},
		Commit: commit,
		Trail:  e.store.Trail, Follow: e.tail.Follow,
		Verify: func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (saga.Verification, error) {
			return audit.Verify(ctx, e.store.Trail, tenant, from, limit)
		},
		Webhooks: e.store.Webhooks, Deliveries: e.store.Webhooks, CheckEndpoint: checkEndpoint,
		Engine: e.node, Keys: e.store.Keys, Development: true, Tenant: tenant, CursorKey: bytes.Repeat([]byte("k"), 32),
		Limits:      httpapi.Limits{MaxWait: 10 * time.Second},
		SagaTimeout: time.Hour, CompensationTimeout: time.Hour,
		Now: clock.now, NewID: func() uuid.UUID { return uuid.Must(uuid.NewV7()) },
		Version: httpapi.Version{Version: "1.2.3", Go: "go1.26"},
		Log:     slog.New(slog.NewJSONHandler(e.log, nil)),
	}
	for _, f := range change {
		f(&e.cfg)
	}
	handler, err := httpapi.New(e.cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() { server.Close(); e.tail.Close() })
	e.url = server.URL
	e.http = &http.Client{
		Transport:     &contractChecker{t: t, next: server.Client().Transport, router: contractRouter(t)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	e.ClientWithResponses, err = client.NewClientWithResponses(e.url, client.WithHTTPClient(e.http))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// register stores a workflow of the named steps; "name!" has no compensation.
func (e *edge) register(name string, steps ...string) client.Workflow {
	e.t.Helper()
	r := e.send("POST", "/api/v1/workflows", definition(name, steps...))
	if r.status != http.StatusCreated && r.status != http.StatusOK {
		e.t.Fatalf("register %s: %d %s", name, r.status, r.body)
	}
	var w client.Workflow
	r.into(&w)
	return w
}

func definition(name string, steps ...string) string {
	return `{"name":"` + name + `","steps":[` + stepsJSON(steps...) + `]}`
}

func stepsJSON(steps ...string) string {
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

// start creates a saga and returns it; it must be accepted.
func (e *edge) start(body string, header ...string) client.Saga {
	e.t.Helper()
	r := e.send("POST", "/api/v1/sagas", body, header...)
	if r.status != http.StatusCreated {
		e.t.Fatalf("create %s: %d %s", body, r.status, r.body)
	}
	var s client.Saga
	r.into(&s)
	return s
}

// reply is a raw answer.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// send makes a request with a JSON body ("" for none) and headers in pairs.
func (e *edge) send(method, path, body string, header ...string) reply {
	e.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
		header = append([]string{"Content-Type", "application/json"}, header...)
	}
	req, err := http.NewRequestWithContext(e.t.Context(), method, e.url+path, in)
	if err != nil {
		e.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return e.do(req)
}

func (e *edge) do(req *http.Request) reply {
	e.t.Helper()
	res, err := e.http.Do(req)
	if err != nil {
		e.t.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return reply{e.t, res.StatusCode, res.Header, body}
}

func (r reply) into(v any) {
	r.t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		r.t.Fatalf("decode %s: %v", r.body, err)
	}
}

// problem returns the problem document; the answer must be one.
func (r reply) problem() client.Problem {
	r.t.Helper()
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		r.t.Fatalf("Content-Type = %q of %d %s, want a problem", got, r.status, r.body)
	}
	var p client.Problem
	r.into(&p)
	return p
}

// wants fails the test unless the answer is this problem.
func (r reply) wants(status int, code string) client.Problem {
	r.t.Helper()
	p := r.problem()
	if r.status != status || p.Code != code {
		r.t.Fatalf("got %d %s (%s), want %d %s", r.status, p.Code, p.Detail, status, code)
	}
	return p
}

// clock moves on by a microsecond whenever it is looked at.
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

// syncBuffer is a log that tests read while the server writes.
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
