package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/saga/sagaapi"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// FuzzNoInputIsAServerError sends arbitrary requests: the response is a success or a problem
// below 500, and never a panic.
func FuzzNoInputIsAServerError(f *testing.F) {
	order := apitest.Definition("order", "a", "b!")
	for _, seed := range []struct{ method, target, media, body string }{
		{"POST", apitest.WorkflowsPath, "application/json", order},
		{"POST", apitest.WorkflowsPath, "application/yaml", apitest.YamlDefinition},
		{"POST", apitest.WorkflowsPath + "/validate", "application/json", `{"workflow_yaml":"a: [b"}`},
		{"POST", apitest.WorkflowsPath, "text/yaml", "name: &a x\nsteps: *a"},
		{"POST", apitest.SagasPath, "application/json", `{"workflow_name":"order","payload":{"a":[1.50e3,"\u00e9"]}}`},
		{"POST", apitest.SagasPath + "?wait=1ns", "application/json", `{"steps":[` + apitest.StepsJSON("x") + `],"metadata":{}}`},
		{"GET", apitest.SagasPath + "?status=FAILED&state=failed&page=2&metadata=%7B%7D", "", ""},
		{"GET", apitest.SagasPath + "?cursor=AAAA&created_from=2026-01-01T00:00:00%2B01:00", "", ""},
		{"POST", apitest.MissingSaga + "/cancel", "application/json", `{"reason":"x"}`},
		{"POST", apitest.MissingSaga + "/restore", "application/json", `{"reason":"x"}`},
		{"GET", apitest.SagasPath + "?archived=true&state=failed&needs_attention=true&metadata=%7B%7D", "", ""},
		{"POST", "/api/v1/admin/retention/run?dry_run=true", "application/json", `{"older_than":"0001-01-01T00:00:00Z"}`},
		{"GET", apitest.WorkflowsPath + "/a%2Fb", "", ""},
		{"GET", apitest.WorkflowsPath + "/..%2f..", "", ""},
		{"GET", apitest.WorkflowsPath + "/a%0ab", "", ""},
		{"GET", apitest.WorkflowsPath + "//versions/1", "", ""},
		{"GET", apitest.WorkflowsPath + "/a%2541/versions/1", "", ""},
		{"GET", apitest.WorkflowsPath + "/%25zz", "", ""},
		{"GET", "/api/v1/workflows/%E6%B3%A8/versions?page_size=3&view=full", "", ""},
		{"OPTIONS", "*", "", ""},
		{"GET", "/api/v1/saga-events?event_type=saga.failed&from=2026-11-21T12:00:00Z&cursor=AQ", "", ""},
		{"GET", "/api/v1/saga-events/stream?from_start=true&actor=%00", "", ""},
		{"POST", apitest.WebhooksPath, "application/json", `{"url":"http://[::1%25eth0]:99999/","event_types":["*"],"from":"now"}`},
		{"GET", apitest.WebhooksPath + "/00000000-0000-0000-0000-000000000000/deliveries?status=failed&cursor=AQ", "", ""},
		{"POST", apitest.WebhooksPath + "/00000000-0000-0000-0000-000000000000/redeliver", "application/json", `{"since":"0000-01-01T00:00:00Z"}`},
		{"GET", "/api/v1/dlq/a%252Fb%00?status=PENDING", "", ""},
		{"POST", "/api/v1/dlq/messages/batch", "application/json", `{"messages":[{}]}`},
		{"GET", "/api/v1/audit/verify?from_seq=9223372036854775807&limit=1000", "", ""},
	} {
		f.Add(seed.method, seed.target, seed.media, seed.body)
	}
	store := memstore.New(time.Now)
	handler, err := httpapi.New(httpapi.Config{
		Sagas: sagaapi.Sagas{
			Store: store.Sagas, Workflows: store.Workflows, Archive: store.Sagas, Notes: store.Sagas,
			Reports: store.Sagas,
			Create: func(ctx context.Context, n saga.NewSaga) (saga.CreateResult, error) {
				results, err := store.Sagas.Create(ctx, []saga.NewSaga{n})
				return results[0], err
			},
			Commit: func(ctx context.Context, c saga.Change) error {
				results, _ := store.Sagas.Commit(ctx, []saga.Change{c})
				return results[0]
			},
			Engine: &idle{owner: 1},
		},
		Trail: httpapi.Trail{
			Events: store.Trail, Follow: audit.NewTail(store.Trail, slog.New(slog.DiscardHandler)).Follow,
			Verify: func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (trail.Verification, error) {
				return audit.Verify(ctx, store.Trail, tenant, from, limit)
			},
		},
		Webhooks: httpapi.Webhooks{Store: store.Webhooks, Deliveries: store.Webhooks,
			CheckEndpoint: apitest.CheckEndpoint},
		Participants: httpapi.Participants{Store: store.Participants, Gates: store.Participants, Changed: func() {}},
		Access:       httpapi.Access{Keys: store.Keys, Sessions: store.Sessions, Development: true, Tenant: apitest.Tenant},
		Answers:      store.Answers, CursorKey: bytes.Repeat([]byte("k"), 32),
		Now: time.Now, NewID: uuid.New, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, target, media, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || strings.ContainsAny(method, " \r\n") || method == "" || len(body) > 1<<16 {
			return // net/http would refuse it
		}
		req := &http.Request{
			Method: method, URL: u, Host: "localhost", Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}
		if media != "" {
			req.Header.Set("Content-Type", media)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		if w.Code == 503 && strings.Contains(w.Body.String(), "DLQ_UNAVAILABLE") {
			return // TestNoInputOfTheQueueIsAServerError covers it with PostgreSQL
		}
		if w.Code >= 500 {
			t.Fatalf("%s %s answered %d %s", method, target, w.Code, w.Body)
		}
		if w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Fatalf("%s %s answered %d as %s", method, target, w.Code, w.Header().Get("Content-Type"))
		}
		if w.Header().Get("Content-Type") == "text/event-stream" {
			return
		}
		if w.Body.Len() > 0 && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s answered with invalid JSON: %s", method, target, w.Body)
		}
	})
}
