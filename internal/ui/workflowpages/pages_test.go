package workflowpages_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/uitest"
)

const hostile = `<script>alert(1)</script>`

// has checks that a page contains all of these texts, and no text from a client as markup.
func has(t *testing.T, status int, page string, want int, texts ...string) {
	t.Helper()
	if status != want || !strings.Contains(page, "</html>") {
		t.Errorf("answered %d, want %d", status, want)
	}
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not say %q:\n%s", text, page)
		}
	}
	for _, never := range []string{hostile, " style=", "<script>", "onclick"} {
		if strings.Contains(page, never) {
			t.Errorf("the page contains %q", never)
		}
	}
}

// TestWorkflowsFromRegistrationToTheirVersions registers versions through the form, views them, and
// disables the workflow.
func TestWorkflowsFromRegistrationToTheirVersions(t *testing.T) {
	s := uitest.Start(t)
	get := func(path string, want int, texts ...string) string {
		t.Helper()
		status, page := s.Get(t, path)
		has(t, status, page, want, texts...)
		return page
	}
	get("/ui/workflows", 200, "There are no workflows yet", "curl -X POST")
	definition := func(retry string) string {
		return "name: order\ndescription: '" + hostile + "'\nsteps:\n  - name: reserve\n    action:\n      http: {url: " +
			s.Participant + "/ok/a}\n    compensation:\n      http: {url: " + s.Participant + "/ok/b}\n" + retry +
			"  - name: charge\n    action:\n      http: {url: " + s.Participant + "/ok/c}\n    compensation: none\n" +
			"  - name: mail\n    depends_on: [reserve]\n    action:\n      http: {url: " + s.Participant +
			"/ok/d}\n    compensation: none\n"
	}
	const form = "/ui/register-workflow"
	fill := func(page, text, do string) url.Values {
		f := uitest.Form(page)
		f.Set("definition", text)
		f.Set("do", do)
		return f
	}
	post := func(f url.Values, want int, texts ...string) (page, to string) {
		t.Helper()
		status, page, to := s.Post(t, form, f)
		if want != 303 {
			has(t, status, page, want, texts...)
		} else if status != 303 {
			t.Fatalf("answered %d:\n%s", status, page)
		}
		return page, to
	}
	page := get(form, 200, "Valid: <strong>my-workflow</strong>")
	wrong := strings.Replace(definition(""), "    compensation: none\n", "    compensation: nobody\r\n", 1)
	post(fill(page, wrong, "preview"), 200, `href="#line-12"`, "/steps/1/compensation", "▲")
	post(fill(page, "name: [\n", "preview"), 200, "WORKFLOW_SYNTAX")
	post(fill(page, `{"name": "`+hostile+`", "steps": []}`, "act"), 422, "/name")
	page, _ = post(fill(page, definition(""), "preview"), 200, "The name is new", "Its effects remain")
	if _, to := post(fill(page, definition(""), "act"), 303); to != "/ui/workflows/order?v=1" {
		t.Errorf("leads to %s", to)
	}
	for range 2 {
		if status, doc := s.Call(t, "POST", "/sagas", map[string]any{"workflow_name": "order"}); status != 201 {
			t.Fatalf("%d %v", status, doc)
		}
	}

	second := definition("    retry: {max_attempts: 7}\n")
	blind := fill(get(form, 200), second, "act") // compared with another name
	post(blind, 409, "Nothing was registered", "retry.max_attempts")
	page = get(form+"?name=order", 200, "The definitions are equivalent", "New version of order")
	page, _ = post(fill(page, second, "preview"), 200, "It becomes version 2", "retry.max_attempts", "absent")
	s.Call(t, "POST", "/workflows/order/disable", nil) // another person, in the meantime
	page, _ = post(fill(page, second, "act"), 412, "has changed since you looked")
	post(fill(page, second, "act"), 303)
	get(form+"?name=nobody", 404)

	get("/ui/workflows", 200, ">order</a>", "disabled")
	get("/ui/workflows?enabled=true", 200, "No workflow is enabled")
	get("/ui/workflows?enabled=maybe", 400)
	get("/ui/workflows?created_from=-24h", 200, ">order</a>")
	get("/ui/workflows/order", 200, "2 of 2", "<svg", "depends on reserve", "7 attempts", "disabled")
	get("/ui/workflows/order?v=1&tab=definition", 200, "name: order", "not the latest")
	get("/ui/workflows/order?tab=definition&as=json", 200, "order")
	get("/ui/workflows/order?tab=versions", 200, "changes since 1")
	get("/ui/workflows/order?diff=1", 200, "retry.max_attempts", "absent", `class="new"`, "max_attempts: 7")
	get("/ui/workflows/order?v=1&diff=2", 200, "retry.max_attempts")
	get("/ui/workflows/order?v=1&tab=changes", 200, "first version")
	for path, want := range map[string]int{
		"/ui/workflows/nobody": 404, "/ui/workflows/order?v=9": 404, "/ui/workflows/order?v=x": 400,
		"/ui/workflows/order?v=99999999999": 400, "/ui/workflows/order?diff=0": 400, "/ui/workflows/a%2F..": 404,
		"/ui/workflows/%3Cscript%3Ealert(1)%3C%2Fscript%3E": 404, "/ui/workflows/order?cursor=x": 400,
	} {
		get(path, want)
	}

	const play = "/ui/simulate-workflow?name=order&v=2"
	f := uitest.Form(get(play, 200, `name="answer.reserve/compensate"`, "undo of reserve: POST ", `aria-current="true">Simulate`))
	for _, tt := range []struct {
		field, value string
		want         int
		texts        []string
	}{
		{"payload", `{"n":1}`, 200, []string{"ends as <strong>completed</strong>", "after 3 calls", "POST " + s.Participant + "/ok/a"}},
		{"answer.charge", `timeout then 409 {"error":"a then b"}`, 200, []string{"compensated", "waits ", "409", "compensation begins",
			"?</span> unknown", "✕</span> refused", "✓</span> done", "undo of</span> reserve"}},
		{"answer.reserve/compensate", "404", 200, []string{"effects remain", "It needs attention"}},
		{"answer.mail", "200", 200, []string{"Some answers were not used: <code>mail</code>"}},
		{"cancel_at", "reserve", 200, []string{"a cancellation is requested"}},
		{"answer.mail", "nothing", 422, []string{"is not a status"}},
		{"answer.mail", "SUCCEEDED", 422, []string{"/answers/mail/0", "run_state is not allowed"}},
		{"answer.mail", "99", 422, []string{"/answers/mail/0/status"}},
		{"answer.mail", "", 200, nil},
		{"payload", "{", 422, []string{"The payload is not JSON"}},
	} {
		f.Set(tt.field, tt.value)
		status, page, _ := s.Post(t, "/ui/simulate-workflow", f)
		has(t, status, page, tt.want, tt.texts...)
	}
	if text := get(play, 200); strings.Contains(text, "then report") {
		t.Error("the form of a workflow without later answers explains reports")
	}
	for path, want := range map[string]int{"?name=order": 400, "?name=nobody&v=1": 404, "?name=order&v=9": 404} {
		get("/ui/simulate-workflow"+path, want)
	}

	const enable = "/ui/workflows/order/enable"
	f = uitest.Form(get(enable, 200, "accepted again"))
	f.Set("reason", hostile)
	if status, page, to := s.Post(t, enable, f); status != 303 || to != "/ui/workflows/order" {
		t.Errorf("%d %s\n%s", status, to, page)
	}
	if _, doc := s.Call(t, "GET", "/workflows/order", nil); doc["enabled"] != true {
		t.Errorf("%v", doc)
	}
	get("/ui/workflows/order/disable", 200, "Sagas that have started continue", "/api/v1/workflows/order/disable")
	get("/ui/workflows/nobody/disable", 404)
}

// TestTheSimulationOfAWorkflowThatAnswersLater checks that the form accepts reports and that the
// page shows them.
func TestTheSimulationOfAWorkflowThatAnswersLater(t *testing.T) {
	s := uitest.Start(t)
	later := map[string]any{"later": "status == 202", "later_ms": 60_000, "output": "${body.id}"}
	to := map[string]any{"http": map[string]any{"url": s.Participant + "/ok/a"}}
	status, doc := s.Call(t, "POST", "/workflows", map[string]any{"name": "slow", "steps": []any{
		map[string]any{"name": "book", "action": to, "answer": later, "retry": map[string]any{"max_attempts": 1},
			"compensation": map[string]any{"http": to["http"], "answer": map[string]any{"later": "status == 202"}}},
	}})
	if status != 201 {
		t.Fatalf("%d %v", status, doc)
	}
	status, page := s.Get(t, "/ui/workflows/slow")
	has(t, status, page, 200, "may answer later: the report may take up to 1 min", "may answer later: the report may take up to 1 d",
		"report within 1 min, undo 1 d", ", whose report may take up to 1 min; the report of its undo may take up to 1 d")
	const play = "/ui/simulate-workflow"
	status, page = s.Get(t, play+"?name=slow&v=1")
	has(t, status, page, 200, `<code>202 then report done {"id": 7}</code>`, `list="later-answers"`)
	f := uitest.Form(page)
	for _, tt := range []struct {
		words string
		want  int
		texts []string
	}{
		{`202 {"a": "b then report done"} then report heartbeat after 50s then report done after 50s {"id": "c then 200 d"}`, 200,
			[]string{"○</span> later", "waits 50 s for the report", "reports heartbeat",
				"<code>&#34;c then 200 d&#34;</code>", "✓</span> done", "ends as <strong>completed</strong>, after 1 call"}},
		{`202 then report refused {"message": "full"}`, 200, []string{"reports refused", "✕</span> refused", "full"}},
		{"202", 200, []string{"waits 1 min for the report", "no report", "no report or heartbeat arrived within"}},
		{`202 then report done after 61s {"id": 7}`, 200, []string{"too late"}},
		{"202 then report failed", 422, []string{"&#34;failed&#34; is not the result of a report, which must be one of done, refused,"}},
		{"202 then report done after soon", 422, []string{"&#34;soon&#34; is not a duration"}},
		{"202 then report done {", 422, []string{"the body after done is not JSON"}},
		{"report done", 422, []string{"a report must follow an answer"}},
		{"200 then report done", 422, []string{"/answers/book/0/reports", "this answer does not"}},
		{"202 then report heartbeat {}", 422, []string{"/answers/book/0/reports/0/output"}},
	} {
		f.Set("answer.book", tt.words)
		status, page, _ := s.Post(t, play, f)
		has(t, status, page, tt.want, tt.texts...)
	}
}
