package workflowpages

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func (c changes) String() string {
	var b strings.Builder
	for _, m := range c.Whole {
		fmt.Fprintf(&b, "%s:%s>%s ", m.Path, m.Old, m.New)
	}
	for _, s := range c.Steps {
		fmt.Fprintf(&b, "[%s %d>%d", s.Name, s.From, s.To)
		if s.Moved {
			b.WriteString(" moved")
		}
		for _, m := range s.Members {
			fmt.Fprintf(&b, " %s:%s>%s", m.Path, m.Old, m.New)
		}
		b.WriteString("] ")
	}
	return strings.TrimSpace(b.String())
}

func TestDefinitionsAreComparedByStep(t *testing.T) {
	const before = `{"name":"o","timeout_ms":1000,"steps":[
		{"name":"a","action":{"http":{"url":"x"}},"compensation":"none"},
		{"name":"b","compensation":{"http":{"url":"y"}},"retry":{"max_attempts":3,"retry_on":["timeout"]}},
		{"name":"c","compensation":"none"}]}`
	for _, c := range []struct{ after, want string }{
		{before, ""},
		{strings.Replace(before, "1000", "9007199254740993", 1), "timeout_ms:1000>9007199254740993"},
		{strings.Replace(before, `"name":"a"`, `"name":"z"`, 1),
			`[z 0>1 action.http.url:>"x" compensation:>"none"] [a 1>0 action.http.url:"x"> compensation:"none">]`},
		{strings.NewReplacer(`["timeout"]`, `["timeout","network"]`, `:3,`, `:4,`).Replace(before),
			`[b 2>2 retry.max_attempts:3>4 retry.retry_on:["timeout"]>["timeout","network"]]`},
		{strings.Replace(before, `"compensation":{"http":{"url":"y"}}`, `"compensation":"none"`, 1),
			`[b 2>2 compensation:>"none" compensation.http.url:"y">]`},
		{`{"name":"o","timeout_ms":1000,"steps":[
			{"name":"c","compensation":"none"},
			{"name":"a","action":{"http":{"url":"x"}},"compensation":"none"},
			{"name":"b","compensation":{"http":{"url":"y"}},"retry":{"max_attempts":3,"retry_on":["timeout"]}}]}`,
			"[c 3>1 moved]"},
	} {
		got, err := changesOf(json.RawMessage(before), json.RawMessage(c.after))
		if err != nil || got.String() != c.want || got.None() != (c.want == "") {
			t.Errorf("%s\n%s %v, want\n%s", c.after, got, err, c.want)
		}
	}
	if _, err := changesOf(json.RawMessage(`[`), json.RawMessage(`{}`)); err == nil {
		t.Error("what is not JSON is compared")
	}
}
