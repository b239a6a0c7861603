package workflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// order is a workflow whose second step is the given YAML.
func order(second string) string {
	return fmt.Sprintf(`
name: order
steps:
- name: reserve
  action: {http: {url: "http://stock/reservations"}}
  compensation: none
- name: charge
%s
- name: ship
  action: {http: {url: "http://parcel/shipments"}}
  compensation: none
`, second)
}

const noUndo = "\n  compensation: none"

// Every mistake in an expression is reported with its position and a sentence that says what to
// write.
func TestMistakesInExpressionsAreFoundAtRegistration(t *testing.T) {
	acting := func(http string) string { return order("  action: {http: " + http + "}" + noUndo) }
	answering := func(rules string) string {
		return order("  action: {http: {url: 'http://card/'}}\n  answer: " + rules + noUndo)
	}
	const at = "/steps/1/"
	for _, tt := range []struct{ name, def, pointer, want string }{
		{"does not compile", acting(`{url: 'http://card/', body: {a: '${payload.a +}'}}`), at + "action/http/body/a", "is not an expression"},
		{"a step that does not exist", acting(`{url: 'http://card/', body: {a: '${steps.nope}'}}`), at + "action/http/body/a", "not a step"},
		{"a later step", acting(`{url: 'http://card/', body: {a: '${steps.ship.id}'}}`), at + "action/http/body/a", "depends_on"},
		{"itself", acting(`{url: 'http://card/', headers: {X-A: '${steps.charge.id}'}}`), at + "action/http/headers/X-A", "depends_on"},
		{"a later step in a computation", acting(`{url: 'http://card/', body: '${has(steps.ship)}'}`), at + "action/http/body", "depends_on"},
		{"output in an action", acting(`{url: 'http://card/', body: '${output.id}'}`), at + "action/http/body", "no variable"},
		{"a host", acting(`{url: 'http://${payload.host}/'}`), at + "action/http/url", "scheme, host or port"},
		{"a part of a host", acting(`{url: 'http://a.${payload.host}/x'}`), at + "action/http/url", "scheme, host or port"},
		{"a port", acting(`{url: 'http://a:${payload.port}/x'}`), at + "action/http/url", "scheme, host or port"},
		{"a scheme", acting(`{url: '${payload.scheme}://a/x'}`), at + "action/http/url", "scheme, host or port"},
		{"a user", acting(`{url: 'http://u@a/${payload.x}'}`), at + "action/http/url", "user name"},
		{"a fragment", acting(`{url: 'http://a/${payload.x}#y'}`), at + "action/http/url", "fragment"},
		{"dots", acting(`{url: 'http://a/../${payload.x}'}`), at + "action/http/url", ". or .."},
		{"an open brace in a URL", acting(`{url: 'http://a/${payload.x'}`), at + "action/http/url", "closing brace"},
		{"an expression in a URL", acting(`{url: 'http://a/${payload.x +}'}`), at + "action/http/url", "is not an expression"},
		{"a secret in a query", acting(`{url: 'http://a/?k=${secrets.K}'}`), at + "action/http/url", "header or in the body"},
		{"a secret in the arguments of a job", order("  job: charge\n  args: {k: '${secrets.K}'}" + noUndo), at + "args/k", "the arguments of a job are stored"},
		{"a secret in a computation", acting(`{url: 'http://a/', body: {k: '${secrets.K + "x"}'}}`), at + "action/http/body/k", "not in a computation"},
		{"body and form", acting(`{url: 'http://a/', body: 1, form: {a: 1}}`), at + "action/http/form", "one of them"},
		{"a form that is a list", acting(`{url: 'http://a/', form: [1]}`), at + "action/http/form", "must be an object"},
		{"a form with an object in it", acting(`{url: 'http://a/', form: {a: {b: 1}}}`), at + "action/http/form/a", "must be a string"},
		{"too many expressions", acting(`{url: 'http://a/', body: [` + strings.Repeat(`'${payload}',`, 300) + `]}`), at + "action/http/body/256", "256 expressions"},
		{"too much cost", acting(`{url: 'http://a/', body: '${` + strings.Repeat("[1,2,3,4,5,6,7,8,9,10].map(x, ", 6) + "1" + strings.Repeat(")", 6) + `}'}`), at + "action/http/body", "cost too much"},
		{"a rule that is not a bool", answering(`{done: 'status + 1'}`), at + "answer/done", "true or false"},
		{"a rule that is a bool of YAML", answering(`{done: true}`), at + "answer/done", "string"},
		{"a rule about the payload", answering(`{refused: 'payload.x == 1'}`), at + "answer/refused", "the variables available here are status, headers, body"},
		{"a wait without later", answering(`{later_ms: 5000}`), at + "answer/later_ms", "requires later"},
		{"too short a wait", answering(`{later: 'status == 202', later_ms: 999}`), at + "answer/later_ms", "1000"},
		{"no rule", answering(`{}`), at + "answer", "needs one of"},
		{"an unknown rule", answering(`{finished: 'true'}`), at + "answer/finished", "unknown field"},
		{"an output of the payload", answering(`{output: '${payload.x}'}`), at + "answer/output", "no variable"},
		{"an answer inside the action", order("  action: {http: {url: 'http://card/'}, answer: {done: 'true'}}" + noUndo), at + "action/answer", "next to action"},
		{"an answer of a job", order("  job: j\n  answer: {done: 'true'}" + noUndo), at + "answer", "not allowed for a job"},
		{"an output of a compensation", order("  action: {http: {url: 'http://card/'}}\n  compensation: {http: {url: 'http://a/'}, answer: {output: '${body.x}'}}"), at + "compensation/answer/output", "for actions"},
		{"a condition that is not a bool", order("  action: {http: {url: 'http://card/'}}\n  when: 'payload.n > 0 ? 1 : 2'" + noUndo), at + "when", "true or false"},
		{"a condition about itself", order("  action: {http: {url: 'http://card/'}}\n  when: 'has(steps.charge)'" + noUndo), at + "when", "depends_on"},
		{"a condition about a secret", order("  action: {http: {url: 'http://card/'}}\n  when: '${secrets.K}'" + noUndo), at + "when", "header or in the body"},
		{"a condition of YAML", order("  action: {http: {url: 'http://card/'}}\n  when: true" + noUndo), at + "when", "string"},
		{"a pivot with a condition", order("  action: {http: {url: 'http://card/'}}\n  pivot: true\n  when: 'true'" + noUndo), at + "when", "pivot"},
		{"a schema that is none", order("  action: {http: {url: 'http://card/'}}\n  output_schema: {type: 7}" + noUndo), at + "output_schema", "not a valid JSON Schema"},
		{"a schema of elsewhere", order("  action: {http: {url: 'http://card/'}}\n  output_schema: {$ref: 'http://h/x'}" + noUndo), at + "output_schema", "another document"},
		{"a schema of a job", order("  job: j\n  output_schema: {}" + noUndo), at + "output_schema", "not allowed for a job"},
		{"a schema of payloads", strings.Replace(acting(`{url: 'http://a/'}`), "name: order", "name: order\npayload_schema: {type: 7}", 1), "/payload_schema", "not a valid JSON Schema"},
		{"in a compensation", order("  action: {http: {url: 'http://card/'}}\n  compensation: {http: {url: 'http://a/${output.}'}}"), at + "compensation/http/url", "is not an expression"},
		{"in arguments", order("  job: j\n  args: {a: '${nope.x}'}" + noUndo), at + "args/a", "no variable"},
		{"another language", strings.Replace(acting(`{url: 'http://a/'}`), "name: order", "name: order\nexpressions: js", 1), "/expressions", `"cel"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := workflow.ParseYAML([]byte(tt.def), workflow.Limits{})
			var f *fault.Error
			if !errors.As(err, &f) || d != nil {
				t.Fatalf("%v, want a mistake", err)
			}
			for _, field := range f.Fields {
				if field.Pointer == tt.pointer && strings.Contains(field.Message, tt.want) {
					return
				}
			}
			t.Errorf("%v\nwant %s at %s", f.Fields, tt.want, tt.pointer)
		})
	}
}

// Only a definition with expressions is marked as having them. Definitions stored earlier, and
// those that need none, are interpreted as before.
func TestTheMarkOfExpressions(t *testing.T) {
	const plain = `{"name":"w","steps":[{"name":"a","action":{"http":{"url":"http://x/1","headers":{"X":"%s"}}},"compensation":"none"}],"output":%s}`
	for _, tt := range []struct {
		header, output string
		marked         bool
	}{
		{"x", `{"a":"${payload.x}","b":"${steps.a}","c":"a ${b}","d":"$${x}"}`, false},
		{"x", `{"a":"${payload.first name}"}`, false},
		{"x", `{"a":"${payload.n > 0}"}`, true},
		{"x", `{"a":"${payload.list[0]}"}`, true},
		{"${payload.x}", `{}`, true},
		{"$${payload.x}", `{}`, true},
	} {
		d, err := workflow.ParseJSON(fmt.Appendf(nil, plain, tt.header, tt.output), workflow.Limits{})
		if err != nil || (d.Expressions != "") != tt.marked || (d.Plan != nil) != tt.marked {
			t.Errorf("%s %s: %v, want marked %v", tt.header, tt.output, err, tt.marked)
			continue
		}
		stored, err := json.Marshal(d)
		if err != nil || strings.Contains(string(stored), "expressions") != tt.marked {
			t.Error(string(stored), err)
		}
		again, err := workflow.ParseJSON(stored, workflow.Limits{})
		if err != nil || string(again.Hash()) != string(d.Hash()) {
			t.Errorf("%s is not the same when it is registered again: %v", stored, err)
		}
		var read workflow.Definition
		if err := json.Unmarshal(stored, &read); err != nil || (read.Plan != nil) != tt.marked {
			t.Error(err, read.Plan)
		}
	}
}

// In definitions stored before expressions were introduced, `${` in a URL or a header is plain
// text.
func TestAStoredDefinitionWithoutTheMarkHasNoExpressions(t *testing.T) {
	var d workflow.Definition
	stored := `{"name":"w","steps":[{"name":"a","action":{"http":{"method":"POST","url":"http://x/${payload.x}",
		"headers":{"X":"${payload.x}"}}},"compensation":"none"}],"output":{"a":"${payload.n > 0}"}}`
	if err := json.Unmarshal([]byte(stored), &d); err != nil {
		t.Fatal(err)
	}
	if d.Computed(0, false) {
		t.Error("it has expressions")
	}
	if got, missing := d.Result(json.RawMessage(`{"n":1}`), nil); string(got) != `{"a":null}` || len(missing) != 1 {
		t.Error(string(got), missing)
	}
}

func TestPayloadsHaveToFitTheirSchema(t *testing.T) {
	d, err := workflow.ParseYAML([]byte("payload_schema: {type: object, required: [sku], properties: {n: {type: integer}}}"+
		order("  action: {http: {url: 'http://card/'}}"+noUndo)), workflow.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ payload, pointer string }{
		{`{"sku":"a","n":1}`, ""}, {`{"n":1}`, "/payload"}, {`{"sku":"a","n":1.5}`, "/payload/n"}, {`null`, "/payload"},
	} {
		wrong := d.Unfit("/payload", json.RawMessage(tt.payload))
		if (wrong != nil) != (tt.pointer != "") || wrong != nil && wrong[0].Pointer != tt.pointer {
			t.Errorf("%s: %v, want %s", tt.payload, wrong, tt.pointer)
		}
	}
	if d.Expressions != "" {
		t.Error("a schema is not an expression")
	}
}
