package sagapages_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestSagasAreFoundByTheirError walks from the groups of errors to the sagas of one and to the form for all of them.
func TestSagasAreFoundByTheirError(t *testing.T) {
	s := uitest.Start(t)
	step := func(name, action, undo string) map[string]any {
		return map[string]any{
			"name": name, "action": map[string]any{"http": map[string]any{"url": s.Participant + action}},
			"compensation": map[string]any{"http": map[string]any{"url": s.Participant + undo}},
		}
	}
	if status, doc := s.Call(t, "POST", "/workflows", map[string]any{
		"name": "order", "steps": []any{step("reserve", "/ok", "/503/undo"), step("charge", "/409/charge", "/ok")},
		"compensation_retry": map[string]any{"max_attempts": 1},
	}); status != 201 {
		t.Fatalf("workflow: %d %v", status, doc)
	}
	status, doc := s.Call(t, "POST", "/sagas", map[string]any{"workflow_name": "order", "business_key": "order-4711"})
	if status != 201 {
		t.Fatalf("saga: %d %v", status, doc)
	}
	id := doc["saga_id"].(string)
	patience.Until(t, "the saga needs attention", func() bool {
		_, doc := s.Call(t, "GET", "/sagas/"+id, nil)
		return doc["needs_attention"] == true
	})

	status, page := s.Get(t, "/ui/sagas/errors")
	if status != 200 || !strings.Contains(page, `undo of</span> reserve`) || strings.Contains(page, hostile) {
		t.Errorf("the groups of errors: %d\n%s", status, page)
	}
	m := regexp.MustCompile(`href="(/ui/sagas\?[^"]*step=reserve[^"]*)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no group leads to its sagas:\n%s", page)
	}
	link := strings.ReplaceAll(m[1], "&amp;", "&")
	if status, page = s.Get(t, link); status != 200 || !strings.Contains(page, "order-4711") ||
		!strings.Contains(page, "Step (of the workflow): <strong>reserve") {
		t.Errorf("%s: %d\n%s", link, status, page)
	}
	query := link[strings.Index(link, "?"):]
	status, page = s.Get(t, "/ui/sagas/bulk/new"+query)
	if status != 200 || !strings.Contains(page, `name="filter.step" value="reserve"`) {
		t.Errorf("the form for all of them: %d\n%s", status, page)
	}
	status, page = s.Get(t, "/ui/sagas?order=asc&ended_from=-24h")
	if status != 200 || !strings.Contains(page, "oldest first") || !strings.Contains(page, `name="order" value="asc"`) {
		t.Errorf("oldest first: %d\n%s", status, page)
	}
	for path, want := range map[string]int{
		"/ui/sagas?" + url.Values{"step": {hostile}, "workflow_name": {"order"}, "error_code": {hostile}}.Encode(): 200,
		"/ui/sagas?step=reserve": 400, "/ui/sagas/errors?workflow_name=none": 200, "/ui/sagas/errors?status=LOST": 400,
	} {
		if status, page := s.Get(t, path); status != want || strings.Contains(page, hostile) {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}
