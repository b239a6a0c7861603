package httpapi_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/access/identity"
	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/saga/sagaapi"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// idle is an engine that starts no sagas.
type idle struct{ owner int64 }

func (i *idle) Admit(context.Context) (*int64, func(*saga.Instance)) {
	return &i.owner, func(*saga.Instance) {}
}
func (i *idle) Wake(saga.Ref)        {}
func (i *idle) Drives(saga.Ref) bool { return false }

// discard accepts a response and drops it.
type discard struct {
	header http.Header
	status int
}

func (n *discard) Header() http.Header         { return n.header }
func (n *discard) WriteHeader(status int)      { n.status = status }
func (n *discard) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkCreate measures the HTTP layer of POST /sagas without the socket and the commit. In
// "key" the request has an API key, as in production.
func BenchmarkCreate(b *testing.B) {
	for _, size := range []struct {
		name    string
		payload string
		guarded bool
	}{
		{"payload=100B", `{"order_id":"7f3e","amount":1299,"items":[{"sku":"a","n":1},{"sku":"b","n":2}],"note":"leave it"}`, false},
		{"payload=100B,key", `{"order_id":"7f3e","amount":1299,"items":[{"sku":"a","n":1},{"sku":"b","n":2}],"note":"leave it"}`, true},
		{"payload=4KB", `{"items":[` + strings.Repeat(`{"sku":"a-123","quantity":1,"price":12.99},`, 95) + `null]}`, false},
		{"payload=28KB", `{"items":[` + strings.Repeat(`{"sku":"a-123","quantity":1,"price":12.99},`, 660) + `null]}`, false},
	} {
		b.Run(size.name, func(b *testing.B) {
			store := memstore.New(time.Now)
			cfg := httpapi.Config{
				Sagas: sagaapi.Sagas{
					Store: store.Sagas, Workflows: store.Workflows, Archive: store.Sagas, Notes: store.Sagas,
					Reports: store.Sagas,
					Create: func(_ context.Context, n saga.NewSaga) (saga.CreateResult, error) {
						return saga.CreateResult{Created: saga.Stored, Saga: n.Saga}, nil
					},
					Commit: func(context.Context, saga.Change) error { return nil },
					Engine: &idle{owner: 1}, Timeout: time.Hour,
				},
				Trail: httpapi.Trail{
					Events: store.Trail, Follow: audit.NewTail(store.Trail, slog.New(slog.DiscardHandler)).Follow,
					Verify: func(context.Context, uuid.UUID, int64, int) (trail.Verification, error) {
						return trail.Verification{}, nil
					},
				},
				Webhooks: httpapi.Webhooks{Store: store.Webhooks, Deliveries: store.Webhooks,
					CheckEndpoint: apitest.CheckEndpoint},
				Access:  httpapi.Access{Keys: store.Keys, Sessions: store.Sessions, Development: true, Tenant: apitest.Tenant},
				Answers: store.Answers, CursorKey: bytes.Repeat([]byte("k"), 32), Now: time.Now,
				NewID: func() uuid.UUID { return uuid.Must(uuid.NewV7()) },
				Log:   slog.New(slog.DiscardHandler),
			}
			header := http.Header{"Content-Type": {"application/json"}}
			if size.guarded {
				header["Authorization"] = []string{"Bearer " + benchKey(b, store.Keys)}
				cfg.Access.Development = false
				cfg.Access.Identify = identity.New(identity.Config{
					Keys: store.Keys, Sessions: store.Sessions, Now: time.Now, Log: cfg.Log,
				}).Identify
			}
			handler, err := httpapi.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			post := func(path, body string) int {
				req := &http.Request{
					Method: "POST", URL: &url.URL{Path: path}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "127.0.0.1:8080",
					Header: header.Clone(),
					Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
				}
				w := &discard{header: http.Header{}}
				handler.ServeHTTP(w, req)
				return w.status
			}
			if status := post(apitest.WorkflowsPath, apitest.Definition("order", "a", "b", "c")); status != http.StatusCreated {
				b.Fatalf("register: %d", status)
			}
			body := `{"workflow_name":"order","correlation_id":"c-123456","payload":` + size.payload + `}`
			b.ReportAllocs()
			for b.Loop() {
				if status := post(apitest.SagasPath, body); status != http.StatusCreated {
					b.Fatalf("create: %d", status)
				}
			}
		})
	}
}

func benchKey(b *testing.B, keys access.Store) string {
	b.Helper()
	k, token, err := access.Issue(access.Request{Name: "bench", Role: principal.Operator, Tenant: &apitest.Tenant},
		principal.Anonymous, uuid.New(), [access.EntropyBytes]byte{1}, time.Now())
	if err == nil {
		err = keys.Create(b.Context(), k)
	}
	if err != nil {
		b.Fatal(err)
	}
	return string(token)
}
