package sagaapi_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
)

const because = `{"reason":"because"}`

// dirty starts a saga of workflow order whose second step and first compensation are refused until
// repaired is set.
func dirty(e *apitest.Edge) (at string, repaired *atomic.Bool, calls *[]saga.Call) {
	e.T.Helper()
	repaired, calls = new(atomic.Bool), new([]saga.Call)
	e.Register("order", "reserve", "pay", "ship")
	e.Node.Script = func(c saga.Call) saga.Outcome {
		*calls = append(*calls, c)
		if !repaired.Load() && (c.Step == "pay" || c.Action == saga.Compensate) {
			return apitest.Refused()
		}
		return apitest.Done(`{"step":"` + c.Step + `"}`)
	}
	s := e.Start(`{"workflow_name":"order","payload":{"card":"old","n":1}}`)
	at = apitest.SagasPath + "/" + s.SagaID.String()
	if s = e.Saga(at + "?wait=5s"); s.State != client.SagaStateFailed {
		e.T.Fatalf("the saga is %s", s.State)
	}
	return at, repaired, calls
}

func TestRetryRunsForwardAgainWithAnotherInput(t *testing.T) {
	e := apitest.NewEdge(t)
	at, repaired, calls := dirty(e)
	repaired.Store(true)
	before := len(*calls)
	r := e.Send("POST", at+"/retry", `{"reason":"new card","input_patch":{"card":"new","n":null}}`)
	if r.Status != http.StatusAccepted {
		t.Fatalf("retry: %d %s", r.Status, r.Body)
	}
	s := e.Saga(at + "?wait=5s")
	if s.State != client.SagaStateCompleted || s.NeedsAttention || s.Error != nil {
		t.Fatalf("ended %s: %s", s.State, r.Body)
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
	e := apitest.NewEdge(t)
	at, repaired, calls := dirty(e)
	repaired.Store(true)
	before := len(*calls)
	if r := e.Send("POST", at+"/retry", `{"from_step":"reserve"}`); r.Status != http.StatusAccepted {
		t.Fatalf("retry: %d %s", r.Status, r.Body)
	}
	if s := e.Saga(at + "?wait=5s"); s.State != client.SagaStateCompleted {
		t.Fatalf("ended %s", s.State)
	}
	var got []string
	for _, c := range (*calls)[before:] {
		_, key, _ := strings.Cut(c.Key, "/")
		got = append(got, key)
	}
	if diff := cmp.Diff([]string{"reserve/compensate", "reserve/execute#2", "pay/execute#2", "ship/execute"},
		got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	p := e.Send("POST", at+"/retry", "").Wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
	if len(p.AllowedActions) != 0 {
		t.Errorf("a completed saga allows %v", p.AllowedActions)
	}
}

func TestRetryRefusesStepsThatDoNotExist(t *testing.T) {
	e := apitest.NewEdge(t)
	at, _, _ := dirty(e)
	for _, step := range []string{`"nothing"`, `"3"`, `3`, `"-1"`} {
		e.Send("POST", at+"/retry", `{"from_step":`+step+`}`).Wants(http.StatusUnprocessableEntity, "SAGA_NO_SUCH_STEP")
	}
	e.Send("POST", at+"/retry", `{"from_step":-1}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	e.Send("POST", at+"/retry", `{"from_step":"ship"}`).Wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
}

func TestStepsAreDecidedByAnOperator(t *testing.T) {
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
			e := apitest.NewEdge(t)
			at, g := apitest.Held(t, e, func(c saga.Call) saga.Outcome {
				if c.Step == "reserve" && c.Action == saga.Execute {
					return late(c)
				}
				return apitest.Done("null")
			})
			path := at + "/steps/reserve/" + tt.verb
			e.Send("POST", path, `{}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
			e.Send("POST", at+"/steps/nothing/"+tt.verb, because).Wants(http.StatusNotFound, "SAGA_NO_SUCH_STEP")
			e.Send("POST", at+"/steps/pay/"+tt.verb, because).Wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
			if r := e.Send("POST", path, tt.body); r.Status != http.StatusAccepted {
				t.Fatalf("%s: %d %s", tt.verb, r.Status, r.Body)
			}
			close(g.Open)
			s := e.Saga(at + "?wait=5s")
			if string(s.State) != tt.state {
				t.Fatalf("ended %s, want %s", s.State, tt.state)
			}
			found := false
			for _, l := range s.StepLogs {
				found = found || string(l.Status) == tt.log && l.OutcomeCode != nil && *l.OutcomeCode == "operator" &&
					l.StepName == "reserve"
			}
			if !found {
				t.Errorf("no log %s of the operator: %+v", tt.log, s.StepLogs)
			}
		})
	}
}

func TestASuspendedSagaSendsNothingUntilResumed(t *testing.T) {
	e := apitest.NewEdge(t)
	at, g := apitest.Held(t, e, nil)
	r := e.Send("POST", at+"/suspend", because)
	var s client.Saga
	if r.Into(&s); r.Status != http.StatusAccepted || s.SuspendedAt == nil {
		t.Fatalf("suspend: %d %s", r.Status, r.Body)
	}
	e.Send("POST", at+"/suspend", "").Wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
	close(g.Open)
	e.Node.Rest()
	if s = e.Saga(at); s.CurrentStep != 1 || s.SuspendedAt == nil || len(g.Reached) != 0 {
		t.Fatalf("the answer was not recorded, or something was sent: %+v", s)
	}
	if r := e.Send("POST", at+"/resume", `{"keep_deadline":true}`); r.Status != http.StatusAccepted {
		t.Fatalf("resume: %d %s", r.Status, r.Body)
	}
	if s = e.Saga(at + "?wait=5s"); s.State != client.SagaStateCompleted || s.SuspendedAt != nil {
		t.Errorf("ended %s", s.State)
	}
}

func TestDeadlinesCanBeSet(t *testing.T) {
	e := apitest.NewEdge(t)
	at, g := apitest.Held(t, e, nil)
	defer close(g.Open)
	for _, body := range []string{`{}`, `{"timeout_ms":5,"until":"2100-01-01T00:00:00Z"}`, `{"until":"2000-01-01T00:00:00Z"}`, `{"until":"2100-01-01T00:00:00Z"}`} {
		e.Send("POST", at+"/extend-deadline", body).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	}
	before := e.Saga(at)
	if r := e.Send("POST", at+"/extend-deadline", `{"timeout_ms":86400000}`); r.Status != http.StatusAccepted {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	s := e.Saga(at)
	if later := s.TimeoutAt.Sub(*before.TimeoutAt).Hours(); later < 22 || later > 24 {
		t.Errorf("the deadline moved from %s to %s", before.TimeoutAt, s.TimeoutAt)
	}
}

func TestForcedEnds(t *testing.T) {
	e := apitest.NewEdge(t)
	at, g := apitest.Held(t, e, nil)
	for _, path := range []string{at + "/force-complete", at + "/force-fail"} {
		for _, body := range []string{`{"requested_by":"ann"}`, `{"reason":" "}`} {
			apitest.WantsReason(t, e.Send("POST", path, body))
		}
	}
	e.Send("GET", at+"/result", "").Wants(http.StatusConflict, "SAGA_HAS_NO_RESULT")
	if r := e.Send("POST", at+"/force-complete", `{"reason":"done by hand","result":{"order":17}}`); r.Status != http.StatusAccepted {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if r := e.Send("GET", at+"/result", ""); strings.TrimSpace(string(r.Body)) != `{"order":17}` {
		t.Errorf("result: %d %s", r.Status, r.Body)
	}
	close(g.Open)
	e.Node.Rest()
	other, g := apitest.Held(t, e, nil)
	if r := e.Send("POST", other+"/force-fail", because); r.Status != http.StatusAccepted {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	s := e.Saga(other)
	if s.State != client.SagaStateFailed || !s.NeedsAttention || *s.Clean || !strings.Contains(*s.ErrorMessage, "forced to fail by anonymous: because") {
		t.Errorf("force-fail: %+v", s)
	}
	if r := e.Send("POST", other+"/acknowledge", ""); r.Status != http.StatusAccepted {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if s := e.Saga(other); s.NeedsAttention {
		t.Error("it still needs attention")
	}
	close(g.Open)
}

func TestADryRunChangesNothingAndPredictsTheCalls(t *testing.T) {
	e := apitest.NewEdge(t)
	at, repaired, calls := dirty(e)
	before := e.Saga(at)
	r := e.Send("POST", at+"/retry?dry_run=true", `{"input_patch":{"card":"new"}}`, "Idempotency-Key", "k-1")
	var f client.DryRunResult
	if r.Into(&f); r.Status != http.StatusOK || f.State != "running" || f.EndState != "completed" || len(f.Calls) != 2 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	r = e.Send("POST", at+"/resume-compensation?dry_run=true", "")
	var undo client.DryRunResult
	if r.Into(&undo); r.Status != http.StatusOK || undo.EndState != "compensated" || len(undo.Calls) != 1 ||
		undo.Calls[0].Body == nil {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	e.Send("POST", at+"/cancel?dry_run=true", "").Wants(http.StatusConflict, "SAGA_STATE_CONFLICT")
	e.Send("POST", at+"/retry?dry_run=maybe", "").Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	if after := e.Saga(at); after.Version != before.Version {
		t.Fatalf("a dry run made version %d of %d", after.Version, before.Version)
	}
	// The predicted calls are made, byte for byte.
	repaired.Store(true)
	n := len(*calls)
	if r := e.Send("POST", at+"/retry", `{"input_patch":{"card":"new"}}`, "Idempotency-Key", "k-1"); r.Status != http.StatusAccepted ||
		r.Header.Get("Idempotent-Replayed") != "" {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	e.Saga(at + "?wait=5s")
	for i, c := range (*calls)[n:] {
		want := f.Calls[i]
		if c.Key != want.Headers["Idempotency-Key"] || c.By.HTTP.URL != want.URL || want.Body != nil &&
			string(c.Body) != string(want.Body) {
			t.Errorf("call %d: predicted %+v %s, made %s %s", i, want, want.Body, c.Key, c.Body)
		}
	}
	if f.Calls[0].Body == nil || f.Calls[1].Body != nil {
		t.Error("want the first body, and none for the second, which depends on a response")
	}
}

func TestExplainReportsWhatASagaWaitsFor(t *testing.T) {
	e := apitest.NewEdge(t)
	at, g := apitest.Held(t, e, nil)
	explain := func() (x client.SagaExplanation) {
		t.Helper()
		r := e.Send("GET", at+"/explain", "")
		if r.Into(&x); r.Status != http.StatusOK {
			t.Fatalf("%d %s", r.Status, r.Body)
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
	e.Send("POST", at+"/suspend", "")
	if x = explain(); x.WaitsFor != "resume" {
		t.Errorf("suspended: %+v", x)
	}
	e.Send("POST", at+"/resume", "")
	e.Send("POST", at+"/cancel", "")
	if x = explain(); x.WaitsFor != "turn" || !strings.Contains(x.Summary, "cancelled") {
		t.Errorf("flagged: %+v", x)
	}
	close(g.Open)
	e.Saga(at + "?wait=5s")
	if x = explain(); x.WaitsFor != "nothing" || len(x.Actions) != 0 {
		t.Errorf("ended: %+v", x)
	}
	at, _, _ = dirty(e)
	if x = explain(); x.WaitsFor != "operator" || len(x.Errors) != 2 || !strings.Contains(x.Summary, `compensation of step "reserve" gave up`) {
		t.Errorf("dirty: %+v", x)
	}
	e.Send("GET", apitest.MissingSaga+"/explain", "").Wants(http.StatusNotFound, "SAGA_NOT_FOUND")
}

func TestADeclaredOutputIsTheResult(t *testing.T) {
	e := apitest.NewEdge(t)
	doc := strings.TrimSuffix(apitest.Definition("order", "reserve"), "}") + `,"output":{"order_id":"${steps.reserve.id}","of":"${payload.customer.name}","all":"${steps.reserve}","none":"${payload.x.y}","text":"$${kept}"}}`
	if r := e.Send("POST", apitest.WorkflowsPath, doc); r.Status != http.StatusCreated {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	e.Node.Script = func(saga.Call) saga.Outcome { return apitest.Done(`{"id":1.50}`) }
	s := e.Start(`{"workflow_name":"order","payload":{"customer":{"name":"Ann"}},"retry_policy":{"max_attempts":7}}`)
	s = e.Saga(apitest.SagasPath + "/" + s.SagaID.String() + "?wait=5s")
	want := `{"of":"Ann","all":{"id":1.50},"none":null,"text":"${kept}","order_id":1.50}`
	if string(s.Result) != want || s.RetryPolicy == nil || s.RetryPolicy.MaxAttempts == nil ||
		*s.RetryPolicy.MaxAttempts != 7 {
		t.Errorf("result %s, want %s; policy %+v", s.Result, want, s.RetryPolicy)
	}
	r := e.Send("GET", apitest.SagasPath+"/"+s.SagaID.String()+"/result", "")
	if r.Status != http.StatusOK || string(r.Body) != want {
		t.Errorf("/result: %d %s", r.Status, r.Body)
	}
	for _, bad := range []string{`"${steps.nobody.id}"`, `"${payload"`, `"${env.HOME}"`, `{"deep":["${steps.}"]}`} {
		doc := strings.TrimSuffix(apitest.Definition("other", "reserve"), "}") + `,"output":{"x":` + bad + `}}`
		e.Send("POST", apitest.WorkflowsPath, doc).Wants(http.StatusUnprocessableEntity, "WORKFLOW_INVALID")
	}
}
