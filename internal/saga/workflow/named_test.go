package workflow_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// The destination of a request is given in exactly one way, and a path never leads out of the base
// URL of its participant.
func TestMistakesInCallsByName(t *testing.T) {
	const at = "/steps/0/action/http/"
	type want struct{ pointer, code, text string }
	for http, wants := range map[string][]want{
		`{}`:         {{"url", workflow.CodeInvalidURL, "unless the request names a participant"}},
		`{"url":""}`: {{"url", workflow.CodeInvalidURL, "is required"}},
		`{"path":"/a"}`: {{"url", workflow.CodeInvalidURL, "is required"},
			{"path", workflow.CodeInvalid, "requires participant"}},
		`{"url":"http://h/","path":"/a"}`:                       {{"path", workflow.CodeInvalid, "whole address into url"}},
		`{"participant":"stock","url":"http://h/"}`:             {{"url", workflow.CodeInvalid, "into path"}},
		`{"participant":""}`:                                    {{"participant", workflow.CodeInvalid, "name of a participant"}},
		`{"participant":"a/b"}`:                                 {{"participant", workflow.CodeInvalid, "name of a participant"}},
		`{"participant":"${payload.to}"}`:                       {{"participant", workflow.CodeInvalid, "name of a participant"}},
		`{"participant":7}`:                                     {{"participant", workflow.CodeInvalid, ""}},
		`{"participant":["stock"]}`:                             {{"participant", workflow.CodeInvalid, ""}},
		`{"participant":"stock","path":7}`:                      {{"path", workflow.CodeInvalid, ""}},
		`{"participant":"stock","path":""}`:                     {{"path", workflow.CodeInvalidURL, "begin with /"}},
		`{"participant":"stock","path":"a"}`:                    {{"path", workflow.CodeInvalidURL, "begin with /"}},
		`{"participant":"stock","path":"?a=1"}`:                 {{"path", workflow.CodeInvalidURL, "begin with /"}},
		`{"participant":"stock","path":"${payload.path}"}`:      {{"path", workflow.CodeInvalidURL, "begin with /"}},
		`{"participant":"stock","path":"http://evil.example/"}`: {{"path", workflow.CodeInvalidURL, "scheme or host"}},
		`{"participant":"stock","path":"//evil.example/"}`:      {{"path", workflow.CodeInvalidURL, "begins with //"}},
		`{"participant":"stock","path":"@evil.example/"}`:       {{"path", workflow.CodeInvalidURL, "begin with /"}},
		`{"participant":"stock","path":":99/"}`:                 {{"path", workflow.CodeInvalidURL, "begin with /"}},
		`{"participant":"stock","path":"/a#b"}`:                 {{"path", workflow.CodeInvalidURL, "fragment"}},
		`{"participant":"stock","path":"/a/../b"}`:              {{"path", workflow.CodeInvalidURL, ". or .."}},
		`{"participant":"stock","path":"/.."}`:                  {{"path", workflow.CodeInvalidURL, ". or .."}},
		`{"participant":"stock","path":"/./a"}`:                 {{"path", workflow.CodeInvalidURL, ". or .."}},
		`{"participant":"stock","path":"/a/..?b"}`:              {{"path", workflow.CodeInvalidURL, ". or .."}},
		`{"participant":"stock","path":"/%2e%2E/b"}`:            {{"path", workflow.CodeInvalidURL, "%2E"}},
		`{"participant":"stock","path":"/${payload.a}%2e"}`:     {{"path", workflow.CodeInvalidURL, "%2E"}},
		`{"participant":"stock","path":"/%zz"}`:                 {{"path", workflow.CodeInvalidURL, "is not a URL"}},
		`{"participant":"stock","path":"/%2${payload.a}"}`:      {{"path", workflow.CodeInvalidURL, "is not a URL"}},
		`{"participant":"stock","path":"/a${payload.x"}`: {{"path", workflow.CodeInvalidURL, "closing brace"},
			{"path", workflow.CodeExpression, "closing brace"}},
		`{"participant":"stock","path":"/${payload.x +}"}`:              {{"path", workflow.CodeExpression, "is not an expression"}},
		`{"participant":"stock","path":"/${steps.nope}"}`:               {{"path", workflow.CodeExpression, "not a step"}},
		`{"participant":"stock","path":"/?k=${secrets.K}"}`:             {{"path", workflow.CodeExpression, "header or in the body"}},
		`{"participant":"stock","headers":{"X-K":"k ${secrets.K.x}"}}`:  {{"headers/X-K", workflow.CodeExpression, "name one secret"}},
		`{"participant":"stock"}`:                                       nil,
		`{"participant":"STOCK_ü:1","path":"/"}`:                        nil,
		`{"participant":"stock","path":"/a b/ü?x=http://y/../z&p=%2e"}`: nil,
		`{"participant":"stock","path":"/a/...?k=${call.key}"}`:         nil,
	} {
		_, err := workflow.ParseJSON([]byte(acting(`{"http":`+http+`}`)), workflow.Limits{})
		f := fault.As(err)
		if (f == nil) != (wants == nil) {
			t.Errorf("%s: %v", http, err)
			continue
		}
		for _, w := range wants {
			if !slices.ContainsFunc(f.Fields, func(got fault.Field) bool {
				return got.Pointer == at+w.pointer && got.Code == w.code && strings.Contains(got.Message, w.text)
			}) {
				t.Errorf("%s: %+v, want %+v", http, f.Fields, w)
			}
		}
		if f != nil && len(f.Fields) != len(wants) {
			t.Errorf("%s has %d mistakes: %+v", http, len(f.Fields), f.Fields)
		}
	}
	for _, job := range []string{`{"job":"j","participant":"stock"}`, `{"job":"j","path":"/"}`} {
		if _, err := workflow.ParseJSON([]byte(acting(job)), workflow.Limits{}); err == nil {
			t.Errorf("%s: a job has no participant", job)
		}
	}
}

// A definition without named participants is stored as before.
func TestACallByNameIsStoredWithItsNameAndPath(t *testing.T) {
	for http, want := range map[string]string{
		`{"participant":"stock"}`: `{"method":"POST","participant":"stock","path":"/"}`,
		`{"path":"/r/${payload.id}","participant":"stock","method":"PUT"}`: `{"method":"PUT","participant":"stock","path":"/r/${payload.id}"}`,
		`{"url":"http://h/"}`: `{"method":"POST","url":"http://h/"}`,
	} {
		d, err := workflow.ParseJSON([]byte(acting(`{"http":`+http+`}`)), workflow.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(d.Steps[0].Action.HTTP)
		if err != nil || string(got) != want {
			t.Errorf("%s is stored as %s, %v", http, got, err)
		}
		whole, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var again workflow.Definition
		if err := json.Unmarshal(whole, &again); err != nil || string(again.Hash()) != string(d.Hash()) {
			t.Errorf("%s is not what was stored: %v", whole, err)
		}
		named := strings.Contains(http, "stock")
		if strings.Join(again.Participants(), " ") != map[bool]string{true: "stock"}[named] {
			t.Errorf("%s names %v", http, again.Participants())
		}
		member, to := again.Steps[0].Action.Endpoint()
		_, shown, _ := again.Steps[0].Action.Request()
		if named != (member == "" && to == "") || named != strings.HasPrefix(shown, "participant://stock/") {
			t.Errorf("%s goes to %q at %q, shown as %s", http, to, member, shown)
		}
	}
}
