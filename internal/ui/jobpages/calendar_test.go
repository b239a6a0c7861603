package jobpages_test

import (
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestTheCalendarShowsWhatHappenedToSlotsAndWhatIsToCome covers slots that the scheduler has
// skipped, and clock changes.
func TestTheCalendarShowsWhatHappenedToSlotsAndWhatIsToCome(t *testing.T) {
	s := uitest.Start(t)
	define := func(name, kind, value, more string) {
		t.Helper()
		if status, doc := s.Call(t, "POST", "/job-definitions", map[string]any{
			"name": name, "type": "time", "command_name": "report", "concurrency_key": "ledger", "concurrency_policy": "queue",
			"schedule": map[string]any{"type": kind, "value": value, "timezone": "Europe/Berlin", "dst_gap": more},
		}); status != 201 {
			t.Fatalf("%d %v", status, doc)
		}
	}
	define("night", "daily_at", "02:30", "skip")
	define("ledger", "daily_at", "02:30", "")
	define("always", "interval", "1s", "")
	if status, doc := s.Call(t, "POST", "/job-definitions/always/pause", map[string]any{"reason": hostile}); status != 200 {
		t.Fatalf("%d %v", status, doc)
	}
	began := time.Now()
	range_ := "/job-calendar?from=" + began.Add(-time.Minute).UTC().Format(time.RFC3339) +
		"&to=" + began.Add(2*patience.Limit).UTC().Format(time.RFC3339)
	skipped := func() (found bool) {
		_, doc := s.Call(t, "GET", range_, nil)
		slots, _ := doc["slots"].([]any)
		for _, one := range slots {
			slot := one.(map[string]any)
			reason, _ := slot["reason"].(string)
			found = found || slot["state"] == "SKIPPED" && strings.Contains(reason, hostile) && slot["run_id"] != nil
		}
		return found
	}
	patience.Until(t, "a slot of a paused job is skipped", skipped)
	if _, doc := s.Call(t, "GET", range_, nil); !strings.Contains(text(doc["slots"]), "paused:true") {
		t.Errorf("slots to come of a paused job: %v", doc["slots"])
	}
	page := reads(t, s, "/ui/jobs/calendar?view=week&from=2027-03-22&zone=America/New_York",
		"Too frequent to list", "always", "a time skipped by the clock change; not due",
		"a time skipped by the clock change; due at the end of the gap", "shares the key ledger with ledger", "in Europe/Berlin",
		"Saturday 27 March 2027", "upcoming")
	if strings.Contains(page, "too many slots or jobs to show") {
		t.Error("a calendar of three jobs is cut")
	}
	reads(t, s, "/ui/jobs/calendar", "today")
	reads(t, s, "/ui/jobs/calendar?view=day&zone=Europe/Berlin&from=2027-03-28", "Sunday 28 March 2027")
	for _, wrong := range []string{"zone=Mars/Base", "from=tomorrow", "zone=Local"} {
		if status, _ := s.Get(t, "/ui/jobs/calendar?"+wrong); status != 400 {
			t.Errorf("%s: %d", wrong, status)
		}
	}
	for _, wrong := range []string{"from=2027-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "from=2027-01-01T00:00:00Z",
		"from=2027-01-01T00:00:00Z&to=2027-12-01T00:00:00Z"} {
		if status, doc := s.Call(t, "GET", "/job-calendar?"+wrong, nil); status != 400 {
			t.Errorf("%s: %d %v", wrong, status, doc)
		}
	}
}
