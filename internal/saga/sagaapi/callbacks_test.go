package sagaapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/patience"
)

const laterSteps = `{"name":"w","steps":[{"name":"charge","action":{"http":{"url":"http://127.0.0.1:9/do"}},
	"answer":{"later":"status == 202","output":"${body.id}"},"output_schema":{"type":"string"},
	"compensation":{"http":{"url":"http://127.0.0.1:9/undo"},"answer":{"later":"status == 202"}}}]}`

// later starts a saga all of whose calls are answered later. It returns its path and the paths of
// the callback URLs, each as soon as the answer to its call is stored.
func later(t *testing.T, e *apitest.Edge) (at string, next func() string) {
	t.Helper()
	calls := make(chan string, 10)
	e.Node.Script = func(c saga.Call) saga.Outcome {
		calls <- apitest.CallbackPath(&c)
		return saga.Outcome{Verdict: saga.Later, Request: c.Body, StartedAt: e.Cfg.Now(), EndedAt: e.Cfg.Now()}
	}
	if r := e.Send("POST", "/api/v1/workflows", laterSteps); r.Status != http.StatusCreated {
		t.Fatalf("register: %d %s", r.Status, r.Body)
	}
	at = apitest.SagasPath + "/" + e.Start(`{"workflow_name":"w"}`).SagaID.String()
	return at, func() string {
		t.Helper()
		path := patience.Receive(t, "a call", calls)
		patience.Until(t, "the answer is stored", func() bool {
			var x client.SagaExplanation
			e.Send("GET", at+"/explain", "").Reads(http.StatusOK, &x)
			return x.WaitsFor == client.SagaExplanationWaitsForReport
		})
		return path
	}
}

func TestAReportDecidesAnAttemptOnce(t *testing.T) {
	e := apitest.NewEdge(t)
	at, next := later(t, e)
	path := next()
	var beat, done, again client.StepReported
	e.Send("POST", path, `{"result":"heartbeat","progress":{"percent":40,"message":" two\nlines\u202e"}}`).
		Reads(http.StatusOK, &beat)
	if beat.Result != client.ReportResultHeartbeat || beat.ExpiresAt == nil || beat.Repeated != nil {
		t.Errorf("a heartbeat is answered with %+v", beat)
	}
	var x client.SagaExplanation
	e.Send("GET", at+"/explain", "").Reads(http.StatusOK, &x)
	for _, part := range []string{`waits for a report of step "charge" until `, "; last heartbeat ", ", 40 %: two lines."} {
		if !strings.Contains(x.Summary, part) {
			t.Errorf("%q does not say %q", x.Summary, part)
		}
	}
	if r := x.Report; r == nil || r.Attempt != 1 || r.HeartbeatAt == nil || r.Until == nil || r.Progress == nil ||
		!r.Until.Equal(*beat.ExpiresAt) || *r.Progress.Percent != 40 || *r.Progress.Message != "two lines" {
		t.Errorf("the wait is explained as %+v", r)
	}
	listed := func() *bool {
		var list client.SagaList
		e.Send("GET", apitest.SagasPath, "").Reads(http.StatusOK, &list)
		return list.Sagas[0].AwaitsReport
	}
	if is := listed(); is == nil || !*is {
		t.Error("the list does not say that it waits for a report")
	}
	e.Send("POST", path, `{"result":"done","output":{"id":"ch_7"}}`).Reads(http.StatusOK, &done)
	if done.Result != client.ReportResultDone || done.Repeated == nil || *done.Repeated {
		t.Errorf("the first report is answered with %+v", done)
	}
	if s := e.Saga(at + "?wait=5s"); s.State != client.SagaStateCompleted {
		t.Errorf("after the report the saga is %s", s.State)
	}
	for _, body := range []string{`{"result":"done","output":{"id":"ch_8"}}`, `{"result":"refused"}`, `{"result":"heartbeat"}`} {
		e.Send("POST", path, body).Reads(http.StatusOK, &again)
		if again.Result != client.ReportResultDone || again.Repeated == nil || !*again.Repeated {
			t.Errorf("%s is answered with %+v", body, again)
		}
	}
	if listed() != nil {
		t.Error("the list says that it still waits")
	}
	logs := e.Saga(at).StepLogs
	if len(logs) != 1 || string(logs[0].ResponsePayload) != `"ch_7"` || *logs[0].OutcomeCode != "reported_done" {
		t.Errorf("the step logs are %+v", logs)
	}
	e.ArchiveAll()
	e.Send("POST", path, `{"result":"done"}`).Reads(http.StatusOK, &again)
	if again.Repeated == nil || !*again.Repeated {
		t.Errorf("of an archived saga it is answered with %+v", again)
	}
}

func TestWhatARefusalReportsIsKept(t *testing.T) {
	e := apitest.NewEdge(t)
	at, next := later(t, e)
	var done client.StepReported
	e.Send("POST", next(), `{"result":"refused","error":{"code":"sold_out","message":"none left"}}`).
		Reads(http.StatusOK, &done)
	s := e.Saga(at + "?wait=5s")
	if s.State != client.SagaStateCompensated || !strings.Contains(*s.ErrorMessage, "none left") {
		t.Errorf("the saga is %s: %s", s.State, *s.ErrorMessage)
	}
	if l := s.StepLogs[0]; string(l.ResponsePayload) != `{"code":"sold_out","message":"none left"}` {
		t.Errorf("the log has %s", l.ResponsePayload)
	}
}

func TestALateReportIsRecordedOnce(t *testing.T) {
	e := apitest.NewEdge(t)
	at, next := later(t, e)
	action := next()
	e.Send("POST", at+"/cancel", "")
	undo := next()
	for range 2 {
		e.Send("POST", action, `{"result":"done"}`).Wants(http.StatusConflict, "SAGA_CALLBACK_LATE")
	}
	var done client.StepReported
	e.Send("POST", undo, `{"result":"done"}`).Reads(http.StatusOK, &done)
	if s := e.Saga(at + "?wait=5s"); s.State != client.SagaStateCancelled {
		t.Errorf("the saga is %s", s.State)
	}
	e.Send("POST", action, `{"result":"done"}`).Wants(http.StatusConflict, "SAGA_CALLBACK_LATE")
	var events client.AuditEventList
	e.Send("GET", at+"/events?event_type=callback.orphaned", "").Reads(http.StatusOK, &events)
	if len(events.Events) != 1 || events.Events[0].Actor == nil || *events.Events[0].Actor != "system:participant" {
		t.Errorf("events of late reports: %+v", events.Events)
	}
}

func TestReportsThatAreRefused(t *testing.T) {
	e := apitest.NewEdge(t)
	at, next := later(t, e)
	path := next()
	for _, tt := range []struct {
		name, body string
		status     int
		code, at   string
	}{
		{"no result", `{}`, 422, "REQ_SCHEMA", "/result"},
		{"an unknown result", `{"result":"maybe"}`, 422, "REQ_SCHEMA", "/result"},
		{"an unknown member", `{"result":"done","when":1}`, 422, "REQ_SCHEMA", "/when"},
		{"not JSON", `{"result":`, 400, "REQ_INVALID_JSON", ""},
		{"an error of a success", `{"result":"done","error":{}}`, 422, "REQ_SCHEMA", "/error"},
		{"an output of a refusal", `{"result":"refused","output":1}`, 422, "REQ_SCHEMA", "/output"},
		{"progress of a success", `{"result":"done","progress":{}}`, 422, "REQ_SCHEMA", "/progress"},
		{"more than all", `{"result":"heartbeat","progress":{"percent":101}}`, 422, "REQ_SCHEMA", "/progress/percent"},
		{"an output without what is kept of it", `{"result":"done","output":{}}`, 422, "REQ_SCHEMA", "/output"},
		{"no output where a part of it is kept", `{"result":"done"}`, 422, "REQ_SCHEMA", "/output"},
		{"an output that does not fit the schema", `{"result":"done","output":{"id":7}}`, 422, "REQ_SCHEMA", "/output"},
		{"too large", `{"result":"done","output":"` + strings.Repeat("x", 1<<16) + `"}`, 413, "REQ_TOO_LARGE", ""},
	} {
		r := e.Send("POST", path, tt.body)
		p := r.Wants(tt.status, tt.code)
		if tt.at != "" && (len(p.Errors) == 0 || p.Errors[0].Pointer != tt.at) {
			t.Errorf("%s: errors %+v, want one at %s", tt.name, p.Errors, tt.at)
		}
	}
	for name, token := range map[string]string{
		"forged": path[:len(path)-3] + "AAA", "cut": path[:len(path)-8], "none of ours": "/api/v1/step-callbacks/x",
	} {
		if r := e.Send("POST", token, `{"result":"done"}`); r.Status != http.StatusNotFound {
			t.Errorf("a token that is %s: %d %s", name, r.Status, r.Body)
		}
	}
	if s := e.Saga(at); s.State != client.SagaStateRunning {
		t.Errorf("the saga is %s", s.State)
	}
}

// A report that arrives before the answer to its call is stored is not lost, because the
// participant is asked to send it again.
func TestAReportBeforeItsAnswerIsToBeSentAgain(t *testing.T) {
	e := apitest.NewEdge(t)
	calls := make(chan saga.Call, 1)
	g := apitest.NewGate(func(c saga.Call) saga.Outcome {
		calls <- c
		return saga.Outcome{Verdict: saga.Later, StartedAt: e.Cfg.Now(), EndedAt: e.Cfg.Now()}
	})
	e.Node.Script = g.Script
	e.Send("POST", "/api/v1/workflows", laterSteps)
	s := e.Start(`{"workflow_name":"w"}`)
	<-g.Reached
	of := saga.Call{Tenant: apitest.Tenant.ID, SagaID: s.SagaID, Action: saga.Execute, Attempt: 1}
	early := apitest.CallbackPath(&of)
	r := e.Send("POST", early, `{"result":"done","output":{"id":"a"}}`)
	if r.Wants(http.StatusServiceUnavailable, "SAGA_CALLBACK_EARLY"); r.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	close(g.Open)
	call := <-calls
	if path := apitest.CallbackPath(&call); path != early {
		t.Errorf("the call has the callback %s, want %s", path, early)
	}
	patience.Until(t, "the report is taken", func() bool {
		return e.Send("POST", early, `{"result":"done","output":{"id":"a"}}`).Status == http.StatusOK
	})
}

func TestDefinitionsThatAnswerLaterNeedAServerThatIsReached(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.Sagas.Callbacks.Served = false })
	p := e.Send("POST", "/api/v1/workflows", laterSteps).Wants(422, "WORKFLOW_INVALID")
	if len(p.Errors) != 1 || p.Errors[0].Pointer != "/steps/0/answer/later" ||
		!strings.Contains(p.Errors[0].Message, "server.public_url") {
		t.Errorf("errors %+v", p.Errors)
	}
}
