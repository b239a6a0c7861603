package systempages_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestATimelineShowsEverythingOfACorrelation starts two sagas with the same correlation ID, one of
// which is compensated.
func TestATimelineShowsEverythingOfACorrelation(t *testing.T) {
	s := webhooksTest{t, uitest.Start(t)}
	call := func(path string) map[string]any {
		return map[string]any{"http": map[string]any{"url": s.Participant + path}}
	}
	step := func(name, action string) map[string]any {
		return map[string]any{"name": name, "action": call(action), "compensation": call("/ok/undo")}
	}
	for name, last := range map[string]string{"good": "/ok", "refused": "/409"} {
		status, doc := s.Call(t, "POST", "/workflows", map[string]any{
			"name": name, "steps": []any{step("reserve", "/ok"), step("charge", last)},
		})
		if status != 201 {
			t.Fatalf("%d %v", status, doc)
		}
		status, doc = s.Call(t, "POST", "/sagas?wait=30s", map[string]any{"workflow_name": name, "correlation_id": hostile})
		if status >= 300 {
			t.Fatalf("%d %v", status, doc)
		}
	}
	of := "?" + url.Values{"correlation_id": {hostile}}.Encode()
	patience.Until(t, "both sagas end", func() bool {
		_, doc := s.Call(t, "GET", "/timeline"+of, nil)
		ends := 0
		for _, e := range doc["entries"].([]any) {
			if e.(map[string]any)["kind"] == "saga_end" {
				ends++
			}
		}
		return ends == 2
	})
	s.get("/ui/timeline", 200, "Enter the correlation ID")
	s.get("/ui/timeline?correlation_id=nobody", 200, "Nothing has the correlation ID")
	s.get("/ui/timeline?correlation_id="+strings.Repeat("x", 1000), 400)
	s.get("/ui/timeline"+of+"&cursor=x", 400)
	page := s.get("/ui/timeline"+of, 200, "compensated", "completed", "reserve compensate 1: success after", "saga end",
		`class="bar undo"`, `class="bar bad"`, "/ui/sagas/")
	if lanes := strings.Count(page, `<tr class="inner"`); lanes != 4 {
		t.Errorf("%d steps have a lane, want 4:\n%s", lanes, page)
	}
	s.get("/ui/timeline"+of+"&open=2026-11-23T12:00:00Z&open=x", 200, "Fold all waits")
}
