package participant

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

func answerOr(rules string) string {
	if strings.HasPrefix(rules, "{") {
		return "answer: " + rules
	}
	return rules
}

// The definition gives meaning to the answers of an API that was not written for Skald.
func TestRulesForAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, rules, status, body string
		want                      saga.Verdict
		output, message           string
	}{
		{"done by its status", `{done: 'status in [200, 201]'}`, "201 Created", `{"id":7.50}`, saga.Done, `{"id":7.50}`, ""},
		{"done although 409", `{done: 'status == 409 && body.code == "EXISTS"', output: '${body.id}'}`, "409 Conflict", `{"code":"EXISTS","id":7}`, saga.Done, `7`, ""},
		{"refused with 200", `{refused: 'body.state == "declined"'}`, "200 OK", `{"state":"declined","message":"no money"}`, saga.Refused, ``, "no money"},
		{"refused with 500", `{refused: 'status == 500'}`, "500 Oops", ``, saga.Refused, ``, "500"},
		{"not applied with 404", `{not_applied: 'status == 404'}`, "404 Not Found", ``, saga.NotApplied, ``, "404"},
		{"unknown with 200", `{unknown: 'body.state == "pending"'}`, "200 OK", `{"state":"pending"}`, saga.Unknown, ``, ""},
		{"the first rule decides", `{done: 'status == 200', refused: 'status == 200'}`, "200 OK", `{}`, saga.Done, `{}`, ""},
		{"no rule matches a 2xx", `{refused: 'status == 402'}`, "200 OK", `{"id":1}`, saga.Done, `{"id":1}`, ""},
		{"no rule matches a 4xx", `{done: 'status == 200'}`, "422 No", `{"error":"bad"}`, saga.Refused, ``, "bad"},
		{"no rule matches a 503", `{done: 'status == 200'}`, "503 No", ``, saga.Unknown, ``, "503"},
		{"only an output", `{output: {id: '${body.id}', at: '${headers.location}'}}`, "200 OK", `{"id":"x","rest":1}`, saga.Done, `{"at":"/things/7","id":"x"}`, ""},
		{"an output without a body", `{output: '${headers["location"]}'}`, "201 Created", `not JSON`, saga.Done, `"/things/7"`, ""},
		{"an output that is missing", `{output: '${body.id}'}`, "200 OK", `{}`, saga.Unknown, ``, "${body.id}"},
		{"a rule about a body that is missing", `{done: 'size(body.data) > 0'}`, "200 OK", ``, saga.Unknown, ``, "missing"},
		{"a rule about another type", `{done: 'body.n + 1 > 2'}`, "200 OK", `{"n":"x"}`, saga.Unknown, ``, "wrong type"},
		{"an output that fits", `output_schema: {required: [id]}`, "200 OK", `{"id":1}`, saga.Done, `{"id":1}`, ""},
		{"an output that does not fit", `output_schema: {properties: {id: {type: string}}}`, "200 OK", `{"id":12345}`, saga.Unknown, ``, "/id violates the schema's type"},
		{"no output where one is needed", `output_schema: {type: object}`, "204 No Content", ``, saga.Unknown, ``, "the whole output violates"},
		{"digits survive", `{output: '${body.n}'}`, "200 OK", `{"n":12345678901234567890.10}`, saga.Done, `12345678901234567890.10`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			def, err := workflow.ParseYAML(fmt.Appendf(nil,
				"name: w\nsteps:\n- name: s\n  action: {http: {url: 'http://h/'}}\n  %s\n  compensation: none\n",
				answerOr(tt.rules)), workflow.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			srv := serveRaw(t, func(e exchange) bool {
				e.say(fmt.Sprintf("HTTP/1.1 %s\r\nLocation: /things/7\r\nContent-Length: %d\r\n\r\n%s", tt.status, len(tt.body), tt.body))
				return true
			})
			call := callTo(srv.url())
			call.Rules = def.Rules(0, false)
			o := newClient(t, nil).Call(t.Context(), call)
			if o.Verdict != tt.want || string(o.Output) != tt.output || !strings.Contains(o.Message, tt.message) {
				t.Errorf("%+v", o)
			}
			word, _, _ := strings.Cut(strings.TrimPrefix(tt.rules, "{"), ":")
			if strings.HasSuffix(tt.name, "with 200") && o.Code != "answer_"+word ||
				strings.HasSuffix(tt.name, "with 404") && o.Code != "http_404" {
				t.Error(o.Code)
			}
			if strings.HasPrefix(tt.message, "$") && (o.Code != CodeInvalidResponse || o.Class != retry.BadResponse) {
				t.Errorf("%s %s", o.Code, o.Class)
			}
		})
	}
}

// A request with expressions is sent as they produce it.
func TestAFilledRequest(t *testing.T) {
	var head, body string
	srv := serveRaw(t, func(e exchange) bool {
		head, body = e.head, string(e.body)
		e.say("HTTP/1.1 204 No Content\r\n\r\n")
		return true
	})
	call := callTo(srv.url() + "/a%2Fb?x=%26")
	call.Filled, call.ContentType, call.Body = true, workflow.ContentForm, []byte("a=1")
	call.By.HTTP.Method = "DELETE"
	// The step log contains JSON, so a form is stored as a string.
	if o := newClient(t, nil).Call(t.Context(), call); o.Verdict != saga.Done || string(o.Request) != `"a=1"` {
		t.Fatal(o)
	}
	if !strings.HasPrefix(head, "DELETE /a%2Fb?x=%26 HTTP/1.1\r\n") || body != "a=1" ||
		!strings.Contains(head, "\r\nContent-Type: application/x-www-form-urlencoded\r\n") {
		t.Error(head, body)
	}
}
