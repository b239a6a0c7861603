package sagapages_test

import (
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/uitest"
)

const hostile = `<script>alert(1)</script>`

// TestAFailedSagaIsRetriedFromItsPage walks from the list to the saga, through the form of an action, and back.
func TestAFailedSagaIsRetriedFromItsPage(t *testing.T) {
	s := uitest.Start(t)
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
	status, doc = s.Call(t, "POST", "/sagas", map[string]any{
		"workflow_name": "order", "business_key": hostile, "payload": map[string]any{"text": hostile},
	})
	if status != 201 {
		t.Fatalf("saga: %d %v", status, doc)
	}
	id := doc["saga_id"].(string)
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, doc = s.Call(t, "GET", "/sagas/"+id, nil); doc["needs_attention"] == true {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("the saga does not fail: %v", doc)
		}
	}
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
	if status, page = s.Get(t, "/ui/sagas?no_such_filter=1"); status != 400 || !strings.Contains(page, "no_such_filter") {
		t.Errorf("an unknown filter: %d\n%s", status, page)
	}
}
