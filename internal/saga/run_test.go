package saga

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/workflow"
)

func TestCall(t *testing.T) {
	def := definition("uu")
	def.Steps[1].TimeoutMS = 250
	def.Steps[1].Action.HTTP.Headers = map[string]string{"X-Team": "stock"}
	start := NewInstance(
		New(
			Spec{ID: uuid.UUID{1}, Payload: json.RawMessage(`{"n":1.50}`), TraceID: new("abc")},
			def,
			1,
			new(int64(42)),
			noon,
			0,
		),
		def,
	)
	const id = "01000000-0000-0000-0000-000000000000"
	want := Call{
		SagaID:  uuid.UUID{1},
		Step:    "s0",
		Action:  Execute,
		Attempt: 1,
		Fence:   1,
		Timeout: time.Second,
		Trace:   "abc",
	}
	post := func(url string) workflow.Call {
		return workflow.Call{HTTP: &workflow.HTTPCall{Method: "POST", URL: url}}
	}
	for _, tt := range []struct {
		name, story, body string
		change            func(*Call)
	}{
		{"the first step", "",
			`{"saga_id":"` + id + `","workflow_name":"w","step":"s0","action":"execute","payload":{"n":1.50},"outputs":{}}`,
			func(c *Call) { c.Key, c.By = id+"/s0/execute", post("http://h/do/0") }},
		{"its second attempt differs in nothing but the number", "timeout",
			`{"saga_id":"` + id + `","workflow_name":"w","step":"s0","action":"execute","payload":{"n":1.50},"outputs":{}}`,
			func(c *Call) { c.Key, c.By, c.Attempt = id+"/s0/execute", post("http://h/do/0"), 2 }},
		{"the second step gets the first one's output", "done",
			`{"saga_id":"` + id + `","workflow_name":"w","step":"s1","action":"execute","payload":{"n":1.50},"outputs":{"s0":{"o":1}}}`,
			func(c *Call) {
				c.Step, c.Index, c.Key, c.Timeout = "s1", 1, id+"/s1/execute", 250*time.Millisecond
				c.OwnTimeout = true
				c.By = post("http://h/do/1")
				c.By.HTTP.Headers = map[string]string{"X-Team": "stock"}
			}},
		{"an undo gets input and output of its step", "done refused",
			`{"saga_id":"` + id + `","workflow_name":"w","step":"s0","action":"compensate","payload":{"n":1.50},"outputs":{"s0":{"o":1}},"input":{"n":1.50},"output":{"o":1}}`,
			func(c *Call) { c.Action, c.Key, c.By = Compensate, id+"/s0/compensate", post("http://h/undo/0") }},
		{"the undo of a doubtful step has no output", "done garbage",
			`{"saga_id":"` + id + `","workflow_name":"w","step":"s1","action":"compensate","payload":{"n":1.50},"outputs":{"s0":{"o":1}},"input":{"n":1.50},"output":null}`,
			func(c *Call) {
				c.Step, c.Index, c.Key, c.Timeout = "s1", 1, id+"/s1/compensate", 250*time.Millisecond
				c.OwnTimeout = true
				c.Action, c.By = Compensate, post("http://h/undo/1")
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := want
			tt.change(&want)
			want.Body, want.Parts = []byte(tt.body), Parts{}
			if strings.Contains(tt.body, `"outputs":{"s0"`) {
				want.Parts = Parts{1}
			}
			r, _, _ := tell(t, start, tt.story)
			got := r.Call(Defaults{StepTimeout: time.Second})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\nbody %s", diff, got.Body)
			}
			if !json.Valid(got.Body) {
				t.Errorf("the body is not JSON: %s", got.Body)
			}
		})
	}
}

func TestABodyWithoutPayloadAndWithNamesOfAnyScript(t *testing.T) {
	def := definition("nn")
	def.Name, def.Steps[0].Name, def.Steps[1].Name = "注文", "在庫", "e\u0301tape"
	r := NewInstance(New(Spec{ID: uuid.UUID{1}}, def, 1, new(int64(1)), noon, 0), def)
	c, err := happens(r, Answered{Outcome{Verdict: Done}}, moments(noon)) // without a body
	if err != nil {
		t.Fatal(err)
	}
	want := `{"saga_id":"01000000-0000-0000-0000-000000000000","workflow_name":"注文","step":"e` + "\u0301" + `tape","action":"execute","payload":null,"outputs":{"在庫":null}}`
	if got := string(c.After.Call(Defaults{}).Body); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if diff := cmp.Diff(map[string]json.RawMessage{"在庫": json.RawMessage("null")}, c.After.Outputs()); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

func TestNext(t *testing.T) {
	past, future := new(noon.Add(-time.Second)), new(noon.Add(time.Second))
	for _, tt := range []struct {
		name, story string
		change      func(*Instance)
		want        Task
	}{
		{"a new saga is sent", "", func(*Instance) {}, Send},
		{"so is the next step", "done", func(*Instance) {}, Send},
		{"an ended saga rests", "done done", func(*Instance) {}, Rest},
		{"a failed one too", "done refused refused", func(*Instance) {}, Rest},
		{"before its time it waits", "", func(r *Instance) { r.NextRunAt = future }, Wait},
		{"at its time it does not", "", func(r *Instance) { r.NextRunAt = &noon }, Send},
		{"nor after", "", func(r *Instance) { r.NextRunAt = past }, Send},
		{"suspended it waits", "", func(r *Instance) { r.SuspendedAt = past }, Wait},
		{"a suspended undo waits", "done refused", func(r *Instance) { r.SuspendedAt = past }, Wait},
		{"a flag turns it", "cancel", func(*Instance) {}, Turn},
		{"a flag does not wait for the next attempt", "timeout cancel", func(r *Instance) { r.NextRunAt = future }, Turn},
		{"a flag turns a suspended one", "cancel", func(r *Instance) { r.SuspendedAt = past }, Turn},
		{"a late undo turns", "done refused deadline", func(*Instance) {}, Turn},
		{"an undo is sent though the cause is set", "done refused", func(*Instance) {}, Send},
		{"a recorded call is repeated before a flag turns it", "slow cancel", func(*Instance) {}, Send},
		{"a recorded undo is repeated before its deadline counts", "done refused slow deadline", func(*Instance) {}, Send},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _, _ := tell(t, started("uu"), tt.story)
			tt.change(&r)
			now := noon
			if r.NextRunAt != nil && tt.want != Wait && !r.NextRunAt.Equal(*future) {
				now = *r.NextRunAt
			}
			if got := r.Next(now); got != tt.want {
				t.Errorf("Next = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestRebuildReadsTheLogsInAnyOrder(t *testing.T) {
	r, _, _ := tell(t, started("uuu"), "done")
	s := r.Saga
	s.CurrentStep, s.Attempt = 1, 2
	logs := []StepLog{
		{StepIndex: 1, Action: Execute, Attempt: 2, Status: LogRunning},
		{StepIndex: 0, Action: Execute, Attempt: 2, Status: LogSuccess, Response: json.RawMessage(`{"o":1}`)},
		{StepIndex: 0, Action: Execute, Attempt: 1, Status: LogFailed, Response: json.RawMessage(`{"no":1}`)},
		{StepIndex: 0, Action: Compensate, Attempt: 1, Status: LogSuccess, Response: json.RawMessage(`{"undone":1}`)},
		{StepIndex: 9, Action: Execute, Attempt: 1, Status: LogSuccess},
	}
	for _, tt := range []struct {
		name     string
		change   func(*Saga)
		recorded bool
	}{
		{"the call in flight is recorded", func(*Saga) {}, true},
		{"an earlier attempt's record is not its own", func(s *Saga) { s.Attempt = 3 }, false},
		{"nor another step's", func(s *Saga) { s.CurrentStep = 2 }, false},
		{"nor the other direction's", func(s *Saga) { s.State = Compensating }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := s
			tt.change(&s)
			got := Rebuild(s, r.Def, logs)
			if got.recorded != tt.recorded {
				t.Errorf("recorded = %v, want %v", got.recorded, tt.recorded)
			}
			if diff := cmp.Diff([]json.RawMessage{json.RawMessage(`{"o":1}`), nil, nil}, got.outputs); diff != "" {
				t.Errorf("outputs (-want +got):\n%s", diff)
			}
		})
	}
}
