package participant

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

func TestOutcomesOfReports(t *testing.T) {
	def, err := workflow.ParseYAML([]byte(`
name: w
steps:
  - name: s
    action: {http: {url: "http://h/do"}}
    answer: {later: "status == 202", done: "status == 999", output: "${body.id}"}
    output_schema: {type: string}
    compensation: {http: {url: "http://h/undo"}}
`), workflow.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, func(cfg *Config) { cfg.MaxResponseBytes = 100 })
	ruled := saga.Call{Action: saga.Execute, Rules: def.Rules(0, false), By: def.Steps[0].Action}
	plain := ruled
	plain.Rules = nil
	undo := ruled
	undo.Action = saga.Compensate
	for _, tt := range []struct {
		name    string
		call    saga.Call
		result  reported.Result
		content string
		want    saga.Outcome
		unfit   string
	}{
		{"an output", plain, reported.Done, `{"b":1, "a":1.50}`, saga.Outcome{Verdict: saga.Done,
			Code: "reported_done", Output: json.RawMessage(`{"a":1.50,"b":1}`)}, ""},
		{"none", plain, reported.Done, ``, saga.Outcome{Verdict: saga.Done, Code: "reported_done"}, ""},
		{"what is kept of it", ruled, reported.Done, `{"id":"x"}`, saga.Outcome{Verdict: saga.Done,
			Code: "reported_done", Output: json.RawMessage(`"x"`)}, ""},
		{"nothing to keep", ruled, reported.Done, `{"name":"x"}`, saga.Outcome{}, "the rules cannot be applied to the response"},
		{"another type", ruled, reported.Done, `{"id":1}`, saga.Outcome{}, "output_schema"},
		{"too large", plain, reported.Done, `"` + strings.Repeat("x", 100) + `"`, saga.Outcome{}, "larger than 100 bytes"},
		{"of a compensation", undo, reported.Done, ``, saga.Outcome{Verdict: saga.Done, Code: "reported_done"}, ""},
		{"a refusal", ruled, reported.Refused, `{"code":"E7","message":"sold out"}`, saga.Outcome{Verdict: saga.Refused,
			Class: retry.Refused, Code: "reported_refused", Message: "sold out",
			Response: json.RawMessage(`{"code":"E7","message":"sold out"}`)}, ""},
		{"a refusal without a reason", plain, reported.Refused, ``, saga.Outcome{Verdict: saga.Refused,
			Class: retry.Refused, Code: "reported_refused", Message: `the participant reported "refused"`}, ""},
		{"not applied", plain, reported.NotApplied, `{"message":"busy"}`, saga.Outcome{Verdict: saga.NotApplied,
			Class: retry.Unavailable, Code: "reported_not_applied", Message: "busy"}, ""},
		{"unknown", plain, reported.Unknown, `{"message":"lost"}`, saga.Outcome{Verdict: saga.Unknown,
			Class: retry.BadResponse, Code: "reported_unknown", Message: "lost"}, ""},
	} {
		o, err := c.Report(t.Context(), &tt.call, tt.result, json.RawMessage(tt.content))
		unfit := (*reported.Unfit)(nil)
		switch {
		case tt.unfit != "" && (!errors.As(err, &unfit) || !strings.Contains(unfit.Why, tt.unfit)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.unfit)
		case tt.unfit == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case o.Verdict != tt.want.Verdict || o.Class != tt.want.Class || o.Code != tt.want.Code ||
			o.Message != tt.want.Message || string(o.Output) != string(tt.want.Output) ||
			string(o.Response) != string(tt.want.Response):
			t.Errorf("%s: %+v, want %+v", tt.name, o, tt.want)
		}
	}
}

// Invariant I24: a secret that was sent to a participant is not stored when the participant reports
// it.
func TestReportsHaveNoSecrets(t *testing.T) {
	const base = "http://card.example"
	call := secretCall(base + "/do")
	found := 0
	c := withSecrets(t, base, hardValue)
	c.cfg.Hidden = func(*saga.Call) { found++ }
	quoted, _ := json.Marshal("the key " + hardValue)
	for result, content := range map[reported.Result]string{
		reported.Done: `{"said":` + string(quoted) + `}`, reported.Refused: `{"message":` + string(quoted) + `}`,
	} {
		o, err := c.Report(t.Context(), &call, result, json.RawMessage(content))
		if err != nil {
			t.Fatal(err)
		}
		all, _ := json.Marshal([]any{o.Message, o.Output, o.Response})
		if strings.Contains(string(all), `wörd`) || !strings.Contains(string(all), "secret:key") {
			t.Errorf("%s: %s", result, all)
		}
	}
	text, err := c.Progress(t.Context(), &call, "with\n"+hardValue)
	if err != nil || text != "with "+mark {
		t.Errorf("progress %q, %v", text, err)
	}
	if found != 3 {
		t.Errorf("%d of 3 were noticed", found)
	}
}

func TestACallThatMayBeAnsweredLaterNeedsACallback(t *testing.T) {
	def, err := workflow.ParseYAML([]byte(`{name: w, steps: [{name: s, action: {http: {url: "http://127.0.0.1:9/"}},
		answer: {later: "status == 202"}, compensation: none}]}`), workflow.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	call := callTo("http://127.0.0.1:9/")
	call.Rules = def.Rules(0, false)
	o := newClient(t, nil).Call(t.Context(), call)
	if o.Verdict != saga.NotApplied || o.Code != CodeNoCallback || o.Class != retry.Unavailable {
		t.Errorf("without a URL: %+v", o)
	}
}
