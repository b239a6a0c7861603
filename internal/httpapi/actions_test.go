package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/saga"
)

func TestCancelAndCompensateUndoARunningSaga(t *testing.T) {
	for _, tt := range []struct {
		action, state string
		cause         client.EndCause
		says          string
	}{
		{"cancel", "cancelled", client.EndCauseCancelled, "cancelled by ann: changed her mind"},
		{"compensate", "compensated", client.EndCauseOperator, "compensation requested by ann: changed her mind"},
	} {
		t.Run(tt.action, func(t *testing.T) {
			e := newEdge(t)
			at, g := held(t, e, nil)
			r := e.send("POST", at+"/"+tt.action, `{"reason":"changed her mind","requested_by":"ann"}`)
			var s client.Saga
			r.into(&s)
			if r.status != http.StatusAccepted || r.header.Get("ETag") != `"2"` || s.EndCause == nil || *s.EndCause != tt.cause || slices.Contains(s.AllowedActions, client.SagaAction(tt.action)) {
				t.Fatalf("got %d %s", r.status, r.body)
			}
			close(g.open)
			s = e.saga(at + "?wait=5s")
			if string(s.State) != tt.state || !strings.Contains(*s.ErrorMessage, tt.says) {
				t.Errorf("ended %s: %s", s.State, *s.ErrorMessage)
			}
			p := e.send("POST", at+"/"+tt.action, "").wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
			if p.AllowedActions == nil || len(p.AllowedActions) != 0 {
				t.Errorf("allowed_actions = %v, want an empty list", p.AllowedActions)
			}
		})
	}
}

func TestResumeCompensationReopensADirtyEnd(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve", "pay")
	var mu sync.Mutex
	repaired := false
	e.node.script = func(c saga.Call) saga.Outcome {
		mu.Lock()
		defer mu.Unlock()
		if c.Step == "pay" || c.Action == saga.Compensate && !repaired {
			return refused()
		}
		return done("null")
	}
	s := e.start(`{"workflow_name":"order"}`)
	at := sagas + "/" + s.SagaID.String()
	s = e.saga(at + "?wait=5s")
	want := []client.SagaAction{
		client.SagaActionResumeCompensation, client.SagaActionRetry, client.SagaActionSkipStep, client.SagaActionCompleteStep, client.SagaActionAcknowledge,
	}
	if s.State != client.SagaStateFailed || !s.NeedsAttention || *s.Clean || s.Lifecycle != client.SagaLifecycleFailed || !cmp.Equal(s.AllowedActions, want) {
		t.Fatalf("before: %+v", s)
	}
	p := e.send("POST", at+"/cancel", "").wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
	if !cmp.Equal(p.AllowedActions, texts(want)) {
		t.Errorf("allowed_actions = %v, want %v", p.AllowedActions, want)
	}
	mu.Lock()
	repaired = true
	mu.Unlock()
	if r := e.send("POST", at+"/resume-compensation", ""); r.status != http.StatusAccepted {
		t.Fatalf("resume: %d %s", r.status, r.body)
	}
	if s = e.saga(at + "?wait=5s"); s.State != client.SagaStateCompensated || s.NeedsAttention {
		t.Errorf("after: %s, needs attention %t", s.State, s.NeedsAttention)
	}
}

func TestIfMatchGuardsActions(t *testing.T) {
	e := newEdge(t)
	at, g := held(t, e, nil)
	defer close(g.open)
	for _, stale := range []string{`"2"`, `W/"1"`, `"0", "17"`} {
		e.send("POST", at+"/cancel", "", "If-Match", stale).wants(http.StatusPreconditionFailed, "SAGA_VERSION_CONFLICT")
	}
	if s := e.saga(at); s.Version != 1 {
		t.Fatalf("a refused action changed the saga to version %d", s.Version)
	}
	if r := e.send("POST", at+"/cancel", "", "If-Match", `"9", "1"`); r.status != http.StatusAccepted {
		t.Errorf("with the present version: %d %s", r.status, r.body)
	}
	// Whatever the version, it exists; the state is what forbids it.
	e.send("POST", at+"/cancel", "", "If-Match", "*").wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
}

func TestIfNoneMatchSparesTheBody(t *testing.T) {
	e := newEdge(t)
	at, g := held(t, e, nil)
	defer close(g.open)
	for _, path := range []string{at, at + "/steps", at + "/step-logs", workflows + "/order", workflows + "/order/versions/1", "/openapi.json"} {
		tag := e.send("GET", path, "").header.Get("ETag")
		for _, header := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
			r := e.send("GET", path, "", "If-None-Match", header)
			if r.status != http.StatusNotModified || len(r.body) > 0 || r.header.Get("ETag") != tag {
				t.Errorf("%s with %s: %d, ETag %q, %d bytes", path, header, r.status, r.header.Get("ETag"), len(r.body))
			}
		}
		if r := e.send("GET", path, "", "If-None-Match", `"other"`); r.status != http.StatusOK {
			t.Errorf("%s with another tag: %d", path, r.status)
		}
	}
}

func TestTheSameKeyMakesOneSaga(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve")
	first := e.start(`{"workflow_name":"order","payload":{"a":1,"bb":2}}`, "Idempotency-Key", "k-1")
	e.send("POST", workflows+"/order/disable", "")
	// The same request: order of members and blanks are no difference, and a
	// workflow disabled meanwhile changes nothing.
	r := e.send("POST", sagas, `{"payload": {"bb": 2, "a": 1}, "workflow_name": "order"}`, "Idempotency-Key", "k-1")
	var again client.Saga
	r.into(&again)
	if r.status != http.StatusCreated || again.SagaID != first.SagaID || r.header.Get("Idempotent-Replayed") != "true" || r.header.Get("Location") == "" {
		t.Errorf("replay: %d %s %v", r.status, again.SagaID, r.header)
	}
	r = e.send("POST", sagas+"?wait=5s", `{"payload":{"a":1,"bb":2},"workflow_name":"order"}`, "Idempotency-Key", "k-1")
	r.into(&again)
	if again.SagaID != first.SagaID || again.Status != client.SagaStatusCOMPLETED || len(again.StepLogs) != 1 {
		t.Errorf("a waiting replay: %s", r.body)
	}
	e.send("POST", sagas, `{"payload":{"a":2,"bb":2},"workflow_name":"order"}`, "Idempotency-Key", "k-1").
		wants(http.StatusUnprocessableEntity, "REQ_IDEMPOTENCY_KEY_REUSED")
	if page, err := e.store.Sagas.List(t.Context(), tenant.ID, saga.Filter{Limit: 10}); err != nil || len(page.Sagas) != 1 {
		t.Errorf("%d sagas, %v; want one", len(page.Sagas), err)
	}
}

func TestARefusedRequestUsesUpNoKey(t *testing.T) {
	e := newEdge(t)
	e.send("POST", sagas, `{"workflow_name":"order"}`, "Idempotency-Key", "k-1").wants(http.StatusUnprocessableEntity, "WORKFLOW_NOT_FOUND")
	e.register("order", "reserve")
	if r := e.send("POST", sagas, `{"workflow_name":"order"}`, "Idempotency-Key", "k-1"); r.status != http.StatusCreated || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("got %d %v", r.status, r.header)
	}
}

func TestOfManyRequestsWithOneKeyOneIsStored(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve")
	ids := make(chan string, 32)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			r := e.send("POST", sagas, `{"workflow_name":"order"}`, "Idempotency-Key", "k-1")
			if r.status == http.StatusCreated {
				var s client.Saga
				r.into(&s)
				ids <- s.SagaID.String()
				return
			}
			if r.wants(http.StatusConflict, "REQ_IDEMPOTENCY_KEY_IN_USE"); r.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		})
	}
	all.Wait()
	close(ids)
	distinct := map[string]bool{}
	for id := range ids {
		distinct[id] = true
	}
	if len(distinct) != 1 {
		t.Errorf("sagas %v, want one", distinct)
	}
}

func TestAnActionWithAKeyIsDoneOnce(t *testing.T) {
	e := newEdge(t)
	at, g := held(t, e, nil)
	defer close(g.open)
	for i, replayed := range []string{"", "true", "true"} {
		r := e.send("POST", at+"/cancel", `{"reason":"x"}`, "Idempotency-Key", "k-1")
		if r.status != http.StatusAccepted || r.header.Get("Idempotent-Replayed") != replayed || r.header.Get("ETag") != `"2"` {
			t.Errorf("request %d: %d %v", i, r.status, r.header)
		}
	}
	e.send("POST", at+"/cancel", `{"reason":"y"}`, "Idempotency-Key", "k-1").wants(http.StatusUnprocessableEntity, "REQ_IDEMPOTENCY_KEY_REUSED")
	// Another route is another key space, another saga another request.
	e.send("POST", at+"/compensate", `{"reason":"x"}`, "Idempotency-Key", "k-1").wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
	e.send("POST", missing+"/cancel", `{"reason":"x"}`, "Idempotency-Key", "k-1").wants(http.StatusUnprocessableEntity, "REQ_IDEMPOTENCY_KEY_REUSED")
}
