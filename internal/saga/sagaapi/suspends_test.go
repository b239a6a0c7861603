package sagaapi_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// TestAFailureThatSuspends checks what the API returns for a saga that was suspended by a failed
// step, and for one that has passed its pivot, and which actions are possible.
func TestAFailureThatSuspends(t *testing.T) {
	e := apitest.NewEdge(t)
	call := func(path string) string { return `{"http":{"url":"http://127.0.0.1:9/` + path + `"}}` }
	e.Send("POST", apitest.WorkflowsPath, `{"name":"order","steps":[
		{"name":"pay","action":`+call("pay")+`,"compensation":`+call("refund")+`,"on_failure":"suspend"},
		{"name":"ship","pivot":true,"action":`+call("ship")+`,"compensation":"none"},
		{"name":"tell","action":`+call("tell")+`,"compensation":"none"}]}`).Wants2xx()
	var repaired, told atomic.Bool
	e.Node.Script = func(c saga.Call) saga.Outcome {
		if c.Step == "pay" && !repaired.Load() || c.Step == "tell" && !told.Load() {
			return apitest.Refused()
		}
		return apitest.Done(`{}`)
	}
	stopped := func(at string) client.Saga { // waits until the driver's call has ended
		s := e.Saga(at)
		for s.SuspendedAt == nil {
			s = e.Saga(at + "?wait=100ms")
		}
		return s
	}
	start := func() string { return apitest.SagasPath + "/" + e.Start(`{"workflow_name":"order"}`).SagaID.String() }
	has := func(s client.Saga, a client.SagaAction) bool { return slices.Contains(s.AllowedActions, a) }

	body := func(method, path, sent string) string {
		r := e.Send(method, path, sent)
		r.Wants2xx()
		return string(r.Body)
	}

	at := start()
	s := stopped(at)
	if s.State != client.SagaStateRunning || !s.NeedsAttention || *s.AttentionReason != "step_failed" || s.Error == nil ||
		!strings.Contains(s.Error.Message, `step "pay"`) || !has(s, "retry") || !has(s, "compensate") || s.EndCause != nil {
		t.Fatalf("%+v", s)
	}
	x := body("GET", at+"/explain", "")
	if !strings.Contains(x, `"waits_for":"operator"`) || !strings.Contains(x, "retry, complete or skip the step, or compensate") {
		t.Errorf("explain: %s", x)
	}
	dry := body("POST", at+"/retry?dry_run=true", because)
	for _, want := range []string{`"end_state":"completed"`, `"member":"suspended_at"`, `"member":"attention_reason"`} {
		if !strings.Contains(dry, want) {
			t.Errorf("the dry run does not say %s: %s", want, dry)
		}
	}
	feed := body("GET", at+"/events", "")
	if !strings.Contains(feed, "saga.attention_raised") || !strings.Contains(feed, `"reason":"step_failed"`) {
		t.Errorf("events: %s", feed)
	}
	e.Send("POST", at+"/compensate", because).Wants2xx()
	if s = e.Saga(at + "?wait=5s"); s.State != client.SagaStateCompensated || s.NeedsAttention || s.Error.Cause == nil {
		t.Fatalf("compensated: %+v", s)
	}

	repaired.Store(true)
	at = start()
	if s = stopped(at); *s.CurrentStepName != "tell" || has(s, "cancel") || has(s, "compensate") || has(s, "fail-step") {
		t.Fatalf("after the pivot: %+v", s)
	}
	for _, verb := range []string{"/cancel", "/compensate", "/cancel?dry_run=true", "/steps/tell/fail"} {
		e.Send("POST", at+verb, because).Wants(http.StatusConflict, "SAGA_PIVOT_PASSED")
	}
	told.Store(true)
	e.Send("POST", at+"/retry", because).Wants2xx()
	if s = e.Saga(at + "?wait=5s"); s.State != client.SagaStateCompleted || s.NeedsAttention || s.Error != nil {
		t.Fatalf("%+v", s)
	}
	told.Store(false)
	at = start()
	stopped(at)
	e.Send("POST", at+"/force-fail", because).Wants2xx()
	e.Send("POST", at+"/resume-compensation", because).Wants(http.StatusConflict, "SAGA_PIVOT_PASSED")
	e.Send("POST", at+"/retry", `{"from_step":"pay"}`).Wants(http.StatusConflict, "SAGA_PIVOT_PASSED")
	told.Store(true)
	e.Send("POST", at+"/retry", because).Wants2xx()
	if s = e.Saga(at + "?wait=5s"); s.State != client.SagaStateCompleted {
		t.Fatalf("%+v", s)
	}
}
