package httpapi_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

const because = `{"reason":"because"}`

// dirty starts a saga of workflow order whose second step and first undo are
// refused until it is repaired.
func dirty(e *edge) (at string, repaired *atomic.Bool, calls *[]saga.Call) {
	e.t.Helper()
	repaired, calls = new(atomic.Bool), new([]saga.Call)
	e.register("order", "reserve", "pay", "ship")
	e.node.script = func(c saga.Call) saga.Outcome {
		*calls = append(*calls, c)
		if !repaired.Load() && (c.Step == "pay" || c.Action == saga.Compensate) {
			return refused()
		}
		return done(`{"step":"` + c.Step + `"}`)
	}
	s := e.start(`{"workflow_name":"order","payload":{"card":"old","n":1}}`)
	at = sagas + "/" + s.SagaID.String()
	if s = e.saga(at + "?wait=5s"); s.State != client.SagaStateFailed {
		e.t.Fatalf("the saga is %s", s.State)
	}
	return at, repaired, calls
}

func TestRetryGoesForwardAgainWithAnotherInput(t *testing.T) {
	e := newEdge(t)
	at, repaired, calls := dirty(e)
	repaired.Store(true)
	before := len(*calls)
	r := e.send("POST", at+"/retry", `{"reason":"new card","input_patch":{"card":"new","n":null}}`)
	if r.status != http.StatusAccepted {
		t.Fatalf("retry: %d %s", r.status, r.body)
	}
	s := e.saga(at + "?wait=5s")
	if s.State != client.SagaStateCompleted || s.NeedsAttention || s.Error != nil {
		t.Fatalf("ended %s: %s", s.State, r.body)
	}
	var got []string
	for _, c := range (*calls)[before:] {
		_, key, _ := strings.Cut(c.Key, "/")
		got = append(got, key)
	}
	if diff := cmp.Diff([]string{"pay/execute#2", "ship/execute"}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if body := string((*calls)[before].Body); !strings.Contains(body, `"payload":{"card":"new"}`) {
		t.Errorf("the patched call got %s", body)
	}
	if body := string((*calls)[before+1].Body); !strings.Contains(body, `"payload":{"n":1,"card":"old"}`) {
		t.Errorf("the step after it got %s", body)
	}
}

func TestRetryFromAnEarlierStepUndoesItFirst(t *testing.T) {
	e := newEdge(t)
	at, repaired, calls := dirty(e)
	repaired.Store(true)
	before := len(*calls)
	if r := e.send("POST", at+"/retry", `{"from_step":"reserve"}`); r.status != http.StatusAccepted {
		t.Fatalf("retry: %d %s", r.status, r.body)
	}
	if s := e.saga(at + "?wait=5s"); s.State != client.SagaStateCompleted {
		t.Fatalf("ended %s", s.State)
	}
	var got []string
	for _, c := range (*calls)[before:] {
		_, key, _ := strings.Cut(c.Key, "/")
		got = append(got, key)
	}
	if diff := cmp.Diff([]string{"reserve/compensate", "reserve/execute#2", "pay/execute#2", "ship/execute"}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	p := e.send("POST", at+"/retry", "").wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
	if len(p.AllowedActions) != 0 {
		t.Errorf("a completed saga allows %v", p.AllowedActions)
	}
}

func TestRetryRefusesStepsThatDoNotExist(t *testing.T) {
	e := newEdge(t)
	at, _, _ := dirty(e)
	for _, step := range []string{`"nothing"`, `"3"`, `3`, `"-1"`} {
		e.send("POST", at+"/retry", `{"from_step":`+step+`}`).wants(http.StatusUnprocessableEntity, "SAGA_NO_SUCH_STEP")
	}
	e.send("POST", at+"/retry", `{"from_step":-1}`).wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	e.send("POST", at+"/retry", `{"from_step":"ship"}`).wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
}

func TestStepsAreDecidedByHand(t *testing.T) {
	late := func(saga.Call) saga.Outcome {
		return saga.Outcome{Verdict: saga.Unknown, Class: retry.Timeout, Code: "timeout", Message: "no answer"}
	}
	for _, tt := range []struct {
		verb, body, state, log string
	}{
		{"skip", because, "completed", "SKIPPED"},
		{"complete", `{"reason":"by phone","output":{"id":7}}`, "completed", "SUCCESS"},
		{"fail", because, "compensated", "FAILED"},
	} {
		t.Run(tt.verb, func(t *testing.T) {
			e := newEdge(t)
			at, g := held(t, e, func(c saga.Call) saga.Outcome {
				if c.Step == "reserve" && c.Action == saga.Execute {
					return late(c)
				}
				return done("null")
			})
			path := at + "/steps/reserve/" + tt.verb
			e.send("POST", path, `{}`).wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
			e.send("POST", at+"/steps/nothing/"+tt.verb, because).wants(http.StatusNotFound, "SAGA_NO_SUCH_STEP")
			e.send("POST", at+"/steps/pay/"+tt.verb, because).wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
			if r := e.send("POST", path, tt.body); r.status != http.StatusAccepted {
				t.Fatalf("%s: %d %s", tt.verb, r.status, r.body)
			}
			close(g.open)
			s := e.saga(at + "?wait=5s")
			if string(s.State) != tt.state {
				t.Fatalf("ended %s, want %s", s.State, tt.state)
			}
			found := false
			for _, l := range s.StepLogs {
				found = found || string(l.Status) == tt.log && l.OutcomeCode != nil && *l.OutcomeCode == "operator" && l.StepName == "reserve"
			}
			if !found {
				t.Errorf("no log %s of the operator: %+v", tt.log, s.StepLogs)
			}
		})
	}
}

func TestSuspendedIsQuietUntilResumed(t *testing.T) {
	e := newEdge(t)
	at, g := held(t, e, nil)
	r := e.send("POST", at+"/suspend", because)
	var s client.Saga
	if r.into(&s); r.status != http.StatusAccepted || s.SuspendedAt == nil {
		t.Fatalf("suspend: %d %s", r.status, r.body)
	}
	e.send("POST", at+"/suspend", "").wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
	close(g.open)
	e.node.rest()
	if s = e.saga(at); s.CurrentStep != 1 || s.SuspendedAt == nil || len(g.reached) != 0 {
		t.Fatalf("the answer was not recorded, or something was sent: %+v", s)
	}
	if r := e.send("POST", at+"/resume", `{"keep_deadline":true}`); r.status != http.StatusAccepted {
		t.Fatalf("resume: %d %s", r.status, r.body)
	}
	if s = e.saga(at + "?wait=5s"); s.State != client.SagaStateCompleted || s.SuspendedAt != nil {
		t.Errorf("ended %s", s.State)
	}
}

func TestDeadlinesCanBeSet(t *testing.T) {
	e := newEdge(t)
	at, g := held(t, e, nil)
	defer close(g.open)
	for _, body := range []string{`{}`, `{"timeout_ms":5,"until":"2100-01-01T00:00:00Z"}`, `{"until":"2000-01-01T00:00:00Z"}`, `{"until":"2100-01-01T00:00:00Z"}`} {
		e.send("POST", at+"/extend-deadline", body).wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	}
	before := e.saga(at)
	if r := e.send("POST", at+"/extend-deadline", `{"timeout_ms":86400000}`); r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if s := e.saga(at); s.TimeoutAt.Sub(*before.TimeoutAt).Hours() < 22 {
		t.Errorf("the deadline moved from %s to %s", before.TimeoutAt, s.TimeoutAt)
	}
}

func TestForcedEnds(t *testing.T) {
	e := newEdge(t)
	at, g := held(t, e, nil)
	for _, path := range []string{at + "/force-complete", at + "/force-fail"} {
		for _, body := range []string{`{"requested_by":"ann"}`, `{"reason":" "}`} {
			wantsReason(t, e.send("POST", path, body))
		}
	}
	e.send("GET", at+"/result", "").wants(http.StatusConflict, "SAGA_HAS_NO_RESULT")
	if r := e.send("POST", at+"/force-complete", `{"reason":"done by hand","result":{"order":17}}`); r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := e.send("GET", at+"/result", ""); strings.TrimSpace(string(r.body)) != `{"order":17}` {
		t.Errorf("result: %d %s", r.status, r.body)
	}
	close(g.open)
	e.node.rest()
	other, g := held(t, e, nil)
	if r := e.send("POST", other+"/force-fail", because); r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.body)
	}
	s := e.saga(other)
	if s.State != client.SagaStateFailed || !s.NeedsAttention || *s.Clean || !strings.Contains(*s.ErrorMessage, "forced to fail by anonymous: because") {
		t.Errorf("force-fail: %+v", s)
	}
	if r := e.send("POST", other+"/acknowledge", ""); r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if s := e.saga(other); s.NeedsAttention {
		t.Error("it needs attention still")
	}
	close(g.open)
}

func TestADryRunChangesNothingAndForetellsTheCalls(t *testing.T) {
	e := newEdge(t)
	at, repaired, calls := dirty(e)
	before := e.saga(at)
	r := e.send("POST", at+"/retry?dry_run=true", `{"input_patch":{"card":"new"}}`, "Idempotency-Key", "k-1")
	var f client.DryRunResult
	if r.into(&f); r.status != http.StatusOK || f.State != "running" || f.EndState != "completed" || len(f.Calls) != 2 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	r = e.send("POST", at+"/resume-compensation?dry_run=true", "")
	var undo client.DryRunResult
	if r.into(&undo); r.status != http.StatusOK || undo.EndState != "compensated" || len(undo.Calls) != 1 || undo.Calls[0].Body == nil {
		t.Fatalf("%d %s", r.status, r.body)
	}
	e.send("POST", at+"/cancel?dry_run=true", "").wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
	e.send("POST", at+"/retry?dry_run=maybe", "").wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	if after := e.saga(at); after.Version != before.Version {
		t.Fatalf("a dry run made version %d of %d", after.Version, before.Version)
	}
	// What was foretold happens, byte for byte.
	repaired.Store(true)
	n := len(*calls)
	if r := e.send("POST", at+"/retry", `{"input_patch":{"card":"new"}}`, "Idempotency-Key", "k-1"); r.status != http.StatusAccepted || r.header.Get("Idempotent-Replayed") != "" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	e.saga(at + "?wait=5s")
	for i, c := range (*calls)[n:] {
		want := f.Calls[i]
		if c.Key != want.Headers["Idempotency-Key"] || c.HTTP.URL != want.URL || want.Body != nil && string(c.Body) != string(want.Body) {
			t.Errorf("call %d: foretold %+v %s, made %s %s", i, want, want.Body, c.Key, c.Body)
		}
	}
	if f.Calls[0].Body == nil || f.Calls[1].Body != nil {
		t.Error("the first body is known, the second depends on an answer")
	}
}

func TestExplainSaysWhatASagaWaitsFor(t *testing.T) {
	e := newEdge(t)
	at, g := held(t, e, nil)
	explain := func() (x client.SagaExplanation) {
		t.Helper()
		r := e.send("GET", at+"/explain", "")
		if r.into(&x); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return x
	}
	x := explain()
	if x.Step == nil || x.Owner == nil || x.Deadline == nil {
		t.Fatalf("in flight: %+v", x)
	}
	want := *x.Step
	want.Name, want.Attempts, want.MaxAttempts = "reserve", 1, 3
	if diff := cmp.Diff(want, *x.Step); diff != "" || x.WaitsFor != "answer" {
		t.Errorf("in flight, waiting for %s (-want +got):\n%s", x.WaitsFor, diff)
	}
	if !strings.Contains(x.Summary, `attempt 1 of executing step "reserve"`) || len(x.Actions) == 0 {
		t.Errorf("in flight: %q, %v", x.Summary, x.Actions)
	}
	e.send("POST", at+"/suspend", "")
	if x = explain(); x.WaitsFor != "resume" {
		t.Errorf("suspended: %+v", x)
	}
	e.send("POST", at+"/resume", "")
	e.send("POST", at+"/cancel", "")
	if x = explain(); x.WaitsFor != "turn" || !strings.Contains(x.Summary, "cancelled") {
		t.Errorf("flagged: %+v", x)
	}
	close(g.open)
	e.saga(at + "?wait=5s")
	if x = explain(); x.WaitsFor != "nothing" || len(x.Actions) != 0 {
		t.Errorf("ended: %+v", x)
	}
	at, _, _ = dirty(e)
	if x = explain(); x.WaitsFor != "operator" || len(x.Errors) != 2 || !strings.Contains(x.Summary, `compensation of step "reserve" gave up`) {
		t.Errorf("dirty: %+v", x)
	}
	e.send("GET", missing+"/explain", "").wants(http.StatusNotFound, "SAGA_NOT_FOUND")
}

func TestADeclaredOutputIsTheResult(t *testing.T) {
	e := newEdge(t)
	doc := strings.TrimSuffix(definition("order", "reserve"), "}") + `,"output":{"order_id":"${steps.reserve.id}","of":"${payload.customer.name}","all":"${steps.reserve}","none":"${payload.x.y}","text":"$${kept}"}}`
	if r := e.send("POST", workflows, doc); r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	}
	e.node.script = func(saga.Call) saga.Outcome { return done(`{"id":1.50}`) }
	s := e.start(`{"workflow_name":"order","payload":{"customer":{"name":"Ann"}},"retry_policy":{"max_attempts":7}}`)
	s = e.saga(sagas + "/" + s.SagaID.String() + "?wait=5s")
	want := `{"of":"Ann","all":{"id":1.50},"none":null,"text":"${kept}","order_id":1.50}`
	if string(s.Result) != want || s.RetryPolicy == nil || s.RetryPolicy.MaxAttempts == nil || *s.RetryPolicy.MaxAttempts != 7 {
		t.Errorf("result %s, want %s; policy %+v", s.Result, want, s.RetryPolicy)
	}
	r := e.send("GET", sagas+"/"+s.SagaID.String()+"/result", "")
	if r.status != http.StatusOK || string(r.body) != want {
		t.Errorf("/result: %d %s", r.status, r.body)
	}
	for _, bad := range []string{`"${steps.nobody.id}"`, `"${payload"`, `"${env.HOME}"`, `{"deep":["${steps.}"]}`} {
		doc := strings.TrimSuffix(definition("other", "reserve"), "}") + `,"output":{"x":` + bad + `}}`
		e.send("POST", workflows, doc).wants(http.StatusUnprocessableEntity, "WORKFLOW_INVALID")
	}
}
