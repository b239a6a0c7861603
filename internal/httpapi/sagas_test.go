package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/saga"
)

func ptr[T any](v T) *T { return &v }

func TestACreatedSagaIsAnsweredWhole(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve", "pay")
	g := newGate(nil)
	e.node.script = g.script
	defer close(g.open)

	res, err := e.CreateSagaWithResponse(t.Context(), &client.CreateSagaParams{
		Traceparent: ptr("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
	}, client.SagaInput{
		WorkflowName: ptr("order"), CorrelationID: ptr("c-1"), InitiatedBy: ptr("shop"), BusinessKey: ptr("b-1"),
		Name: ptr("an order"), Description: ptr("described"), SagaType: ptr("kind"), TimeoutMS: ptr(int64(5000)),
		Metadata: client.JSONObject(`{"region":"eu"}`), Payload: client.AnyJSON(`{"amount":1}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := res.JSON201
	if s == nil {
		t.Fatalf("status %d: %s", res.StatusCode(), res.Body)
	}
	want := client.Saga{
		SagaID: s.SagaID, WorkflowName: "order", WorkflowVersion: 1, DefinitionID: "order@1", SagaType: "kind",
		Name: ptr("an order"), Description: ptr("described"), BusinessKey: ptr("b-1"), CorrelationID: ptr("c-1"), InitiatedBy: "shop",
		TraceID: ptr("0af7651916cd43dd8448eb211c80319c"), SpanID: ptr("b7ad6b7169203331"),
		Payload: client.AnyJSON(`{"amount":1}`), Metadata: client.JSONObject(`{"region":"eu"}`),
		Status: client.SagaStatusSTARTED, State: client.SagaStatePending, Lifecycle: client.SagaLifecycleActive,
		CurrentStepName: ptr("reserve"), TotalSteps: 2, TimeoutMS: ptr(int64(5000)), TimeoutAt: s.TimeoutAt,
		CreatedAt: s.CreatedAt, StartedAt: s.StartedAt, UpdatedAt: s.CreatedAt, Version: 1,
		AllowedActions: []client.SagaAction{
			"cancel", "compensate", "skip-step", "complete-step", "fail-step", "suspend", "extend-deadline", "force-complete", "force-fail",
		},
	}
	if diff := cmp.Diff(want, *s); diff != "" {
		t.Errorf("saga (-want +got):\n%s", diff)
	}
	if got := res.HTTPResponse.Header.Get("Location"); got != "/api/v1/sagas/"+s.SagaID.String() {
		t.Errorf("Location = %q", got)
	}
	if got := res.HTTPResponse.Header.Get("ETag"); got != `"1"` {
		t.Errorf("ETag = %q, want the version in quotes", got)
	}
}

func TestAWaitingCreateAnswersWithTheEnd(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve", "pay")
	e.node.script = func(c saga.Call) saga.Outcome { return done(`{"step":"` + c.Step + `"}`) }
	r := e.send("POST", "/api/v1/sagas?wait=5s", `{"workflow_name":"order"}`)
	var s client.Saga
	r.into(&s)
	if r.status != http.StatusCreated || s.Status != client.SagaStatusCOMPLETED || s.CurrentStepName != nil || s.CurrentStep != 2 {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	if want := `{"pay":{"step":"pay"},"reserve":{"step":"reserve"}}`; string(s.Result) != want {
		t.Errorf("result = %s, want %s", s.Result, want)
	}
	if len(s.StepLogs) != 2 || s.StepLogs[1].StepName != "pay" || s.StepLogs[1].Status != client.StepLogStatusSUCCESS {
		t.Errorf("step_logs = %+v", s.StepLogs)
	}
	if r.header.Get("ETag") == `"1"` {
		t.Errorf("ETag is that of the first version")
	}
}

func TestPreferWaitsLikeTheParameterAndSaysSo(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve")
	r := e.send("POST", "/api/v1/sagas", `{"workflow_name":"order"}`, "Prefer", "respond-async, wait=5")
	var s client.Saga
	r.into(&s)
	if s.Status != client.SagaStatusCOMPLETED || r.header.Get("Preference-Applied") != "wait=5" {
		t.Errorf("status %s, Preference-Applied %q", s.Status, r.header.Get("Preference-Applied"))
	}
}

func TestAWaitThatEndsFirstAnswersWithTheRunningSaga(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve")
	g := newGate(nil)
	e.node.script = g.script
	defer close(g.open)
	for _, path := range []string{"/api/v1/sagas?wait=1ms", "/api/v1/sagas?wait=0s"} {
		r := e.send("POST", path, `{"workflow_name":"order"}`)
		var s client.Saga
		r.into(&s)
		if r.status != http.StatusCreated || s.Status != client.SagaStatusSTARTED {
			t.Errorf("%s: got %d %s, want 201 of a running saga", path, r.status, s.Status)
		}
	}
}

func TestGetWaitsForTheEndAndForTheServersStop(t *testing.T) {
	stopping := make(chan struct{})
	e := newEdge(t, func(c *httpapi.Config) { c.Stopping, c.Limits.MaxWait = stopping, time.Hour })
	e.register("order", "reserve")
	g := newGate(nil)
	e.node.script = g.script
	first := e.start(`{"workflow_name":"order"}`)
	<-g.reached
	answered := make(chan reply)
	go func() { answered <- e.send("GET", "/api/v1/sagas/"+first.SagaID.String()+"?wait=10s", "") }()
	close(g.open)
	var s client.Saga
	(<-answered).into(&s)
	if s.Status != client.SagaStatusCOMPLETED || len(s.StepLogs) != 1 || s.Result == nil {
		t.Errorf("after the end: %s with %d logs", s.Status, len(s.StepLogs))
	}

	held := newGate(nil)
	e.node.script = held.script
	defer close(held.open)
	second := e.start(`{"workflow_name":"order"}`)
	go func() { answered <- e.send("GET", "/api/v1/sagas/"+second.SagaID.String()+"?wait=1h", "") }()
	close(stopping)
	s = client.Saga{}
	(<-answered).into(&s)
	if s.Status != client.SagaStatusSTARTED {
		t.Errorf("a stopping server answered %s", s.Status)
	}
}

// countingSagas counts how often sagas are read.
type countingSagas struct {
	saga.Store
	reads *atomic.Int32
}

func (c countingSagas) Get(ctx context.Context, tenant, id uuid.UUID) (saga.Saga, error) {
	c.reads.Add(1)
	return c.Store.Get(ctx, tenant, id)
}

func TestAWaitingCreateHearsOfTheEndFromTheEngine(t *testing.T) {
	var reads atomic.Int32
	e := newEdge(t, func(c *httpapi.Config) { c.Sagas = countingSagas{c.Sagas, &reads} })
	e.register("order", "reserve")
	e.send("POST", sagas+"?wait=5s", `{"workflow_name":"order"}`)
	if n := reads.Load(); n != 1 {
		t.Errorf("the saga was read %d times, want once, after its end", n)
	}
}

func TestSagasOfAnotherTenantDoNotExist(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve")
	at := sagas + "/" + e.start(`{"workflow_name":"order"}`).SagaID.String()
	foreign := newEdge(t, func(c *httpapi.Config) {
		c.Sagas, c.Workflows, c.Commit = e.cfg.Sagas, e.cfg.Workflows, e.cfg.Commit
		c.Tenant.ID[0] = 7
	})
	for _, path := range []string{at, at + "/steps", at + "/step-logs"} {
		foreign.send("GET", path, "").wants(http.StatusNotFound, "SAGA_NOT_FOUND")
	}
	for _, action := range []string{"cancel", "compensate", "resume-compensation"} {
		foreign.send("POST", at+"/"+action, "").wants(http.StatusNotFound, "SAGA_NOT_FOUND")
	}
	foreign.send("GET", workflows+"/order", "").wants(http.StatusNotFound, "WORKFLOW_NOT_FOUND")
	foreign.send("POST", sagas, `{"workflow_name":"order"}`).wants(http.StatusUnprocessableEntity, "WORKFLOW_NOT_FOUND")
	if n := len(foreign.list("").Sagas); n != 0 {
		t.Errorf("%d foreign sagas are listed", n)
	}
}

func TestARefusedStepShowsWhyAndWhatWasUndone(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve", "note!", "pay")
	e.node.script = refuse("pay", saga.Execute)
	var s client.Saga
	e.send("POST", "/api/v1/sagas?wait=5s", `{"workflow_name":"order"}`).into(&s)
	if s.Status != client.SagaStatusFAILED || s.State != client.SagaStateCompensated || *s.EndCause != client.EndCauseStepFailed || !*s.Clean || s.Result != nil {
		t.Fatalf("ended %s %s %v %v", s.Status, s.State, s.EndCause, s.Clean)
	}
	if s.Error == nil || s.Error.Code != "http_409" || s.ErrorMessage == nil || !strings.Contains(*s.ErrorMessage, "pay") {
		t.Errorf("error = %+v", s.Error)
	}
	var got []string
	for _, l := range s.StepLogs {
		got = append(got, l.StepName+" "+string(l.Action)+" "+string(l.Status))
	}
	want := []string{
		"reserve EXECUTE SUCCESS", "reserve COMPENSATE SUCCESS", "note EXECUTE SUCCESS", "note COMPENSATE SKIPPED", "pay EXECUTE FAILED",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("step logs (-want +got):\n%s", diff)
	}
	var steps client.StepList
	e.send("GET", "/api/v1/sagas/"+s.SagaID.String()+"/steps", "").into(&steps)
	var states []string
	for _, v := range steps.Steps {
		states = append(states, v.ID[len(v.ID)-2:]+" "+v.Name+" "+string(v.StateName))
	}
	if diff := cmp.Diff([]string{":0 reserve compensated", ":1 note compensated", ":2 pay failed"}, states); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestPayloadsKeepEveryDigitAndReachTheSagaCanonical(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve")
	body := `{"payload": {"zz": 1, "a": 9007199254740993.10, "b": "<é>"}, "workflow_name": "order"}`
	s := e.start(body)
	stored, err := e.store.Sagas.Get(t.Context(), tenant.ID, s.SagaID)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":9007199254740993.10,"b":"<é>","zz":1}`
	if string(stored.Payload) != want {
		t.Errorf("stored payload = %s, want %s", stored.Payload, want)
	}
	r := e.send("GET", "/api/v1/sagas/"+s.SagaID.String(), "")
	if !strings.Contains(string(r.body), `"payload":`+want) {
		t.Errorf("answer does not hold the payload as stored: %s", r.body)
	}
	if none := e.start(`{"payload":null,"workflow_name":"order"}`); none.Payload != nil {
		t.Errorf("payload null came back as %s, want it left out", none.Payload)
	}
}

func TestRunningStepLogsAreShownOnlyOnRequest(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve")
	g := newGate(nil)
	e.node.script = g.script
	s := e.start(`{"workflow_name":"order"}`)
	<-g.reached
	run := e.node.instance(s.SagaID)
	change, err := saga.Apply(run, saga.Slow{StartedAt: e.cfg.Now()}, saga.Moment{Now: e.cfg.Now(), NewID: e.cfg.NewID})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.cfg.Commit(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	at := "/api/v1/sagas/" + s.SagaID.String()
	for path, want := range map[string]int{at: 0, at + "?include=running": 1, at + "/step-logs": 0, at + "/step-logs?include=running": 1} {
		var list client.StepLogList // a saga has step_logs as well
		e.send("GET", path, "").into(&list)
		if len(list.StepLogs) != want {
			t.Errorf("%s has %d step logs, want %d", path, len(list.StepLogs), want)
		}
	}
	close(g.open)
}

func TestASagaIDOfTheClientsIsUsedOnce(t *testing.T) {
	e := newEdge(t)
	e.register("order", "reserve")
	for _, member := range []string{"saga_id", "transaction_id"} {
		id := e.cfg.NewID().String()
		body := `{"workflow_name":"order","` + member + `":"` + id + `"}`
		if s := e.start(body); s.SagaID.String() != id {
			t.Errorf("%s: got %s, want %s", member, s.SagaID, id)
		}
		e.send("POST", "/api/v1/sagas", body).wants(http.StatusConflict, "SAGA_ALREADY_EXISTS")
	}
}

func TestInlineStepsMakeAPinnedWorkflowThatIsNotListed(t *testing.T) {
	e := newEdge(t)
	body := `{"workflow_name":"my label","steps":[` + stepsJSON("reserve", "pay!") + `]}`
	e.send("POST", "/api/v1/sagas", body).wants(http.StatusUnprocessableEntity, "WORKFLOW_INVALID") // no name has blanks
	body = strings.Replace(body, "my label", "label", 1)
	first, second := e.start(body), e.start(body)
	if !strings.HasPrefix(first.WorkflowName, "inline:") || first.WorkflowName != second.WorkflowName || first.SagaType != "label" {
		t.Errorf("workflow names %q and %q, saga type %q", first.WorkflowName, second.WorkflowName, first.SagaType)
	}
	plain := e.start(`{"steps":[` + stepsJSON("reserve", "pay!") + `]}`)
	if plain.WorkflowName == first.WorkflowName {
		t.Errorf("another label gave the same workflow %q", plain.WorkflowName)
	}
	var list client.WorkflowList
	e.send("GET", "/api/v1/workflows", "").into(&list)
	if len(list.Workflows) != 0 {
		t.Errorf("inline workflows are listed: %+v", list.Workflows)
	}
	p := e.send("POST", "/api/v1/sagas", `{"steps":[]}`).wants(http.StatusUnprocessableEntity, "WORKFLOW_EMPTY")
	if p.Errors[0].Pointer != "/steps" {
		t.Errorf("pointer %q, want /steps", p.Errors[0].Pointer)
	}
}
