package sagaapi_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
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
			e := apitest.NewEdge(t)
			at, g := apitest.Held(t, e, nil)
			r := e.Send("POST", at+"/"+tt.action, `{"reason":"changed her mind","requested_by":"ann"}`)
			var s client.Saga
			r.Reads(http.StatusAccepted, &s)
			if r.Header.Get("ETag") != `"2"` || s.EndCause == nil || *s.EndCause != tt.cause {
				t.Fatalf("got %v %s", r.Header, r.Body)
			}
			if slices.Contains(s.AllowedActions, client.SagaAction(tt.action)) {
				t.Fatalf("%s is still allowed: %s", tt.action, r.Body)
			}
			close(g.Open)
			s = e.Saga(at + "?wait=5s")
			if string(s.State) != tt.state || !strings.Contains(*s.ErrorMessage, tt.says) {
				t.Errorf("ended %s: %s", s.State, *s.ErrorMessage)
			}
			p := e.Send("POST", at+"/"+tt.action, "").Wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
			if p.AllowedActions == nil || len(p.AllowedActions) != 0 {
				t.Errorf("allowed_actions = %v, want an empty list", p.AllowedActions)
			}
		})
	}
}

func TestResumeCompensationReopensAFailedSaga(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve", "pay")
	var mu sync.Mutex
	repaired := false
	e.Node.Script = func(c saga.Call) saga.Outcome {
		mu.Lock()
		defer mu.Unlock()
		if c.Step == "pay" || c.Action == saga.Compensate && !repaired {
			return apitest.Refused()
		}
		return apitest.Done("null")
	}
	s := e.Start(`{"workflow_name":"order"}`)
	at := apitest.SagasPath + "/" + s.SagaID.String()
	s = e.Saga(at + "?wait=5s")
	want := []client.SagaAction{
		client.SagaActionResumeCompensation, client.SagaActionRetry, client.SagaActionSkipStep, client.SagaActionCompleteStep,
		client.SagaActionAcknowledge,
	}
	before := s
	before.State, before.Lifecycle = client.SagaStateFailed, client.SagaLifecycleFailed
	before.NeedsAttention, before.Clean, before.AllowedActions = true, new(false), want
	if diff := cmp.Diff(before, s); diff != "" {
		t.Fatalf("before (-want +got):\n%s", diff)
	}
	p := e.Send("POST", at+"/cancel", "").Wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
	if !cmp.Equal(p.AllowedActions, apitest.Texts(want)) {
		t.Errorf("allowed_actions = %v, want %v", p.AllowedActions, want)
	}
	mu.Lock()
	repaired = true
	mu.Unlock()
	if r := e.Send("POST", at+"/resume-compensation", ""); r.Status != http.StatusAccepted {
		t.Fatalf("resume: %d %s", r.Status, r.Body)
	}
	if s = e.Saga(at + "?wait=5s"); s.State != client.SagaStateCompensated || s.NeedsAttention {
		t.Errorf("after: %s, needs attention %t", s.State, s.NeedsAttention)
	}
}

func TestIfMatchGuardsActions(t *testing.T) {
	e := apitest.NewEdge(t)
	at, g := apitest.Held(t, e, nil)
	defer close(g.Open)
	for _, stale := range []string{`"2"`, `W/"1"`, `"0", "17"`} {
		e.Send("POST", at+"/cancel", "", "If-Match", stale).Wants(http.StatusPreconditionFailed, "SAGA_VERSION_CONFLICT")
	}
	if s := e.Saga(at); s.Version != 1 {
		t.Fatalf("a refused action changed the saga to version %d", s.Version)
	}
	if r := e.Send("POST", at+"/cancel", "", "If-Match", `"9", "1"`); r.Status != http.StatusAccepted {
		t.Errorf("with the current version: %d %s", r.Status, r.Body)
	}
	// "*" matches any version, so the action is refused because of the state.
	e.Send("POST", at+"/cancel", "", "If-Match", "*").Wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
}

func TestIfNoneMatchOmitsTheBody(t *testing.T) {
	e := apitest.NewEdge(t)
	at, g := apitest.Held(t, e, nil)
	defer close(g.Open)
	for _, path := range []string{at, at + "/steps", at + "/step-logs", apitest.WorkflowsPath + "/order",
		apitest.WorkflowsPath + "/order/versions/1", "/openapi.json"} {
		tag := e.Send("GET", path, "").Header.Get("ETag")
		for _, header := range []string{tag, "W/" + strings.TrimPrefix(tag, "W/"), `"x", ` + tag, "*"} {
			r := e.Send("GET", path, "", "If-None-Match", header)
			if r.Status != http.StatusNotModified || len(r.Body) > 0 || r.Header.Get("ETag") != tag {
				t.Errorf("%s with %s: %d, ETag %q, %d bytes", path, header, r.Status, r.Header.Get("ETag"), len(r.Body))
			}
		}
		if r := e.Send("GET", path, "", "If-None-Match", `"other"`); r.Status != http.StatusOK {
			t.Errorf("%s with another tag: %d", path, r.Status)
		}
	}
}

func TestTheSameKeyMakesOneSaga(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	first := e.Start(`{"workflow_name":"order","payload":{"a":1,"bb":2}}`, "Idempotency-Key", "k-1")
	e.Send("POST", apitest.WorkflowsPath+"/order/disable", "")
	// This is the same request: the order of members, blanks, and a workflow disabled in the
	// meantime make no difference.
	r := e.Send("POST", apitest.SagasPath, `{"payload": {"bb": 2, "a": 1}, "workflow_name": "order"}`, "Idempotency-Key", "k-1")
	var again client.Saga
	r.Into(&again)
	if r.Status != http.StatusCreated || again.SagaID != first.SagaID || r.Header.Get("Idempotent-Replayed") != "true" ||
		r.Header.Get("Location") == "" {
		t.Errorf("replay: %d %s %v", r.Status, again.SagaID, r.Header)
	}
	r = e.Send("POST", apitest.SagasPath+"?wait=5s", `{"payload":{"a":1,"bb":2},"workflow_name":"order"}`, "Idempotency-Key", "k-1")
	r.Into(&again)
	if again.SagaID != first.SagaID || again.Status != client.SagaStatusCOMPLETED || len(again.StepLogs) != 1 {
		t.Errorf("a waiting replay: %s", r.Body)
	}
	e.Send("POST", apitest.SagasPath, `{"payload":{"a":2,"bb":2},"workflow_name":"order"}`, "Idempotency-Key", "k-1").
		Wants(http.StatusUnprocessableEntity, "REQ_IDEMPOTENCY_KEY_REUSED")
	if found, err := e.Store.Sagas.List(t.Context(), apitest.Tenant.ID,
		saga.Filter{ByTime: page.ByTime{Limit: 10}}); err != nil ||
		len(found.Items) != 1 {
		t.Errorf("%d sagas, %v; want one", len(found.Items), err)
	}
}

func TestARefusedRequestDoesNotConsumeItsKey(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Send("POST", apitest.SagasPath, `{"workflow_name":"order"}`, "Idempotency-Key",
		"k-1").Wants(http.StatusUnprocessableEntity, "WORKFLOW_NOT_FOUND")
	e.Register("order", "reserve")
	if r := e.Send("POST", apitest.SagasPath, `{"workflow_name":"order"}`, "Idempotency-Key",
		"k-1"); r.Status != http.StatusCreated || r.Header.Get("Idempotent-Replayed") != "" {
		t.Errorf("got %d %v", r.Status, r.Header)
	}
}

func TestOfManyRequestsWithOneKeyOneIsStored(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	ids := make(chan string, 32)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			r := e.Send("POST", apitest.SagasPath, `{"workflow_name":"order"}`, "Idempotency-Key", "k-1")
			if r.Status == http.StatusCreated {
				var s client.Saga
				r.Into(&s)
				ids <- s.SagaID.String()
				return
			}
			if r.Wants(http.StatusConflict, "REQ_IDEMPOTENCY_KEY_IN_USE"); r.Header.Get("Retry-After") == "" {
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
	e := apitest.NewEdge(t)
	at, g := apitest.Held(t, e, nil)
	defer close(g.Open)
	for i, replayed := range []string{"", "true", "true"} {
		r := e.Send("POST", at+"/cancel", `{"reason":"x"}`, "Idempotency-Key", "k-1")
		if r.Status != http.StatusAccepted || r.Header.Get("Idempotent-Replayed") != replayed ||
			r.Header.Get("ETag") != `"2"` {
			t.Errorf("request %d: %d %v", i, r.Status, r.Header)
		}
	}
	e.Send("POST", at+"/cancel", `{"reason":"y"}`, "Idempotency-Key", "k-1").Wants(http.StatusUnprocessableEntity,
		"REQ_IDEMPOTENCY_KEY_REUSED")
	// Each route has separate keys, and a different saga makes a different request.
	e.Send("POST", at+"/compensate", `{"reason":"x"}`, "Idempotency-Key", "k-1").Wants(http.StatusConflict,
		"SAGA_STATE_CONFLICT")
	e.Send("POST", apitest.MissingSaga+"/cancel", `{"reason":"x"}`, "Idempotency-Key",
		"k-1").Wants(http.StatusUnprocessableEntity, "REQ_IDEMPOTENCY_KEY_REUSED")
}
