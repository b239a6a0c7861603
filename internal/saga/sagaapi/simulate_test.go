package sagaapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/participant"
	"github.com/skald-saga/skald/internal/saga/simulate"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/patience"
)

const simulatePath = apitest.WorkflowsPath + "/simulate"

const trip = `{"name":"trip","retry":{"max_attempts":3,"initial_interval_ms":1,"max_interval_ms":1},
 "compensation_retry":{"max_attempts":2,"initial_interval_ms":1,"max_interval_ms":1},"output":{"flight":"${steps.flight.id}"},"steps":[
 {"name":"hotel","action":{"http":{"url":"http://hotel.example/rooms","headers":{"X-Shop":"1"}}},"compensation":{"http":{"method":"DELETE","url":"http://hotel.example/rooms"}}},
 {"name":"note","action":{"http":{"url":"http://note.example"}},"compensation":"none"},
 {"name":"flight","action":{"http":{"method":"PUT","url":"http://flight.example/seats"}},"compensation":{"http":{"url":"http://flight.example/undo"}}}]}`

// TestASimulationIsWhatTheEngineDoes: with the same answers, a saga makes the same calls with the
// same bytes, and ends in the same way.
func TestASimulationIsWhatTheEngineDoes(t *testing.T) {
	e := apitest.NewEdge(t)
	if r := e.Send("POST", apitest.WorkflowsPath, trip); r.Status != http.StatusCreated {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	by := participant.New(participant.Config{Now: e.Cfg.Now}).Written()
	for name, answers := range map[string]string{
		"all succeeds":                   `{"flight":[{"status":200,"body":{"id":7.50}}]}`,
		"by default":                     `{}`,
		"the second attempt":             `{"hotel":[{"fault":"timeout"},{"status":201,"body":{"room":1}}]}`,
		"not sent, then done":            `{"hotel":[{"fault":"dial_failed"},{"status":200}]}`,
		"refused at first":               `{"hotel":[{"status":409,"body":{"error":"full"}}]}`,
		"refused at last":                `{"hotel":[{"body":{"room":1}}],"flight":[{"status":422,"body":{"message":"no seats"}}]}`,
		"in doubt at last":               `{"flight":[{"fault":"connection_lost"}]}`,
		"answers that cannot be used":    `{"flight":[{"status":302},{"fault":"invalid_response"},{"status":500}]}`,
		"a compensation that is refused": `{"flight":[{"status":400}],"hotel/compensate":[{"status":404}]}`,
		"a compensation that succeeds at the second attempt": `{"flight":[{"status":400}],"hotel/compensate":[{"status":503},{"status":204}]}`,
		"a compensation that gives up":                       `{"flight":[{"fault":"timeout"}],"flight/compensate":[{"status":500}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var chosen map[string][]client.SimulatedAnswer
			if err := json.Unmarshal([]byte(answers), &chosen); err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var real []string
			asked := map[string]int{}
			e.Node.Script = func(c saga.Call) saga.Outcome {
				mu.Lock()
				defer mu.Unlock()
				id := c.SagaID.String()
				real = append(real, fmt.Sprintf("%s %s %d %s", c.By.HTTP.Method, c.By.HTTP.URL, c.Attempt,
					strings.ReplaceAll(string(c.Body), id, "ID")))
				key := simulate.KeyOf(c.Step, c.Action)
				a := simulate.Answer{Status: 200}
				if list := chosen[key]; len(list) > 0 {
					of := list[min(asked[key], len(list)-1)]
					a = simulate.Answer{Body: of.Body}
					if of.Fault != nil {
						a.Fault = string(*of.Fault)
					} else if a.Status = 200; of.Status != nil {
						a.Status = *of.Status
					}
				}
				asked[key]++
				return by.Outcome(c, a)
			}
			path := apitest.SagasPath + "/" + e.Start(`{"workflow_name":"trip","payload":{"n":1.00}}`).SagaID.String()
			var ended client.Saga
			patience.Until(t, "the saga has ended", func() bool {
				ended = e.Saga(path)
				return ended.CompletedAt != nil
			})

			var got client.Simulation
			e.Send("POST", simulatePath, `{"workflow_name":"trip","payload":{"n":1.00},"answers":`+answers+`}`).Reads(200, &got)
			var simulated []string
			for _, at := range got.Path {
				if at.Kind == client.SimulationEntryKindCall {
					simulated = append(simulated, fmt.Sprintf("%s %s %d %s", *at.Request.Method, *at.Request.URL, *at.Attempt,
						strings.ReplaceAll(*at.Request.Body, simulate.SagaID.String(), "ID")))
				}
			}
			if diff := cmp.Diff(real, simulated); diff != "" || got.Calls != len(real) {
				t.Errorf("%d calls (-engine +simulation):\n%s", got.Calls, diff)
			}
			if got.State != ended.State || *got.Clean != *ended.Clean || got.NeedsAttention != ended.NeedsAttention {
				t.Errorf("the simulation ended as %s, clean %v; the saga as %s, %v", got.State, *got.Clean, ended.State, *ended.Clean)
			}
			if diff := cmp.Diff(ended.Result, got.Result); diff != "" {
				t.Errorf("result (-saga +simulation):\n%s", diff)
			}
			if (got.Error == nil) != (ended.Error == nil) || got.Error != nil && got.Error.Message != ended.Error.Message {
				t.Errorf("error %+v; of the saga %+v", got.Error, ended.Error)
			}
		})
	}
}

// TestASimulatedReportIsWhatTheServerMakesOfIt: a saga whose participant sends the same report ends
// in the same way.
func TestASimulatedReportIsWhatTheServerMakesOfIt(t *testing.T) {
	e := apitest.NewEdge(t)
	if r := e.Send("POST", apitest.WorkflowsPath, promised); r.Status != http.StatusCreated {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	for name, tt := range map[string]struct {
		reports []string // reports of the calls in order; each call is answered with 202
		path    string
	}{
		"done":                  {[]string{`{"result":"done","output":{"id":"ch_7"}}`}, `call later, report done "ch_7"`},
		"refused with an error": {[]string{`{"result":"refused","error":{"code":"FULL","message":"no rooms"}}`}, "call later, report refused reported_refused, compensation"},
		"refused":               {[]string{`{"result":"refused"}`}, "call later, report refused reported_refused, compensation"},
		"not applied, then done": {[]string{`{"result":"not_applied"}`, `{"result":"done","output":{"id":"ch_8"}}`},
			`call later, report not_applied reported_not_applied, wait, call later, report done "ch_8"`},
		"unknown to the end": {[]string{`{"result":"unknown"}`, `{"result":"unknown","error":{"message":"lost"}}`, `{"result":"done"}`},
			"call later, report unknown reported_unknown, wait, call later, report unknown reported_unknown, compensation, " +
				"call later, report done"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := make(chan string, 10)
			e.Node.Script = func(c saga.Call) saga.Outcome {
				calls <- apitest.CallbackPath(&c)
				return saga.Outcome{Verdict: saga.Later, Request: c.Body, StartedAt: e.Cfg.Now(), EndedAt: e.Cfg.Now()}
			}
			path := apitest.SagasPath + "/" + e.Start(`{"workflow_name":"w"}`).SagaID.String()
			answers := map[string][]json.RawMessage{}
			for _, report := range tt.reports {
				var to string
				patience.Until(t, "a call", func() bool {
					select {
					case to = <-calls:
						return true
					default:
						e.Node.Backlog() // the engine looks for what is due, such as a retry
						return false
					}
				})
				key := "charge"
				if report == `{"result":"done"}` {
					key = "charge/compensate"
				}
				patience.Until(t, "the report is taken", func() bool { return e.Send("POST", to, report).Status == http.StatusOK })
				answers[key] = append(answers[key], json.RawMessage(`{"status":202,"reports":[`+report+`]}`))
			}
			ended := e.Saga(path + "?wait=5s")
			body, err := json.Marshal(map[string]any{"workflow_name": "w", "answers": answers})
			if err != nil {
				t.Fatal(err)
			}
			var got client.Simulation
			e.Send("POST", simulatePath, string(body)).Reads(200, &got)
			var happened []string
			for i := range got.Path {
				happened = append(happened, shortly(&got.Path[i]))
			}
			if words := strings.Join(happened, ", "); words != tt.path {
				t.Errorf("simulated: %s\nwant %s", words, tt.path)
			}
			if got.State != ended.State || string(got.Result) != string(ended.Result) {
				t.Errorf("the simulation ended as %s with %s; the saga as %s with %s", got.State, got.Result, ended.State, ended.Result)
			}
			if (got.Error == nil) != (ended.Error == nil) || got.Error != nil && (got.Error.Message != ended.Error.Message ||
				got.Error.Code != ended.Error.Code) {
				t.Errorf("error %+v; of the saga %+v", got.Error, ended.Error)
			}
		})
	}
}

// shortly describes an entry of a path in words.
func shortly(e *client.SimulationEntry) string {
	words := []string{string(e.Kind)}
	switch {
	case e.Report != nil:
		words = append(words, string(e.Report.Result))
	case e.Outcome != nil:
		words = append(words, strings.ToLower(string(*e.Outcome)))
	}
	if e.Code != nil {
		words = append(words, *e.Code)
	}
	if e.Output != nil {
		words = append(words, string(e.Output))
	}
	return strings.Join(words, " ")
}

// promised is a workflow whose calls may be answered later.
var promised = strings.Replace(laterSteps, `"steps":`,
	`"retry":{"max_attempts":2,"initial_interval_ms":1,"max_interval_ms":1},"output":{"id":"${steps.charge}"},"steps":`, 1)

func TestASimulationOfADefinitionThatIsNotRegistered(t *testing.T) {
	e := apitest.NewEdge(t)
	yaml, err := json.Marshal("name: y\nsteps:\n- name: a\n  action: {http: {url: \"http://a.example\"}}\n  compensation: none\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range []string{trip, `{"workflow_yaml":` + string(yaml) + `}`} {
		var got client.Simulation
		e.Send("POST", simulatePath, `{"definition":`+definition+`,"business_key":"b","correlation_id":"c"}`).Reads(200, &got)
		head := *got.Path[0].Request.Head
		if got.State != "completed" || !strings.Contains(head, " HTTP/1.1\r\n") ||
			!strings.Contains(head, "\r\nIdempotency-Key: "+simulate.SagaID.String()+"/") {
			t.Errorf("%s: %+v\n%s", definition, got, head)
		}
	}
	if list := e.List(""); len(list.Sagas) != 0 {
		t.Errorf("a simulation has left %d sagas", len(list.Sagas))
	}
	e.Send("GET", apitest.WorkflowsPath+"/trip", "").Wants(404, "WORKFLOW_NOT_FOUND")
}

func TestMistakesInASimulationAreNamed(t *testing.T) {
	e := apitest.NewEdge(t)
	if r := e.Send("POST", apitest.WorkflowsPath, trip); r.Status != http.StatusCreated {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	in := `{"workflow_name":"trip",`
	for body, want := range map[string]struct {
		status        int
		code, pointer string
	}{
		`{}`:                     {422, "REQ_SCHEMA", "/definition"},
		`{"workflow_name":"no"}`: {404, "WORKFLOW_NOT_FOUND", ""},
		`{"workflow_name":"trip","workflow_version":9}`:      {404, "WORKFLOW_NOT_FOUND", ""},
		`{"workflow_name":"trip","definition":` + trip + `}`: {422, "REQ_SCHEMA", "/definition"},
		`{"workflow_version":1,"definition":` + trip + `}`:   {422, "REQ_SCHEMA", "/workflow_version"},
		`{"definition":5}`:                                                         {422, "WORKFLOW_INVALID", "/definition"},
		`{"definition":{"name":"w","steps":[]}}`:                                   {422, "WORKFLOW_EMPTY", "/definition/steps"},
		in + `"answers":{"hotels":[{}]}}`:                                          {422, "REQ_SCHEMA", "/answers/hotels"},
		in + `"answers":{"note/compensate":[{}]}}`:                                 {422, "REQ_SCHEMA", "/answers/note~1compensate"},
		in + `"answers":{"hotel":[]}}`:                                             {422, "REQ_SCHEMA", "/answers/hotel"},
		in + `"answers":{"hotel":[{"status":99}]}}`:                                {422, "REQ_SCHEMA", "/answers/hotel/0/status"},
		in + `"answers":{"hotel":[{},{"status":200,"fault":"timeout"}]}}`:          {422, "REQ_SCHEMA", "/answers/hotel/1"},
		in + `"answers":{"hotel":[{"run_state":"FAILED"}]}}`:                       {422, "REQ_SCHEMA", "/answers/hotel/0"},
		in + `"answers":{"hotel":[{"fault":"timeout","body":1}]}}`:                 {422, "REQ_SCHEMA", "/answers/hotel/0"},
		in + `"answers":{"hotel":[{"status":202,"reports":[{"result":"done"}]}]}}`: {422, "REQ_SCHEMA", "/answers/hotel/0/reports"},
		in + `"answers":{"hotel":[{"reports":[{"result":"failed"}]}]}}`:            {422, "REQ_SCHEMA", "/answers/hotel/0/reports/0/result"},
		in + `"answers":{"hotel":[{"reports":[{"result":"refused","error":5}]}]}}`: {422, "REQ_SCHEMA", "/answers/hotel/0/reports/0/error"},
		in + `"cancel_at":"hotels"}`:                                               {422, "REQ_SCHEMA", "/cancel_at"},
	} {
		p := e.Send("POST", simulatePath, body).Wants(want.status, want.code)
		if want.pointer != "" && (len(p.Errors) == 0 || p.Errors[0].Pointer != want.pointer) {
			t.Errorf("%s: %+v; want %s", body, p.Errors, want.pointer)
		}
	}
}
