package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/saga"
)

// TestWhatABatchSaysOfASagaBecomesItsAnswer covers what the looks before the
// batch cannot see, because another node was faster.
func TestWhatABatchSaysOfASagaBecomesItsAnswer(t *testing.T) {
	for _, tt := range []struct {
		created saga.Created
		status  int
		code    string
	}{
		{saga.KeyReused, 422, "REQ_IDEMPOTENCY_KEY_REUSED"},
		{saga.IDTaken, 409, "SAGA_ALREADY_EXISTS"},
		{saga.Unstorable, 422, "SAGA_UNSTORABLE"},
		{saga.NotCurrent, 503, "SYS_UNAVAILABLE"}, // again and again
		{saga.NotRunnable, 503, "SYS_UNAVAILABLE"},
	} {
		t.Run(tt.code, func(t *testing.T) {
			e := newEdge(t, func(c *httpapi.Config) {
				c.Create = func(context.Context, saga.NewSaga) (saga.CreateResult, error) {
					return saga.CreateResult{Created: tt.created}, nil
				}
			})
			e.register("order", "a")
			for _, path := range []string{sagas, sagas + "?wait=1s"} {
				e.send("POST", path, `{"workflow_name":"order"}`, "Idempotency-Key", "k").wants(tt.status, tt.code)
			}
		})
	}
}

func TestASagaOfAnotherNodeWithTheSameKeyIsAnswered(t *testing.T) {
	var prior uuid.UUID
	e := newEdge(t, func(c *httpapi.Config) {
		create := c.Create
		c.Create = func(ctx context.Context, n saga.NewSaga) (saga.CreateResult, error) {
			if prior != uuid.Nil {
				return saga.CreateResult{Created: saga.Replayed, Prior: prior}, nil
			}
			return create(ctx, n)
		}
	})
	e.register("order", "a")
	first := e.start(`{"workflow_name":"order"}`)
	prior = first.SagaID
	for path, logs := range map[string]int{sagas: 0, sagas + "?wait=5s": 1} {
		var s client.Saga
		r := e.send("POST", path, `{"workflow_name":"order"}`, "Idempotency-Key", "k")
		r.into(&s)
		if r.status != http.StatusCreated || s.SagaID != first.SagaID || len(s.StepLogs) != logs ||
			r.header.Get("Idempotent-Replayed") != "true" || !strings.HasSuffix(r.header.Get("Location"), first.SagaID.String()) {
			t.Errorf("%s: %d %v %s", path, r.status, r.header, r.body)
		}
	}
}

func TestAnActionOfAnotherNodeWithTheSameKeyIsAnswered(t *testing.T) {
	for name, tt := range map[string]struct {
		sameRequest bool
		status      int
	}{
		"the same request": {true, http.StatusAccepted},
		"another request":  {false, http.StatusUnprocessableEntity},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdge(t, func(c *httpapi.Config) {
				commit := c.Commit
				c.Commit = func(ctx context.Context, ch saga.Change) error {
					theirs := *ch.Key
					if !tt.sameRequest {
						theirs.Hash = []byte("of something else")
					}
					other := ch
					other.Key = &theirs
					if err := commit(ctx, other); err != nil { // the other node is faster
						return err
					}
					return fault.New(fault.Conflict, saga.CodeKeyUsed, "this idempotency key is in use")
				}
			})
			at, g := held(t, e, nil)
			defer close(g.open)
			r := e.send("POST", at+"/cancel", "", "Idempotency-Key", "k")
			if r.status != tt.status || tt.sameRequest && r.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("got %d %v %s", r.status, r.header, r.body)
			}
		})
	}
}

func TestAHeaderGivenTwiceIsRefused(t *testing.T) {
	e := newEdge(t)
	for _, name := range []string{"If-Match", "Idempotency-Key"} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", e.url+missing+"/cancel", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header[name] = []string{`"1"`, `"2"`}
		if p := e.do(req).wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER"); p.Errors[0].Pointer != name || p.Errors[0].Code != "repeated" {
			t.Errorf("errors = %+v", p.Errors)
		}
	}
}
