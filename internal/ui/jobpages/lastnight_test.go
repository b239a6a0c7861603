package jobpages_test

import (
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
	"github.com/skald-saga/skald/internal/ui/web"
)

// TestTheWorkOfASkippedRunIsDone checks that a skipped run and the run that caused this link to
// each other, and that a rerun does the work of the skipped slot once the blocking run is over.
func TestTheWorkOfASkippedRunIsDone(t *testing.T) {
	s := uitest.Start(t)
	call := func(want int, method, path string, body any) map[string]any {
		t.Helper()
		status, doc := s.Call(t, method, path, body)
		if status != want {
			t.Fatalf("%s %s: %d %v", method, path, status, doc)
		}
		return doc
	}
	slot := time.Now().UTC().Truncate(24 * time.Hour).Add(-22 * time.Hour)
	call(201, "POST", "/job-definitions", map[string]any{
		"name": "settlement", "type": "time", "command_name": "settle", "queue": "night", "concurrency_policy": "forbid",
		"schedule": map[string]any{"type": "daily_at", "value": "02:00"},
	})
	held := call(201, "POST", "/job-definitions/settlement/runs",
		map[string]any{"scheduled_for": slot.AddDate(0, 0, -1), "reason": "the first"})["id"].(string)
	if got, _ := claims(t, s, worker(t, s, "night")); got != held {
		t.Fatalf("claimed %s, want %s", got, held)
	}
	call(202, "POST", "/job-definitions/settlement/backfills", map[string]any{
		"from": slot, "to": slot.Add(time.Minute), "overlap": "forbid", "reason": "test",
	})
	var skipped string
	patience.Until(t, "the run of the slot is skipped", func() bool {
		_, doc := s.Call(t, "GET", "/job-runs?definition=settlement&state=SKIPPED", nil)
		runs, _ := doc["job_runs"].([]any)
		if len(runs) == 1 {
			skipped = runs[0].(map[string]any)["id"].(string)
		}
		return skipped != ""
	})
	const first = `class="button first"`
	page := reads(t, s, "/ui/runs/"+held, `href="/ui/runs/`+skipped+`">1 run was skipped</a> because of this one`,
		"It has been running since", "while another run holds it, this one is skipped", "the first")
	if strings.Contains(page, first) {
		t.Errorf("an action on a run that works stands out\n%s", page)
	}
	at := slot.Format("2006-01-02 15:04:05")
	reads(t, s, "/ui/jobs/settlement", "scheduled for "+slot.AddDate(0, 0, -1).Format("2006-01-02 15:04:05")+" UTC, was",
		`href="/ui/runs/`+skipped+`">`+at+"</a>", "/ui/runs?definition=settlement",
		`href="/ui/runs/`+skipped+`/actions/rerun"`)
	reads(t, s, "/ui/runs/"+skipped, ", because ", "was still running.", first)

	rerun := "/ui/runs/" + skipped + "/actions/rerun"
	ways := []string{
		"Another run blocks this one", `href="/ui/runs/` + held, "has been running for", "Cancel that run",
		"both runs are then active at the same time",
	}
	page = reads(t, s, rerun, append(ways, "same due time as in this run: "+at+" UTC")...)
	if strings.Contains(page, `role="alert"`) {
		t.Errorf("a form that was not sent has a problem\n%s", page)
	}
	reads(t, s, "/ui/jobs/settlement/actions/run", ways...)
	if page := preview(t, s, rerun, "overlap", "true", "reason", "x"); strings.Contains(page, ways[0]) ||
		!strings.Contains(page, "A new run is created") ||
		!strings.Contains(page, `It runs at the same time as <a href="/ui/runs/`+held+`">`) {
		t.Errorf("a run that starts beside another has it in its way\n%s", page)
	}
	form := uitest.Form(page)
	form.Set("reason", "last night's")
	form.Set("do", "act")
	if status, page, _ := s.Post(t, rerun, form); status != 409 || !strings.Contains(page, ways[0]) ||
		!strings.Contains(page, `role="alert"`) {
		t.Errorf("a run with another one in its way: %d\n%s", status, page)
	}
	call(200, "POST", "/job-runs/"+held+"/cancel", map[string]any{"force": true, "reason": "lost"})
	again := posts(t, s, rerun, "reason", "for last night")
	is := call(200, "GET", "/job-runs/"+strings.TrimPrefix(again, "/ui/runs/"), nil)
	if is["scheduled_for"] != slot.Format(time.RFC3339) {
		t.Errorf("the rerun is for %v, want %s", is["scheduled_for"], slot)
	}
	reads(t, s, again, "rerun of", `href="/ui/runs/`+skipped, "for last night", at+" UTC")
	if page := reads(t, s, "/ui/runs/"+skipped, "It was rerun", `href="`+again); strings.Contains(page, first) {
		t.Errorf("a run that was run again is still to be run again\n%s", page)
	}
	reads(t, s, rerun, "It has already been rerun by run "+web.Short(is["id"])+", which is pending.")
}
