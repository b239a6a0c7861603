package simulate_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/participant"
	"github.com/skald-saga/skald/internal/saga/simulate"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

var written = participant.New(participant.Config{NewSpanID: func() [8]byte { return [8]byte{7: 1} }}).Written()

// play plays a definition and returns its path as text.
func play(t *testing.T, definition string, change func(*simulate.Scenario)) ([]string, simulate.Result) {
	t.Helper()
	def, err := workflow.ParseYAML([]byte(definition), workflow.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s := simulate.Scenario{Definition: def, Spec: saga.Spec{ID: simulate.SagaID}, Start: noon,
		Limits: simulate.Limits{StepTimeout: time.Second, Timeout: time.Minute, CompensationTimeout: time.Minute}}
	change(&s)
	if wrong := s.Check(written); wrong != nil {
		t.Fatal(wrong)
	}
	r := simulate.Play(&s, written)
	var path []string
	for _, e := range r.Path {
		words := []string{fmt.Sprint(e.At.Sub(noon)), string(e.Kind)}
		if e.Step != "" {
			words = append(words, e.Step, strings.ToLower(string(e.Action)))
		}
		if e.Code != "" {
			words = append(words, e.Code)
		}
		path = append(path, strings.Join(words, " "))
	}
	again := simulate.Play(&s, written)
	if !reflect.DeepEqual(r.Path, again.Path) {
		t.Errorf("played again (-first +second):\n%s", cmp.Diff(r.Path, again.Path))
	}
	return path, r
}

const two = `
name: w
retry: {max_attempts: 3, initial_interval_ms: 20000, max_interval_ms: 20000, jitter: 0}
compensation_retry: {max_attempts: 2, initial_interval_ms: 40000, max_interval_ms: 40000, jitter: 0}
steps:
- {name: a, action: {http: {url: "http://a.example"}}, compensation: {http: {url: "http://a.example/undo"}}}
- {name: b, action: {http: {url: "http://b.example"}}, compensation: none}
`

const jobs = `
name: w
steps:
- {name: a, type: job, job: settle, args: {n: "${payload.n}"}, compensation: {job: unsettle}}
- {name: b, action: {http: {url: "http://b.example"}}, compensation: none}
`

func TestPaths(t *testing.T) {
	for name, tt := range map[string]struct {
		definition string
		change     func(*simulate.Scenario)
		want       []string
		state      saga.State
		stopped    string
	}{
		"waits take no time of ours": {two, func(s *simulate.Scenario) {
			s.Answers = map[string][]simulate.Answer{"b": {{Fault: "timeout"}, {TakesMS: 300}}}
		}, []string{"0s call a execute", "0s call b execute timeout", "1s wait", "21s call b execute"}, saga.Completed, ""},
		"the deadline passes in a wait": {two, func(s *simulate.Scenario) {
			s.Answers = map[string][]simulate.Answer{"b": {{Status: 503}}}
			s.Definition.TimeoutMS = 30_000
		}, []string{"0s call a execute", "0s call b execute http_503", "0s wait", "20s call b execute http_503",
			"20s wait", "30s deadline_exceeded", "30s compensation", "30s skipped b compensate",
			"30s call a compensate"}, saga.TimedOut, ""},
		"the deadline passes in a call": {two, func(s *simulate.Scenario) {
			s.Answers = map[string][]simulate.Answer{"a": {{TakesMS: 900}}}
			s.Definition.TimeoutMS = 500
		}, []string{"0s call a execute", "900ms deadline_exceeded", "900ms compensation",
			"900ms call a compensate"}, saga.TimedOut, ""},
		"a cancel during a call": {two, func(s *simulate.Scenario) { s.CancelAt = "b" },
			[]string{"0s call a execute", "0s call b execute", "0s cancel_requested", "0s compensation",
				"0s skipped b compensate", "0s call a compensate"}, saga.Cancelled, ""},
		"a compensation gives up": {two, func(s *simulate.Scenario) {
			s.Answers = map[string][]simulate.Answer{"b": {{Status: 400}}, "a/compensate": {{Status: 500}}}
		}, []string{"0s call a execute", "0s call b execute http_400", "0s compensation",
			"0s call a compensate http_500", "0s wait", "40s call a compensate http_500"}, saga.Failed, ""},
		"the deadline of the compensation": {two, func(s *simulate.Scenario) {
			s.Answers = map[string][]simulate.Answer{"b": {{Status: 400}}, "a/compensate": {{Status: 500}}}
			s.Definition.CompensationTimeoutMS = 1000
		}, []string{"0s call a execute", "0s call b execute http_400", "0s compensation",
			"0s call a compensate http_500", "0s wait", "1s deadline_exceeded"}, saga.Failed, ""},
		"job runs": {jobs, func(s *simulate.Scenario) {
			s.Spec.Payload = []byte(`{"n":1}`)
			s.Answers = map[string][]simulate.Answer{"b": {{Status: 400}}, "a": {{TakesMS: 5000}}}
		}, []string{"5s job_run a execute", "5s call b execute http_400", "5s compensation",
			"5s job_run a compensate"}, saga.Compensated, ""},
		"a job run that fails": {jobs, func(s *simulate.Scenario) {
			s.Answers = map[string][]simulate.Answer{"a": {{RunState: "FAILED"}}}
		}, []string{"0s job_run a execute job_failed", "0s compensation"}, saga.Compensated, ""},
		"a body over the limit": {two, func(s *simulate.Scenario) { s.Limits.Budget.Request = 10 },
			[]string{"0s not_sent a execute request_too_large", "0s compensation"}, saga.Compensated, ""},
		"the deadline after a pivot turns nothing back": {strings.NewReplacer("{name: a,", "{name: a, pivot: true,",
			`compensation: {http: {url: "http://a.example/undo"}}`, "compensation: none").Replace(two),
			func(s *simulate.Scenario) {
				s.Answers = map[string][]simulate.Answer{"b": {{Status: 503}, {}}}
				s.Definition.TimeoutMS = 1000
			}, []string{"0s call a execute", "0s call b execute http_503", "0s wait", "1s deadline_exceeded", "1s wait",
				"20s call b execute"}, saga.Completed, ""},
		"too many bytes": {strings.Replace(two, "max_attempts: 3", "max_attempts: 100", 1), func(s *simulate.Scenario) {
			s.Limits.Timeout = 0
			s.Spec.Payload = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
			s.Answers = map[string][]simulate.Answer{"a": {{Status: 500}}}
		}, nil, saga.Running, "the simulation exceeds its limit of steps or bytes"},
		"too many calls": {strings.Replace(two, "max_attempts: 3", "max_attempts: 100000", 1), func(s *simulate.Scenario) {
			s.Limits.Timeout = 0
			s.Answers = map[string][]simulate.Answer{"a": {{Status: 500}}}
		}, nil, saga.Running, "the simulation exceeds its limit of calls"},
	} {
		t.Run(name, func(t *testing.T) {
			path, r := play(t, tt.definition, tt.change)
			if diff := cmp.Diff(tt.want, path); tt.want != nil && diff != "" {
				t.Errorf("path (-want +got):\n%s", diff)
			}
			if r.Saga.State != tt.state || r.Stopped != tt.stopped {
				t.Errorf("ended as %s, stopped %q", r.Saga.State, r.Stopped)
			}
		})
	}
}

const mapped = `
name: w
payload_schema: {type: object, required: [n]}
steps:
- name: a
  action: {http: {method: PUT, url: "http://a.example/${payload.n}", body: {n: "${payload.n}"}}}
  output_schema:
    type: object
    required: [id, tags, at]
    properties:
      id: {type: integer, minimum: 7}
      tags: {type: array, items: {enum: [red]}}
      at: {type: string, examples: [today]}
      more: {$ref: "#"}
  compensation: {http: {url: "http://a.example/${output.id}"}}
- name: b
  when: "${payload.n > 2}"
  action: {http: {url: "http://b.example"}}
  compensation: none
- name: c
  action: {http: {url: "http://c.example/${steps.a.tags[0]}"}}
  answer: {refused: "body.code == 'NO'"}
  compensation: none
`

// TestWordsOfExpressionsArePlayed checks that requests, conditions and rules for answers are those
// of the engine, and that a call without a chosen answer gets one that fits its schema.
func TestWordsOfExpressionsArePlayed(t *testing.T) {
	path, r := play(t, mapped, func(s *simulate.Scenario) {
		s.Spec.Payload = []byte(`{"n":1.50}`)
		s.Answers = map[string][]simulate.Answer{"c": {{Status: 200, Body: []byte(`{"code":"NO"}`)}}}
	})
	if diff := cmp.Diff([]string{"0s call a execute", "0s skipped b execute", "0s call c execute answer_refused",
		"0s compensation", "0s call a compensate"}, path); diff != "" {
		t.Errorf("path (-want +got):\n%s", diff)
	}
	for i, want := range map[int]string{
		0: `PUT http://a.example/1.50 {"n":1.50}`,
		2: `POST http://c.example/red `,
		4: `POST http://a.example/7 `,
	} {
		q := r.Path[i].Request
		if got := q.Method + " " + q.URL + " " + string(q.Body); !strings.HasPrefix(got, want) {
			t.Errorf("%d: %s; want %s", i, got, want)
		}
	}
	if got := string(r.Outputs["a"]); got != `{"at":"today","id":7,"tags":["red"]}` {
		t.Errorf("an answer by its schema is %s", got)
	}
	def, err := workflow.ParseYAML([]byte(mapped), workflow.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s := simulate.Scenario{Definition: def}
	if wrong := s.Check(written); len(wrong) == 0 || wrong[0].Pointer != "/payload" {
		t.Errorf("a payload that does not fit: %v", wrong)
	}
}

// TestARequestIsShownByteForByte checks the head as it is sent, including the deadline and the key.
func TestARequestIsShownByteForByte(t *testing.T) {
	_, r := play(t, two, func(s *simulate.Scenario) {
		s.Spec.Payload = []byte(`{"n":1.50}`)
		s.Answers = map[string][]simulate.Answer{"b": {{}, {}}, "a/compensate": {{}}}
	})
	want := "POST / HTTP/1.1\r\nHost: a.example\r\nAccept: application/json\r\nUser-Agent: skald/dev\r\n" +
		"Content-Type: application/json\r\nContent-Length: 134\r\n" +
		"Idempotency-Key: 00000000-0000-7000-8000-000000000001/a/execute\r\n" +
		"X-Saga-Id: 00000000-0000-7000-8000-000000000001\r\nX-Saga-Tenant: 00000000-0000-0000-0000-000000000000\r\n" +
		"X-Saga-Step: a\r\nX-Saga-Action: execute\r\nX-Saga-Attempt: 1\r\nX-Saga-Fence: 1\r\n" +
		"X-Saga-Deadline: 2026-05-04T12:00:01.000Z\r\n" +
		"traceparent: 00-00000000000070008000000000000001-0000000000000001-01\r\n\r\n"
	if diff := cmp.Diff(want, r.Path[0].Request.Head); diff != "" {
		t.Errorf("head (-want +got):\n%s", diff)
	}
	body := `{"saga_id":"00000000-0000-7000-8000-000000000001","workflow_name":"w","step":"a","action":"execute",` +
		`"payload":{"n":1.50},"outputs":{}}`
	if got := string(r.Path[0].Request.Body); got != body {
		t.Errorf("body %s; want %s", got, body)
	}
	if diff := cmp.Diff([]string{"a/compensate", "b"}, r.Unused); diff != "" {
		t.Errorf("answers not asked for (-want +got):\n%s", diff)
	}
}

// TestAnExampleOfAHostileSchemaIsSmall checks that nested lists do not multiply.
func TestAnExampleOfAHostileSchemaIsSmall(t *testing.T) {
	schema := "{type: string}"
	for range 8 {
		schema = "{type: array, minItems: 1000000, items: " + schema + "}"
	}
	_, r := play(t, strings.Replace(two, "compensation: none", "compensation: none, output_schema: "+schema, 1),
		func(*simulate.Scenario) {})
	for i := range r.Path {
		if a := r.Path[i].Answer; a != nil && len(a.Body) > 1000 {
			t.Errorf("an answer has %d bytes", len(a.Body))
		}
	}
}
