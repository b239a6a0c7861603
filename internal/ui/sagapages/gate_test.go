package sagapages_test

import (
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestASagaAtAGateSaysSoEverywhere checks that the list, the box and the step of a saga whose
// participant is held name the participant, both during forward execution and during compensation.
func TestASagaAtAGateSaysSoEverywhere(t *testing.T) {
	t.Parallel()
	s := uitest.Start(t)
	s.Must(t, "PUT", "/participants/card", map[string]any{"base_url": s.Participant})
	s.Must(t, "POST", "/workflows", map[string]any{"name": "pay", "steps": []map[string]any{
		{"name": "charge", "action": map[string]any{"http": map[string]any{"participant": "card", "path": "/ok/charge"}},
			"compensation": map[string]any{"http": map[string]any{"participant": "card", "path": "/ok/refund"}}},
		{"name": "later", "compensation": "none", "action": map[string]any{"http": map[string]any{
			"url": s.Participant + "/503/later"}},
			"retry": map[string]any{"max_attempts": 100, "initial_interval_ms": 600_000, "max_interval_ms": 600_000}},
	}})
	hold := func(verb string) {
		s.Must(t, "POST", "/participants/card/"+verb, map[string]any{"reason": "maintenance"})
	}
	start := func() string {
		return s.Must(t, "POST", "/sagas", map[string]any{"workflow_name": "pay"})["saga_id"].(string)
	}
	until := func(saga, what string) {
		t.Helper()
		patience.Until(t, "it waits for "+what, func() bool {
			return s.Must(t, "GET", "/sagas/"+saga+"/explain", nil)["waits_for"] == what
		})
	}
	back := start()
	until(back, "retry")
	if _, list := s.Get(t, "/ui/sagas"); !strings.Contains(list, "its next call") {
		t.Error("the list does not say that one waits for its next call")
	}
	hold("hold")
	s.Must(t, "POST", "/sagas/"+back+"/compensate", map[string]any{"reason": "not wanted"})
	until(back, "participant")
	forward := start()
	until(forward, "participant")

	link := `<a href="/ui/participants/card">card</a>`
	_, list := s.Get(t, "/ui/sagas")
	if strings.Count(list, "participant "+link) != 2 || strings.Contains(list, "its next call") {
		t.Errorf("the list does not name the participant of both:\n%s", list)
	}
	for _, saga := range []string{back, forward} {
		_, page := s.Get(t, "/ui/sagas/"+saga)
		for _, want := range []string{"The participant: " + link, "waits for card"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: without %q", saga, want)
			}
		}
	}
}
