package workflow_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

func withOutput(output string) string {
	return `{"name":"w","steps":[
		{"name":"a","action":{"http":{"url":"http://x/1"}},"compensation":"none"},
		{"name":"a.b","action":{"http":{"url":"http://x/2"}},"compensation":"none"}],"output":` + output + `}`
}

func TestTheOutputTemplateIsFilled(t *testing.T) {
	outputs := map[string]json.RawMessage{
		"a":   json.RawMessage(`{"b":{"c":1.50},"list":[{"x":true}],"nil":null}`),
		"a.b": json.RawMessage(`{"c":"dotted"}`),
	}
	for _, tt := range []struct {
		name, template, payload, want string
		missing                       []string
	}{
		{"values keep type and digits", `{"n":"${steps.a.b.c}","p":"${payload.big}"}`, `{"big":12345678901234567890.10}`, `{"n":"dotted","p":12345678901234567890.10}`, nil},
		{"the longest step name is meant", `{"x":"${steps.a.b}"}`, ``, `{"x":{"c":"dotted"}}`, nil},
		{"lists by index", `{"x":"${steps.a.list.0.x}","l":["${steps.a.list}",1]}`, ``, `{"l":[[{"x":true}],1],"x":true}`, nil},
		{"null is a value", `{"x":"${steps.a.nil}"}`, ``, `{"x":null}`, nil},
		{"nothing found is null and told", `{"x":{"y/z":["${steps.a.gone}"]},"i":"${steps.a.list.1}","p":"${payload.q}"}`, ``, `{"i":null,"p":null,"x":{"y/z":[null]}}`, []string{"/i", "/p", "/x/y~1z/0"}},
		{"the whole payload", `{"x":"${payload}"}`, `[1]`, `{"x":[1]}`, nil},
		{"data is never read as a template", `{"x":"${payload.t}"}`, `{"t":"${steps.a}"}`, `{"x":"${steps.a}"}`, nil},
		{"escaped, and other text", `{"x":"$${steps.a}","y":"a ${b}"}`, ``, `{"x":"${steps.a}","y":"a ${b}"}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := workflow.ParseJSON([]byte(withOutput(tt.template)), workflow.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			var payload json.RawMessage
			if tt.payload != "" {
				payload = json.RawMessage(tt.payload)
			}
			got, missing := d.Result(payload, outputs)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.missing, missing); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			again, _ := d.Result(payload, outputs)
			if string(again) != string(got) {
				t.Errorf("filled again: %s", again)
			}
		})
	}
}

func TestBadOutputTemplatesAreRefused(t *testing.T) {
	for _, tt := range []struct{ template, pointer string }{
		{`[]`, "/output"}, {`"${payload}"`, "/output"}, {`{"x":"${steps.c}"}`, "/output/x"}, {`{"x":"${steps.}"}`, "/output/x"},
		{`{"x":["${payload"]}`, "/output/x/0"}, {`{"x":"${now}"}`, "/output/x"}, {`{"x":"${payloads.x}"}`, "/output/x"},
		{`{"x":"` + strings.Repeat("x", 70_000) + `"}`, "/output"},
	} {
		_, err := workflow.ParseJSON([]byte(withOutput(tt.template)), workflow.Limits{})
		if err == nil || !strings.HasPrefix(err.Error(), "WORKFLOW_INVALID: "+tt.pointer+":") {
			t.Errorf("%.60s: %v, want a mistake at %s", tt.template, err, tt.pointer)
		}
	}
}

func TestASagasPolicyStandsBetweenStepAndWorkflow(t *testing.T) {
	d, err := workflow.ParseJSON([]byte(`{"name":"w","retry":{"max_attempts":9,"initial_interval_ms":70},"steps":[
		{"name":"a","action":{"http":{"url":"http://x/1"}},"compensation":"none"},
		{"name":"b","action":{"http":{"url":"http://x/2"}},"compensation":"none","retry":{"max_attempts":2}}]}`), workflow.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	own := &retry.Policy{MaxAttempts: 5, MaxIntervalMS: 99}
	for i, most := range []int{5, 2} {
		p := d.ActionRetry(i, own)
		if p.MaxAttempts != most || p.MaxIntervalMS != 99 || p.InitialIntervalMS != 70 ||
			p.Multiplier != retry.Default.Multiplier {
			t.Errorf("step %d: %+v", i, p)
		}
	}
}

// A short template must not produce a result that exceeds any memory.
func TestATemplateThatNamesALargeValueOftenIsBounded(t *testing.T) {
	big := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	refs := strings.TrimSuffix(strings.Repeat(`"${payload}",`, 1000), ",")
	d := &workflow.Definition{Output: json.RawMessage(`{"a":[` + refs + `]}`)}
	result, missing := d.Result(big, nil)
	if len(result) > 17<<20 || len(missing) < 980 || len(missing) > 990 {
		t.Errorf("a result of %d bytes, %d references missing", len(result), len(missing))
	}
	if got := d.ArgsSize(&workflow.Call{Args: d.Output}, big, nil); got < 1000*len(big) {
		t.Errorf("arguments of %d bytes are taken for %d", 1000*len(big), got)
	}
}
