package sagaapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// TestEachResultOfABatchBecomesItsResponse covers results that the checks before the batch cannot
// predict, because another node was faster.
func TestEachResultOfABatchBecomesItsResponse(t *testing.T) {
	for _, tt := range []struct {
		created saga.Created
		status  int
		code    string
	}{
		{saga.KeyReused, 422, "REQ_IDEMPOTENCY_KEY_REUSED"},
		{saga.IDTaken, 409, "SAGA_ALREADY_EXISTS"},
		{saga.Unstorable, 422, "SAGA_UNSTORABLE"},
		{saga.NotCurrent, 503, "SYS_UNAVAILABLE"}, // every time
		{saga.NotRunnable, 503, "SYS_UNAVAILABLE"},
	} {
		t.Run(tt.code, func(t *testing.T) {
			e := apitest.NewEdge(t, func(c *httpapi.Config) {
				c.Sagas.Create = func(context.Context, saga.NewSaga) (saga.CreateResult, error) {
					return saga.CreateResult{Created: tt.created}, nil
				}
			})
			e.Register("order", "a")
			for _, path := range []string{apitest.SagasPath, apitest.SagasPath + "?wait=1s"} {
				e.Send("POST", path, `{"workflow_name":"order"}`, "Idempotency-Key", "k").Wants(tt.status, tt.code)
			}
		})
	}
}

func TestASagaStoredByAnotherNodeWithTheSameKeyIsReturned(t *testing.T) {
	var prior uuid.UUID
	e := apitest.NewEdge(t, func(c *httpapi.Config) {
		create := c.Sagas.Create
		c.Sagas.Create = func(ctx context.Context, n saga.NewSaga) (saga.CreateResult, error) {
			if prior != uuid.Nil {
				return saga.CreateResult{Created: saga.Replayed, Prior: prior}, nil
			}
			return create(ctx, n)
		}
	})
	e.Register("order", "a")
	first := e.Start(`{"workflow_name":"order"}`)
	prior = first.SagaID
	for path, logs := range map[string]int{apitest.SagasPath: 0, apitest.SagasPath + "?wait=5s": 1} {
		var s client.Saga
		r := e.Send("POST", path, `{"workflow_name":"order"}`, "Idempotency-Key", "k")
		r.Reads(http.StatusCreated, &s)
		if s.SagaID != first.SagaID || len(s.StepLogs) != logs {
			t.Errorf("%s: %s", path, r.Body)
		}
		if h := r.Header; h.Get("Idempotent-Replayed") != "true" ||
			!strings.HasSuffix(h.Get("Location"), first.SagaID.String()) {
			t.Errorf("%s: %v", path, r.Header)
		}
	}
}

func TestAnActionDoneByAnotherNodeWithTheSameKeyIsReplayed(t *testing.T) {
	for name, tt := range map[string]struct {
		sameRequest bool
		status      int
	}{
		"the same request": {true, http.StatusAccepted},
		"another request":  {false, http.StatusUnprocessableEntity},
	} {
		t.Run(name, func(t *testing.T) {
			e := apitest.NewEdge(t, func(c *httpapi.Config) {
				commit := c.Sagas.Commit
				c.Sagas.Commit = func(ctx context.Context, ch saga.Change) error {
					theirs := *ch.Key
					if !tt.sameRequest {
						theirs.Hash = []byte("of something else")
					}
					other := ch
					other.Key = &theirs
					if err := commit(ctx, other); err != nil { // the other node commits first
						return err
					}
					return fault.New(fault.Conflict, idempotency.CodeUsed, "this idempotency key is in use")
				}
			})
			at, g := apitest.Held(t, e, nil)
			defer close(g.Open)
			r := e.Send("POST", at+"/cancel", "", "Idempotency-Key", "k")
			if r.Status != tt.status || tt.sameRequest && r.Header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("got %d %v %s", r.Status, r.Header, r.Body)
			}
		})
	}
}

func TestAHeaderGivenTwiceIsRefused(t *testing.T) {
	e := apitest.NewEdge(t)
	for _, name := range []string{"If-Match", "Idempotency-Key"} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", e.URL+apitest.MissingSaga+"/cancel", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header[name] = []string{`"1"`, `"2"`}
		if p := e.Do(req).Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER"); p.Errors[0].Place() != name ||
			p.Errors[0].Code != "repeated" {
			t.Errorf("errors = %+v", p.Errors)
		}
	}
}
