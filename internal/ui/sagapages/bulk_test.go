package sagapages_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestManySagasAreActedOnFromTheirList goes from the filters of the list through the dry run to the progress.
func TestManySagasAreActedOnFromTheirList(t *testing.T) {
	s := uitest.Start(t)
	status, doc := s.Call(t, "POST", "/workflows", map[string]any{
		"name": "bulky",
		"retry": map[string]any{
			"initial_interval_ms": 600_000, "max_interval_ms": 600_000, "max_attempts": 3,
		},
		"steps": []any{map[string]any{"name": "ping", "compensation": "none",
			"action": map[string]any{"http": map[string]any{"url": s.Participant + "/503/ping"}}}},
	})
	if status != 201 {
		t.Fatalf("workflow: %d %v", status, doc)
	}
	var ids []string
	for range 2 {
		_, doc := s.Call(t, "POST", "/sagas", map[string]any{"workflow_name": "bulky", "payload": map[string]any{}})
		ids = append(ids, doc["saga_id"].(string))
	}
	const form = "/ui/sagas/bulk/new?workflow_name=bulky&action=suspend"
	status, page := s.Get(t, form)
	if status != 200 || !strings.Contains(page, "It applies to <code>2</code> sagas") || !strings.Contains(page, ids[0]) {
		t.Fatalf("the form does not say what it would do: %d\n%s", status, page)
	}
	if !strings.Contains(page, "2 sagas change from not suspended to suspended.") {
		t.Errorf("the form does not say from what to what:\n%s", page)
	}
	if !strings.Contains(page, `name="filter.workflow_name" value="bulky"`) {
		t.Errorf("the form does not have the filter of the list:\n%s", page)
	}
	status, page, _ = s.Post(t, form, uitest.Form(page))
	if status != 400 {
		t.Errorf("without a reason: %d\n%s", status, page)
	}
	filled := uitest.Form(page)
	filled.Set("filter.workflow_name", "bulky")
	filled.Set("reason", hostile)
	status, page, to := s.Post(t, form, filled)
	if status != 303 || !strings.HasPrefix(to, "/ui/sagas/bulk/") {
		t.Fatalf("it is not started: %d %s\n%s", status, to, page)
	}
	patience.Until(t, "both sagas have accepted", func() bool {
		_, page = s.Get(t, to)
		return strings.Contains(page, "2 of 2 sagas have accepted")
	})
	if strings.Contains(page, hostile) || strings.Contains(page, " style=") ||
		!strings.Contains(page, "workflow_name: bulky") {
		t.Errorf("the page of a bulk operation:\n%s", page)
	}
	for _, said := range []string{"all requested", "accepted</span>", ">Accepted <"} {
		if !strings.Contains(page, said) {
			t.Errorf("a bulk operation that has ended does not say %q:\n%s", said, page)
		}
	}
	if strings.Contains(page, "</span> done") || strings.Contains(page, "</span> completed") {
		t.Errorf("a bulk operation that only asked says that something is done:\n%s", page)
	}
	if !strings.Contains(page, `<a href="?" aria-current="true">All <span class="quiet">2</span></a>`) ||
		!strings.Contains(page, `<a href="?outcome=SKIPPED">Skipped <span class="quiet">0</span></a>`) {
		t.Errorf("the tabs of a bulk operation:\n%s", page)
	}
	if _, doc := s.Call(t, "GET", "/sagas/"+ids[1], nil); doc["suspended_at"] == nil {
		t.Errorf("a saga of the filter is not suspended: %v", doc)
	}
	for _, path := range []string{to + "?outcome=SKIPPED", "/ui/sagas/errors", "/ui/sagas/errors?workflow_name=bulky"} {
		if status, page := s.Get(t, path); status != 200 || !strings.Contains(page, "</html>") {
			t.Errorf("%s: %d", path, status)
		}
	}

	// The operation on the selected sagas runs slowly; its rate is changed, and it is canceled.
	form2 := "/ui/sagas/bulk/new?" + url.Values{"ids": ids, "action": {"resume"}}.Encode()
	_, page = s.Get(t, form2)
	filled = uitest.Form(page)
	filled.Set("action", "resume")
	filled.Set("chosen", strings.Join(ids, "\r\n"))
	filled.Set("reason", "back")
	filled.Set("rate_per_second", "0.01")
	if status, page, to = s.Post(t, form2, filled); status != 303 {
		t.Fatalf("the selected ones: %d\n%s", status, page)
	}
	for _, action := range []string{"rate", "cancel"} {
		at := to + "/actions/" + action
		_, page = s.Get(t, at)
		if action == "cancel" && !strings.Contains(page, "The state changes from <code>running</code> to <code>canceled</code>.") {
			t.Errorf("the preview of cancel:\n%s", page)
		}
		filled = uitest.Form(page)
		filled.Set("reason", "too slow")
		if action == "rate" {
			filled.Set("rate_per_second", "0.02")
			filled.Set("do", "preview")
			const want = "Sagas per second changes from <code>0.01</code> to <code>0.02</code>."
			if _, page, _ := s.Post(t, at, filled); !strings.Contains(page, want) {
				t.Errorf("the preview of a rate:\n%s", page)
			}
			filled.Set("do", "act")
		}
		if status, page, back := s.Post(t, at, filled); status != 303 || back != to {
			t.Errorf("%s: %d %s\n%s", action, status, back, page)
		}
	}
	if _, page = s.Get(t, to); !strings.Contains(page, "canceled") || !strings.Contains(page, "0.02 a second") {
		t.Errorf("after it was canceled:\n%s", page)
	}
	if _, page := s.Get(t, "/ui/sagas/bulk/new"); strings.Contains(page, "REQ_SCHEMA") ||
		!strings.Contains(page, "Start") {
		t.Errorf("a form that nobody has filled in complains:\n%s", page)
	}
	for _, more := range []string{"archived=true", "a_filter_of_tomorrow=x"} {
		status, page := s.Get(t, "/ui/sagas/bulk/new?workflow_name=bulky&"+more)
		if name, _, _ := strings.Cut(more, "="); status != 400 || !strings.Contains(page, name) {
			t.Errorf("a list with %s would be widened without a word: %d", more, status)
		}
	}
	for _, path := range []string{"/ui/sagas/bulk/x", to + "/actions/nothing"} {
		if status, _ := s.Get(t, path); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
}
