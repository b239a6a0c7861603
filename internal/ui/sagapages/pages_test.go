package sagapages_test

import (
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

const hostile = `<script>alert(1)</script>`

// TestAFailedSagaIsRetriedFromItsPage walks from the list to the saga, through the form of an action, and back.
func TestAFailedSagaIsRetriedFromItsPage(t *testing.T) {
	s := uitest.Start(t, func(c *config.Config) {
		c.UI.Links = []string{"Jaeger=https://jaeger.test/{trace_id}", "Logs=https://logs.test/?q={correlation_id}"}
	})
	step := func(name, action, undo string) map[string]any {
		return map[string]any{
			"name": name, "action": map[string]any{"http": map[string]any{"url": s.Participant + action}},
			"compensation": map[string]any{"http": map[string]any{"url": s.Participant + undo}},
		}
	}
	status, doc := s.Call(t, "POST", "/workflows", map[string]any{
		"name": "order", "steps": []any{step("reserve", "/ok", "/503/undo"), step("charge", "/409/charge", "/ok")},
		"compensation_retry": map[string]any{"max_attempts": 1},
	})
	if status != 201 {
		t.Fatalf("workflow: %d %v", status, doc)
	}
	status, doc = s.Call(t, "POST", "/workflows", map[string]any{
		"name": "waits", "steps": []any{step("ping", "/503/ping", "/ok")}, "retry": map[string]any{
			"initial_interval_ms": 600_000, "max_interval_ms": 600_000, "max_attempts": 3,
		},
	})
	if status != 201 {
		t.Fatalf("workflow: %d %v", status, doc)
	}
	status, doc = s.Call(t, "POST", "/sagas", map[string]any{
		"workflow_name": "order", "business_key": hostile, "payload": map[string]any{"text": hostile},
		"correlation_id": "c&1",
	})
	if status != 201 {
		t.Fatalf("saga: %d %v", status, doc)
	}
	id := doc["saga_id"].(string)
	patience.Until(t, "the saga needs attention", func() bool {
		_, doc := s.Call(t, "GET", "/sagas/"+id, nil)
		return doc["needs_attention"] == true
	})
	for _, path := range []string{
		"/ui/", "/ui/sagas", "/ui/sagas?needs_attention=true", "/ui/sagas/" + id, "/ui/sagas/" + id + "?tab=attempts",
		"/ui/sagas/" + id + "?tab=events", "/ui/sagas/" + id + "?tab=related", "/ui/sagas/" + id + "?tab=preview",
		"/ui/sagas/" + id + "?step=charge&attempt=execute-1", "/ui/sagas/" + id + "?show=failed",
		"/ui/sagas/" + id + "?tab=data", "/ui/sagas/" + id + "?tab=json",
	} {
		status, page := s.Get(t, path)
		if status != 200 || !strings.Contains(page, "</html>") {
			t.Errorf("%s: %d\n%s", path, status, page)
		}
		if strings.Contains(page, hostile) || strings.Contains(page, " style=") {
			t.Errorf("%s contains text of a client as markup, or an inline style", path)
		}
	}
	action := "/ui/sagas/" + id + "/actions/resume-compensation"
	status, page := s.Get(t, action)
	if status != 200 || !strings.Contains(page, "compensation of <code>reserve</code>") {
		t.Fatalf("the form does not say what it would do: %d\n%s", status, page)
	}
	form := uitest.Form(page)
	if status, page, _ = s.Post(t, action, form); status != 400 || !strings.Contains(page, "reason") {
		t.Errorf("without a reason: %d\n%s", status, page)
	}
	form.Set("reason", "stock is back")
	status, page, to := s.Post(t, action, form)
	if status != 303 || !strings.HasPrefix(to, "/ui/sagas/"+id) {
		t.Fatalf("the action: %d %s\n%s", status, to, page)
	}
	if status, page = s.Get(t, to); status != 200 || !strings.Contains(page, "Accepted: resume compensation.") {
		t.Errorf("the page does not say that the action was accepted: %d\n%s", status, page)
	}
	notes(t, s, id)
	lists(t, s, id)
	if status, page = s.Get(t, "/ui/sagas?no_such_filter=1"); status != 400 || !strings.Contains(page, "no_such_filter") {
		t.Errorf("an unknown filter: %d\n%s", status, page)
	}
}

// notes sets an assignee and a note, and checks the links to other tools.
func notes(t *testing.T, s *uitest.Server, id string) {
	t.Helper()
	saga := "/ui/sagas/" + id
	form := saga + "/actions/note"
	_, page := s.Get(t, saga)
	for _, want := range []string{
		form + "?assign=me", `href="https://logs.test/?q=c%261"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the saga has no %s:\n%s", want, page)
		}
	}
	_, page = s.Get(t, "/ui/timeline?correlation_id=c%261")
	if !strings.Contains(page, `href="https://logs.test/?q=c%261"`) || strings.Contains(page, "jaeger.test") {
		t.Errorf("links of a timeline:\n%s", page)
	}
	_, page = s.Get(t, form+"?assign=me")
	fields := uitest.Form(page)
	_, me, _ := strings.Cut(page, `name="assignee" value="`)
	me, _, _ = strings.Cut(me, `"`)
	fields.Set("assignee", me)
	if me == "" || !strings.Contains(page, "curl -X PATCH") {
		t.Errorf("the form does not name who asks:\n%s", page)
	}
	fields.Set("note", hostile)
	if status, page, to := s.Post(t, form, fields); status != 303 || to != saga {
		t.Fatalf("the note: %d %s\n%s", status, to, page)
	}
	if status, page, _ := s.Post(t, form, fields); status != 412 || !strings.Contains(page, "has changed") {
		t.Errorf("once more, on what was there before: %d\n%s", status, page)
	}
	for _, path := range []string{saga, "/ui/sagas?assignee=" + url.QueryEscape(fields.Get("assignee")), form} {
		_, page = s.Get(t, path)
		if !strings.Contains(page, fields.Get("assignee")) || !strings.Contains(page, "&lt;script&gt;alert(1)") ||
			strings.Contains(page, hostile) {
			t.Errorf("%s does not show the note:\n%s", path, page)
		}
	}
	fields = uitest.Form(page)
	fields.Set("assignee", me)
	fields.Set("note", "")
	if status, page, _ := s.Post(t, form, fields); status != 303 {
		t.Fatalf("an empty note: %d\n%s", status, page)
	}
	if _, doc := s.Call(t, "GET", "/sagas/"+id, nil); doc["note"] != nil || doc["assignee"] == nil {
		t.Errorf("note %v, assignee %v", doc["note"], doc["assignee"])
	}
}

// lists checks the list of sagas, which contains one saga.
func lists(t *testing.T, s *uitest.Server, id string) {
	t.Helper()
	for path, want := range map[string]string{
		"/ui/sagas?peek=" + id:                         "compensation",
		"/ui/sagas?workflow_name=order":                "?peek=" + id + "&amp;workflow_name=order",
		"/ui/sagas?workflow_name=none":                 "Clear filters",
		"/ui/sagas?active=true&workflow_name=order":    `<input type="hidden" name="active" value="true">`,
		"/ui/sagas/export.csv":                         id + ",",
		"/ui/sagas/export.ndjson?workflow_name=order":  `"saga_id":"` + id,
		"/ui/sagas/new":                                `<option value="order"`,
		"/ui/sagas/" + id + "/actions/extend-deadline": "15 minutes",
		"/ui/sagas/" + id + "?tab=events":              " data-fixed>&#43;",
		"/ui/sagas/" + id + "?tab=attempts":            " data-fixed>&#43;",
	} {
		status, page := s.Get(t, path)
		asMarkup := strings.Contains(page, hostile) && !strings.Contains(path, "export")
		if status != 200 || !strings.Contains(page, want) || asMarkup {
			t.Errorf("%s has no %s: %d\n%s", path, want, status, page)
		}
	}
	start := "/ui/sagas/new"
	_, page := s.Get(t, start)
	form := uitest.Form(page)
	form.Set("workflow_name", "waits")
	form.Set("payload", `{"id": 9007199254740993`)
	if status, page, _ := s.Post(t, start, form); status != 400 || !strings.Contains(page, "This is not JSON") {
		t.Errorf("a payload that is no JSON: %d\n%s", status, page)
	}
	form.Set("payload", `{"id": 9007199254740993, "text": "old"}`)
	status, page, to := s.Post(t, start, form)
	if status != 303 {
		t.Fatalf("the start: %d\n%s", status, page)
	}
	retryWithAnotherInput(t, s, to)
}

// retryWithAnotherInput edits the input of a step that is waiting for its next attempt.
func retryWithAnotherInput(t *testing.T, s *uitest.Server, saga string) {
	t.Helper()
	id := strings.TrimPrefix(saga, "/ui/sagas/")
	patience.Until(t, "the saga waits for its retry", func() bool {
		_, doc := s.Call(t, "GET", "/sagas/"+id, nil)
		return doc["state"] == "running" && doc["next_run_at"] != nil
	})
	if _, page := s.Get(t, saga); !strings.Contains(page, "waits to retry") {
		t.Errorf("the rail does not say what the step waits for:\n%s", page)
	}
	action := saga + "/actions/retry"
	_, page := s.Get(t, action)
	if !strings.Contains(page, "&#34;id&#34;: 9007199254740993") {
		t.Fatalf("the form does not have the input:\n%s", page)
	}
	form := uitest.Form(page)
	form.Set("reason", "the text was wrong")
	form.Set("not_applied", "true")
	form.Set("input", `{"id": 9007199254740993, "text": "new", "more": 9007199254740995}`)
	form.Set("do", "preview")
	_, page, _ = s.Post(t, action, form)
	if !strings.Contains(page, "{&#34;more&#34;:9007199254740995,&#34;text&#34;:&#34;new&#34;}") {
		t.Errorf("the form does not show the merge patch:\n%s", page)
	}
	form.Set("do", "act")
	if status, page, to := s.Post(t, action, form); status != 303 || to != saga+"?accepted=retry" {
		t.Fatalf("the retry: %d %s\n%s", status, to, page)
	}
	patience.Until(t, "the step has the new output", func() bool {
		_, doc := s.Call(t, "GET", "/sagas/"+id+"/steps", nil)
		text, err := json.Marshal(doc["steps"])
		return err == nil && strings.Contains(string(text), `{"id":9007199254740993,"more":9007199254740995,"text":"new"}`)
	})
}

// TestTheListSaysWhatInlineStepsAreCalled checks the list for a saga whose workflow is a hash. The
// list also shows the name given by its client, and can be filtered by the hash.
func TestTheListSaysWhatInlineStepsAreCalled(t *testing.T) {
	s := uitest.Start(t)
	steps := []any{map[string]any{"name": "ping", "compensation": "none",
		"action": map[string]any{"http": map[string]any{"url": s.Participant + "/ok"}}}}
	s.Must(t, "POST", "/workflows", map[string]any{"name": "order", "steps": steps})
	s.Must(t, "POST", "/sagas", map[string]any{"workflow_name": "order", "business_key": "registered"})
	s.Must(t, "POST", "/sagas", map[string]any{"workflow_name": "refund", "business_key": "sent", "steps": steps})
	_, page := s.Get(t, "/ui/sagas")
	link := regexp.MustCompile(`href="([^"]*workflow_name=inline[^"]*)">`).FindStringSubmatch(page)
	if len(link) == 0 || strings.Count(page, `<span class="call">refund</span>`) != 1 ||
		strings.Contains(page, `<span class="call">order</span>`) {
		t.Fatalf("the list does not say what its workflows are called:\n%s", page)
	}
	_, page = s.Get(t, "/ui/sagas"+strings.TrimPrefix(html.UnescapeString(link[1]), "/ui/sagas"))
	if !strings.Contains(page, ">sent<") || strings.Contains(page, ">registered<") {
		t.Errorf("%s does not list exactly the saga with these steps:\n%s", link[1], page)
	}
}
