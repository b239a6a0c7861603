package sagapages_test

import (
	"html"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestEveryDryRunSaysFromWhatToWhat checks that the preview of each action that a saga allows names
// what the action itself changes, and that no preview says that nothing changes.
func TestEveryDryRunSaysFromWhatToWhat(t *testing.T) {
	t.Parallel()
	s := uitest.Start(t)
	s.Must(t, "POST", "/workflows", map[string]any{"name": "slow", "steps": []map[string]any{{
		"name": "wait", "compensation": "none",
		"action": map[string]any{"http": map[string]any{"url": s.Participant + "/503/wait"}},
		"retry":  map[string]any{"max_attempts": 100, "initial_interval_ms": 600_000, "max_interval_ms": 600_000},
	}}})
	doc := s.Must(t, "POST", "/sagas", map[string]any{"workflow_name": "slow", "timeout_ms": 7_200_000})
	saga := doc["saga_id"].(string)
	waits := func(what string) {
		t.Helper()
		patience.Until(t, "it waits for "+what, func() bool {
			return s.Must(t, "GET", "/sagas/"+saga+"/explain", nil)["waits_for"] == what
		})
	}
	preview := func(want ...string) {
		t.Helper()
		status, page := s.Get(t, "/ui/sagas/"+saga+"?tab=preview")
		for _, code := range []string{"<code>", "</code>"} {
			page = strings.ReplaceAll(page, code, "")
		}
		page = html.UnescapeString(page)
		for _, w := range want {
			if status != 200 || !strings.Contains(page, w) {
				t.Errorf("%d, without %q", status, w)
			}
		}
		for _, a := range s.Must(t, "GET", "/sagas/"+saga+"/explain", nil)["actions"].([]any) {
			name := a.(map[string]any)["action"].(string)
			path := "/sagas/" + saga + "/" + name
			if verb, step := strings.CutSuffix(name, "-step"); step {
				path = "/sagas/" + saga + "/steps/wait/" + verb
			}
			body := map[string]any{"reason": "preview"}
			if name == "extend-deadline" {
				body["timeout_ms"] = 900_000
			}
			status, dry := s.Call(t, "POST", path+"?dry_run=true", body)
			changes, _ := dry["changes"].([]any)
			if status != 200 || len(changes) == 0 {
				t.Errorf("%s: %d, and changes nothing: %v", name, status, dry)
			}
			for _, c := range changes {
				if c := c.(map[string]any); c["from"] == c["to"] {
					t.Errorf("%s: %v changes to itself", name, c)
				}
			}
		}
	}
	waits("retry")
	preview("The deadline changes from 2", " UTC to 2", "It changes from not suspended to suspended.",
		"It is suspended: no calls are made until it is resumed.", "The next attempt changes from 2",
		"The state changes from running to ")
	s.Must(t, "POST", "/sagas/"+saga+"/suspend", map[string]any{"reason": "hold"})
	waits("resume")
	preview("The deadline changes from 2", "It changes from suspended (since 2",
		"It is suspended: no calls are made until it is resumed.")
}
