package sagaapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// byName is a workflow whose calls name the participant stock.
const byName = `{"name":"named","retry":{"max_attempts":1},"steps":[{"name":"reserve","on_failure":"suspend","action":{"http":{"participant":"stock",
 "path":"/reservations/${payload.sku}","headers":{"X-Own":"1"}}},"compensation":{"http":{"method":"DELETE","participant":"stock","path":"/reservations"}}}]}`

func TestAWorkflowNamesParticipantsThatAreRegistered(t *testing.T) {
	e := apitest.NewEdge(t)
	inline := `{"payload":{"sku":"a/b"},` + byName[strings.Index(byName, `"steps"`):]
	simulated := `{"payload":{"sku":"a/b"},"definition":` + byName + `}`
	for path, body := range map[string]string{
		apitest.WorkflowsPath: byName, apitest.WorkflowsPath + "/validate": byName,
		simulatePath: simulated, apitest.SagasPath: inline,
	} {
		r := e.Send("POST", path, body)
		r.Wants(http.StatusUnprocessableEntity, "WORKFLOW_INVALID")
		for _, want := range []string{`/steps/0/action/http/participant"`, `/steps/0/compensation/http/participant"`,
			`no participant \"stock\" is registered: PUT /participants/stock first`} {
			if !strings.Contains(string(r.Body), want) {
				t.Errorf("%s: %s lacks %s", path, r.Body, want)
			}
		}
	}
	const put = "/api/v1/participants/stock"
	e.Send("PUT", put, `{"base_url":"http://stock.example/v1","headers":{"X-Shop":"2"}}`).Reads(http.StatusOK, &client.Participant{})
	if r := e.Send("POST", apitest.WorkflowsPath, byName); r.Status != http.StatusCreated {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	var played client.Simulation
	e.Send("POST", simulatePath, simulated).Reads(http.StatusOK, &played)
	const to = "http://stock.example/v1/reservations/a%2Fb"
	if c := played.Path[0].Request; *c.URL != to || !strings.Contains(*c.Head, "X-Shop: 2\r\n") {
		t.Errorf("simulated: %s\n%s", *c.URL, *c.Head)
	}
	var called []string
	e.Node.Script = func(c saga.Call) saga.Outcome {
		called = append(called, c.By.HTTP.URL)
		return saga.Outcome{Verdict: saga.Done}
	}
	start := `{"workflow_name":"named","payload":{"sku":"a/b"}}`
	path := apitest.SagasPath + "/" + e.Start(start).SagaID.String()
	e.Node.Rest()
	if s := e.Saga(path); s.State != "completed" || strings.Join(called, " ") != to {
		t.Errorf("%s after calls to %v", s.State, called)
	}

	if r := e.Send("DELETE", put, ""); r.Status != http.StatusNoContent {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	e.Send("POST", simulatePath, start).Reads(http.StatusOK, &played)
	if at := played.Path[0]; at.Kind != "not_sent" || *at.Code != "participant_unknown" || *at.Outcome != "NOT_APPLIED" {
		t.Errorf("simulated without the participant: %+v", at)
	}
	path = apitest.SagasPath + "/" + e.Start(start).SagaID.String()
	e.Node.Rest()
	s := e.Saga(path)
	if s.State != "running" || s.Error == nil || s.Error.Code != "participant_unknown" || len(called) != 1 {
		t.Errorf("%s, %+v", s.State, s.Error)
	}
	for _, want := range []string{"participant://stock/reservations/a%2Fb", to} {
		var plan client.DryRunResult
		e.Send("POST", path+"/retry?dry_run=true", `{"reason":"r"}`).Reads(http.StatusOK, &plan)
		if len(plan.Calls) == 0 || plan.Calls[0].URL != want || plan.Calls[0].Headers["X-Own"] != "1" {
			t.Errorf("a retry would call %+v, want %s", plan.Calls, want)
		}
		e.Send("PUT", put, `{"base_url":"http://stock.example/v1"}`).Reads(http.StatusOK, &client.Participant{})
	}
}
