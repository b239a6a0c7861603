package sagaapi_test

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
	"github.com/skald-saga/skald/internal/test/apitest"
)

func ptr[T any](v T) *T { return &v }

func TestAPayloadBeyondTheBudgetIsRefused(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.Sagas.Budget.Saga = 20 })
	e.Register("order", "reserve")
	for payload, want := range map[string]int{`"234567890123456789"`: 201, `"2345678901234567890"`: 413} {
		res, err := e.CreateSagaWithResponse(t.Context(), nil,
			client.SagaInput{WorkflowName: ptr("order"), Payload: client.AnyJSON(payload)})
		if err != nil || res.StatusCode() != want {
			t.Errorf("a payload of %d bytes: %d, %v; want %d", len(payload), res.StatusCode(), err, want)
		}
	}
}

// A saga created with the mark of erased content was treated as erased once it had ended, so that
// operators could no longer act on it.
func TestThePayloadOfANewSagaIsNotTheMarkOfErasure(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	create := func(payload string) apitest.Reply {
		return e.Send("POST", apitest.SagasPath, `{"workflow_name":"order","payload":`+payload+`}`)
	}
	for _, mark := range []string{`{"$skald_erased":true}`, ` { "\u0024skald_erased" : true } `} {
		p := create(mark).Wants(http.StatusUnprocessableEntity, "SAGA_UNSTORABLE")
		if len(p.Errors) != 1 || p.Errors[0].Pointer != "/payload" || p.Errors[0].Code != "reserved" {
			t.Errorf("%s is refused with %+v", mark, p.Errors)
		}
	}
	for _, other := range []string{`{"$skald_erased":false}`, `{"$skald_erased":true,"a":1}`, `[{"$skald_erased":true}]`} {
		if r := create(other); r.Status != http.StatusCreated {
			t.Errorf("%s: %d %s", other, r.Status, r.Body)
		}
	}
}

func TestACreateReturnsTheWholeSaga(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve", "pay")
	g := apitest.NewGate(nil)
	e.Node.Script = g.Script
	defer close(g.Open)

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
		Name: ptr("an order"), Description: ptr("described"), BusinessKey: ptr("b-1"), CorrelationID: ptr("c-1"),
		InitiatedBy: "shop",
		TraceID:     ptr("0af7651916cd43dd8448eb211c80319c"), SpanID: ptr("b7ad6b7169203331"),
		Payload: client.AnyJSON(`{"amount":1}`), Metadata: client.JSONObject(`{"region":"eu"}`),
		Status: client.SagaStatusSTARTED, State: client.SagaStatePending, Lifecycle: client.SagaLifecycleActive,
		CurrentStepName: ptr("reserve"), TotalSteps: 2, TimeoutMS: ptr(int64(5000)), TimeoutAt: s.TimeoutAt,
		CreatedAt: s.CreatedAt, StartedAt: s.StartedAt, UpdatedAt: s.CreatedAt, Version: 1,
		AllowedActions: []client.SagaAction{
			"cancel", "compensate", "skip-step", "complete-step", "fail-step", "suspend", "extend-deadline",
			"force-complete", "force-fail",
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

// Only well-formed headers are passed on, in one line each. Invalid ones never fail a request.
func TestATraceGoesOnToParticipants(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	calls := make(chan saga.Call, 1)
	e.Node.Script = func(c saga.Call) saga.Outcome {
		calls <- c
		return apitest.Done("null")
	}
	const trace = "0af7651916cd43dd8448eb211c80319c"
	parent := []string{"traceparent", "00-" + trace + "-b7ad6b7169203331-01"}
	for _, tt := range []struct {
		headers                    []string
		trace, traceState, baggage string
	}{
		{nil, "", "", ""},
		{append(parent, "tracestate", "congo=t61", "baggage", "userId=7"), trace, "congo=t61", "userId=7"},
		{append(parent, "tracestate", "congo=t61", "tracestate", "rojo=0", "baggage", "a=1;p", "baggage", "b=2"),
			trace, "congo=t61,rojo=0", "a=1;p,b=2"},
		{[]string{"tracestate", "congo=t61", "baggage", "userId=7"}, "", "", "userId=7"},
		{append(parent, "tracestate", "Congo", "baggage", "userId"), trace, "", ""},
		{append(parent, "tracestate", "a="+strings.Repeat("x", 512), "baggage", "a="+strings.Repeat("x", 8192)), trace, "", ""},
		{append(parent, "tracestate", "", "baggage", ""), trace, "", ""},
		{append(parent, parent...), "", "", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", e.URL+"/api/v1/sagas",
			strings.NewReader(`{"workflow_name":"order"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(tt.headers); i += 2 {
			req.Header.Add(tt.headers[i], tt.headers[i+1])
		}
		if r := e.Do(req); r.Status != http.StatusCreated {
			t.Fatalf("of %q: %d %s", tt.headers, r.Status, r.Body)
		}
		if c := <-calls; c.Trace != tt.trace || c.TraceState != tt.traceState || c.Baggage != tt.baggage {
			t.Errorf("of %q the participant gets %q, %q and %q", tt.headers, c.Trace, c.TraceState, c.Baggage)
		}
	}
}

func TestAWaitingCreateReturnsTheEndedSaga(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve", "pay")
	e.Node.Script = func(c saga.Call) saga.Outcome { return apitest.Done(`{"step":"` + c.Step + `"}`) }
	r := e.Send("POST", "/api/v1/sagas?wait=5s", `{"workflow_name":"order"}`)
	var s client.Saga
	r.Into(&s)
	if r.Status != http.StatusCreated || s.Status != client.SagaStatusCOMPLETED || s.CurrentStepName != nil ||
		s.CurrentStep != 2 {
		t.Fatalf("got %d %s", r.Status, r.Body)
	}
	if want := `{"pay":{"step":"pay"},"reserve":{"step":"reserve"}}`; string(s.Result) != want {
		t.Errorf("result = %s, want %s", s.Result, want)
	}
	if len(s.StepLogs) != 2 || s.StepLogs[1].StepName != "pay" || s.StepLogs[1].Status != client.StepLogStatusSUCCESS {
		t.Errorf("step_logs = %+v", s.StepLogs)
	}
	if r.Header.Get("ETag") == `"1"` {
		t.Errorf("ETag is that of the first version")
	}
}

func TestPreferWaitsLikeTheParameterAndIsConfirmed(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	r := e.Send("POST", "/api/v1/sagas", `{"workflow_name":"order"}`, "Prefer", "respond-async, wait=5")
	var s client.Saga
	r.Into(&s)
	if s.Status != client.SagaStatusCOMPLETED || r.Header.Get("Preference-Applied") != "wait=5" {
		t.Errorf("status %s, Preference-Applied %q", s.Status, r.Header.Get("Preference-Applied"))
	}
}

func TestAWaitThatEndsFirstReturnsTheRunningSaga(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	g := apitest.NewGate(nil)
	e.Node.Script = g.Script
	defer close(g.Open)
	for _, path := range []string{"/api/v1/sagas?wait=1ms", "/api/v1/sagas?wait=0s"} {
		r := e.Send("POST", path, `{"workflow_name":"order"}`)
		var s client.Saga
		r.Into(&s)
		if r.Status != http.StatusCreated || s.Status != client.SagaStatusSTARTED {
			t.Errorf("%s: got %d %s, want 201 of a running saga", path, r.Status, s.Status)
		}
	}
}

func TestGetWaitsForTheEndAndForTheServersStop(t *testing.T) {
	stopping := make(chan struct{})
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.Stopping, c.Limits.MaxWait = stopping, time.Hour })
	e.Register("order", "reserve")
	g := apitest.NewGate(nil)
	e.Node.Script = g.Script
	first := e.Start(`{"workflow_name":"order"}`)
	<-g.Reached
	answered := make(chan apitest.Reply)
	go func() { answered <- e.Send("GET", "/api/v1/sagas/"+first.SagaID.String()+"?wait=10s", "") }()
	close(g.Open)
	var s client.Saga
	(<-answered).Into(&s)
	if s.Status != client.SagaStatusCOMPLETED || len(s.StepLogs) != 1 || s.Result == nil {
		t.Errorf("after the end: %s with %d logs", s.Status, len(s.StepLogs))
	}

	held := apitest.NewGate(nil)
	e.Node.Script = held.Script
	defer close(held.Open)
	second := e.Start(`{"workflow_name":"order"}`)
	go func() { answered <- e.Send("GET", "/api/v1/sagas/"+second.SagaID.String()+"?wait=1h", "") }()
	close(stopping)
	s = client.Saga{}
	(<-answered).Into(&s)
	if s.Status != client.SagaStatusSTARTED {
		t.Errorf("a stopping server returned %s", s.Status)
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

func TestAWaitingCreateIsNotifiedByTheEngine(t *testing.T) {
	var reads atomic.Int32
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.Sagas.Store = countingSagas{c.Sagas.Store, &reads} })
	e.Register("order", "reserve")
	e.Send("POST", apitest.SagasPath+"?wait=5s", `{"workflow_name":"order"}`)
	if n := reads.Load(); n != 0 {
		t.Errorf("the saga was read %d times; its node has just committed its end", n)
	}
}

func TestSagasOfAnotherTenantDoNotExist(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	at := apitest.SagasPath + "/" + e.Start(`{"workflow_name":"order"}`).SagaID.String()
	foreign := apitest.NewEdge(t, func(c *httpapi.Config) {
		c.Sagas.Store, c.Sagas.Workflows, c.Sagas.Commit = e.Cfg.Sagas.Store, e.Cfg.Sagas.Workflows, e.Cfg.Sagas.Commit
		c.Access.Tenant.ID[0] = 7
	})
	for _, path := range []string{at, at + "/steps", at + "/step-logs"} {
		foreign.Send("GET", path, "").Wants(http.StatusNotFound, "SAGA_NOT_FOUND")
	}
	for _, action := range []string{"cancel", "compensate", "resume-compensation"} {
		foreign.Send("POST", at+"/"+action, "").Wants(http.StatusNotFound, "SAGA_NOT_FOUND")
	}
	foreign.Send("GET", apitest.WorkflowsPath+"/order", "").Wants(http.StatusNotFound, "WORKFLOW_NOT_FOUND")
	foreign.Send("POST", apitest.SagasPath, `{"workflow_name":"order"}`).Wants(http.StatusUnprocessableEntity,
		"WORKFLOW_NOT_FOUND")
	if n := len(foreign.List("").Sagas); n != 0 {
		t.Errorf("%d foreign sagas are listed", n)
	}
}

func TestARefusedStepShowsWhyAndWhatWasUndone(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve", "note!", "pay")
	e.Node.Script = apitest.Refuse("pay", saga.Execute)
	var s client.Saga
	e.Send("POST", "/api/v1/sagas?wait=5s", `{"workflow_name":"order"}`).Into(&s)
	ended := s
	ended.Status, ended.State = client.SagaStatusFAILED, client.SagaStateCompensated
	ended.EndCause, ended.Clean, ended.Result = new(client.EndCauseStepFailed), new(true), nil
	if diff := cmp.Diff(ended, s); diff != "" {
		t.Fatalf("ended (-want +got):\n%s", diff)
	}
	if s.Error == nil || s.Error.Code != "http_409" || s.ErrorMessage == nil || !strings.Contains(*s.ErrorMessage, "pay") {
		t.Errorf("error = %+v", s.Error)
	}
	var got []string
	for _, l := range s.StepLogs {
		got = append(got, l.StepName+" "+string(l.Action)+" "+string(l.Status))
	}
	want := []string{
		"reserve EXECUTE SUCCESS", "reserve COMPENSATE SUCCESS", "note EXECUTE SUCCESS", "note COMPENSATE SKIPPED",
		"pay EXECUTE FAILED",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("step logs (-want +got):\n%s", diff)
	}
	if l := s.StepLogs[len(s.StepLogs)-1]; l.Error == nil || l.ErrorMessage == nil || *l.ErrorMessage != l.Error.Message {
		t.Errorf("the failed step's log has the message %v of %+v", l.ErrorMessage, l.Error)
	}
	var read client.Saga
	e.Send("GET", "/api/v1/sagas/"+s.SagaID.String(), "").Into(&read)
	if diff := cmp.Diff(s, read); diff != "" {
		t.Errorf("read by its id (-ended +read):\n%s", diff)
	}
	var steps client.StepList
	e.Send("GET", "/api/v1/sagas/"+s.SagaID.String()+"/steps", "").Into(&steps)
	var states []string
	for _, v := range steps.Steps {
		states = append(states, v.ID[len(v.ID)-2:]+" "+v.Name+" "+string(v.StateName))
	}
	if diff := cmp.Diff([]string{":0 reserve compensated", ":1 note compensated", ":2 pay failed"}, states); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestPayloadsKeepEveryDigitAndReachTheSagaCanonical(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	body := `{"payload": {"zz": 1, "a": 9007199254740993.10, "b": "<é>"}, "workflow_name": "order"}`
	s := e.Start(body)
	stored, err := e.Store.Sagas.Get(t.Context(), apitest.Tenant.ID, s.SagaID)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":9007199254740993.10,"b":"<é>","zz":1}`
	if string(stored.Payload) != want {
		t.Errorf("stored payload = %s, want %s", stored.Payload, want)
	}
	r := e.Send("GET", "/api/v1/sagas/"+s.SagaID.String(), "")
	if !strings.Contains(string(r.Body), `"payload":`+want) {
		t.Errorf("the response does not contain the payload as stored: %s", r.Body)
	}
	if none := e.Start(`{"payload":null,"workflow_name":"order"}`); none.Payload != nil {
		t.Errorf("payload null came back as %s, want it left out", none.Payload)
	}
}

func TestRunningStepLogsAreShownOnlyOnRequest(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	g := apitest.NewGate(nil)
	e.Node.Script = g.Script
	s := e.Start(`{"workflow_name":"order"}`)
	<-g.Reached
	run := e.Node.Instance(s.SagaID)
	change, err := saga.Apply(run, saga.Slow{StartedAt: e.Cfg.Now()}, saga.Moment{Now: e.Cfg.Now(), NewID: e.Cfg.NewID})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Cfg.Sagas.Commit(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	at := "/api/v1/sagas/" + s.SagaID.String()
	for path, want := range map[string]int{at: 0, at + "?include=running": 1, at + "/step-logs": 0,
		at + "/step-logs?include=running": 1} {
		var list client.StepLogList // a saga has step_logs as well
		e.Send("GET", path, "").Into(&list)
		if len(list.StepLogs) != want {
			t.Errorf("%s has %d step logs, want %d", path, len(list.StepLogs), want)
		}
	}
	close(g.Open)
}

func TestAClientsSagaIDIsUsedOnce(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	for _, member := range []string{"saga_id", "transaction_id"} {
		id := e.Cfg.NewID().String()
		body := `{"workflow_name":"order","` + member + `":"` + id + `"}`
		if s := e.Start(body); s.SagaID.String() != id {
			t.Errorf("%s: got %s, want %s", member, s.SagaID, id)
		}
		e.Send("POST", "/api/v1/sagas", body).Wants(http.StatusConflict, "SAGA_ALREADY_EXISTS")
	}
}

func TestInlineStepsMakeAPinnedWorkflowThatIsNotListed(t *testing.T) {
	e := apitest.NewEdge(t)
	body := `{"workflow_name":"my label","steps":[` + apitest.StepsJSON("reserve", "pay!") + `]}`
	e.Send("POST", "/api/v1/sagas", body).Wants(http.StatusUnprocessableEntity, "WORKFLOW_INVALID")
	body = strings.Replace(body, "my label", "label", 1)
	first, second := e.Start(body), e.Start(body)
	if !strings.HasPrefix(first.WorkflowName, "inline:") || first.WorkflowName != second.WorkflowName ||
		first.SagaType != "label" {
		t.Errorf("workflow names %q and %q, saga type %q", first.WorkflowName, second.WorkflowName, first.SagaType)
	}
	told := e.Send("GET", "/api/v1/saga-events?workflow_name=label&event_type=saga.started", "")
	if n := strings.Count(string(told.Body), `"saga_id"`); n != 2 {
		t.Errorf("%d events of the label: %s", n, told.Body)
	}
	plain := e.Start(`{"steps":[` + apitest.StepsJSON("reserve", "pay!") + `]}`)
	if plain.WorkflowName == first.WorkflowName {
		t.Errorf("another label gave the same workflow %q", plain.WorkflowName)
	}
	var list client.WorkflowList
	e.Send("GET", "/api/v1/workflows", "").Into(&list)
	if len(list.Workflows) != 0 {
		t.Errorf("inline workflows are listed: %+v", list.Workflows)
	}
	p := e.Send("POST", "/api/v1/sagas", `{"steps":[]}`).Wants(http.StatusUnprocessableEntity, "WORKFLOW_EMPTY")
	if p.Errors[0].Pointer != "/steps" {
		t.Errorf("pointer %q", p.Errors[0].Pointer)
	}
}
