package jobpages_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/uitest"
)

const hostile = `<script>alert(1)</script>`

// reads requests pages and checks for each that it is complete and contains no text from a client
// as markup.
func reads(t *testing.T, s *uitest.Server, path string, says ...string) string {
	t.Helper()
	status, page := s.Get(t, path)
	if status != 200 || !strings.Contains(page, "</html>") {
		t.Fatalf("%s: %d\n%s", path, status, page)
	}
	if strings.Contains(page, hostile) || strings.Contains(page, " style=") || strings.Contains(page, " onclick=") {
		t.Errorf("%s contains text of a client as markup, or an inline style or script", path)
	}
	for _, text := range says {
		if !strings.Contains(page, text) {
			t.Errorf("%s does not say %q\n%s", path, text, page)
		}
	}
	return page
}

// posts sends the form for an action, including its hidden fields and others, and returns where it
// leads.
func posts(t *testing.T, s *uitest.Server, path string, fields ...string) string {
	t.Helper()
	form := uitest.Form(reads(t, s, path))
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	status, page, to := s.Post(t, path, form)
	if status != 303 {
		t.Fatalf("%s: %d\n%s", path, status, page)
	}
	return to
}

// preview sends a form without performing its action.
func preview(t *testing.T, s *uitest.Server, path string, fields ...string) string {
	t.Helper()
	form := url.Values{"do": {"preview"}}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	_, page, _ := s.Post(t, path, form)
	return page
}

// TestAJobIsDefinedAndOperatedFromItsPages walks from an empty list through the forms of a definition.
func TestAJobIsDefinedAndOperatedFromItsPages(t *testing.T) {
	s := uitest.Start(t)
	reads(t, s, "/ui/jobs?name=none", "No jobs match these filters")
	reads(t, s, "/ui/jobs/new", "only manually", "It has no schedule yet.")
	spring := []string{
		"name", "nightly-report", "description", hostile, "command_name", "report", "type", "time",
		"schedule.type", "daily_at", "schedule.value", "02:30", "schedule.timezone", "Europe/Berlin",
		"schedule.start_at", "2027-03-27T12:00:00Z", "default_args", `{"big": 9007199254740993}`, "queue", "reports",
	}
	if page := preview(t, s, "/ui/jobs/new", spring...); !strings.Contains(page, "a time skipped by the clock change") ||
		!strings.Contains(page, "Sun 2027-03-28 02:30:00") {
		t.Errorf("the preview does not show the change of the clock\n%s", page)
	}
	wrong := append(spring, "schedule.timezone", "Mars/Base")
	if page := preview(t, s, "/ui/jobs/new", wrong...); !strings.Contains(page, "is not a time zone") {
		t.Errorf("an unknown time zone: \n%s", page)
	}
	if to := posts(t, s, "/ui/jobs/new", spring...); to != "/ui/jobs/nightly-report" {
		t.Errorf("after creating: %s", to)
	}
	reads(t, s, "/ui/jobs", "nightly-report", "no active worker takes it", "each day at 02:30")
	every := append(spring, "name", "often", "schedule.type", "interval", "schedule.value", "90s", "schedule.timezone", "",
		"schedule.start_at", "")
	posts(t, s, "/ui/jobs/new", every...)
	reads(t, s, "/ui/jobs/often", "every 1 min 30 s")
	posts(t, s, "/ui/jobs/new", "name", "by-hand", "command_name", "report", "type", "manual")
	if page := reads(t, s, "/ui/jobs", "by-hand"); strings.Count(page, "/api/v1/job-definitions?") != 1 ||
		strings.Contains(page, "/next-runs") || strings.Contains(page, "/api/v1/job-runs?") {
		t.Errorf("the page asks for each job\n%s", page)
	}
	page := reads(t, s, "/ui/jobs/nightly-report", "No runs yet", "actions/pause", "A failed run is not retried")
	if strings.Contains(page, "actions/resume") {
		t.Error("a job that is not paused can be resumed")
	}
	reads(t, s, "/ui/jobs/nightly-report?tab=next", "a time skipped by the clock change")
	reads(t, s, "/ui/jobs/nightly-report?tab=definition", "9007199254740993")
	if status, _ := s.Get(t, "/ui/jobs/nightly-report?tab=none"); status != 404 {
		t.Errorf("an unknown tab: %d", status)
	}

	edit := "/ui/jobs/nightly-report/actions/edit"
	reads(t, s, edit, "9007199254740993", "2027-03-27T12:00:00Z")
	changed := preview(t, s, edit, append(spring, "queue", "gpu", "reason", "r")...)
	for _, said := range []string{"Queue changes from <code>reports</code> to <code>gpu</code>.", "The state"} {
		if strings.Contains(changed, said) != (said != "The state") {
			t.Errorf("the preview of an edit, %q:\n%s", said, changed)
		}
	}
	posts(t, s, edit, append(spring, "schedule.start_at", "",
		"concurrency_policy", "forbid", "retry.max_attempts", "3", "reason", "more runs")...)
	reads(t, s, "/ui/jobs/nightly-report", "is skipped", "up to 3 runs in total")
	reads(t, s, "/ui/jobs/nightly-report?tab=versions", "9007199254740993")

	reads(t, s, "/ui/jobs/nightly-report/actions/pause", "skipped",
		"The state changes from <code>active</code> to <code>paused</code>.")
	posts(t, s, "/ui/jobs/nightly-report/actions/pause", "reason", hostile)
	reads(t, s, "/ui/jobs/nightly-report", "paused", "actions/resume")
	reads(t, s, "/ui/jobs/nightly-report/actions/resume",
		"The state changes from <code>paused</code> to <code>active</code>.")
	posts(t, s, "/ui/jobs/nightly-report/actions/resume", "reason", "over")
	reads(t, s, "/ui/jobs/nightly-report/actions/run",
		"A new run is created and waits for a worker.")

	to := posts(t, s, "/ui/jobs/nightly-report/actions/run", "args", `{"a":1}`, "overlap", "true")
	if !strings.HasPrefix(to, "/ui/runs/") {
		t.Errorf("after running: %s", to)
	}
	reads(t, s, "/ui/jobs/nightly-report", "manual", "pending")
	cancel := reads(t, s, to+"/actions/cancel", `value="act">Cancel the run</button>`, "The state changes from")
	if strings.Contains(cancel, "<code>preview</code>") {
		t.Errorf("the reason of the dry run is shown\n%s", cancel)
	}

	fill := "/ui/jobs/nightly-report/actions/backfill"
	slots := []string{"from", "2026-11-01T12:00:00Z", "to", "2026-11-04T12:00:00Z", "reason", hostile}
	if page := preview(t, s, fill, slots...); !strings.Contains(page, "3 of 3 slots") ||
		!strings.Contains(page, "3 new runs are created and wait for workers.") {
		t.Errorf("the slots of a backfill are not shown\n%s", page)
	}
	to = posts(t, s, fill, slots...)
	reads(t, s, to, "Backfill of nightly-report", "One run at a time, with at most 5 unfinished runs")
	reads(t, s, "/ui/jobs/nightly-report?tab=backfills", strings.TrimPrefix(to, "/ui/backfills/"))
	posts(t, s, to+"/cancel", "reason", "enough")

	remove := "/ui/jobs/nightly-report/actions/delete"
	form := uitest.Form(reads(t, s, remove, "Unfinished runs", "has not ended"))
	if page := preview(t, s, remove, "force", "true", "reason", "gone"); !strings.Contains(page,
		"It changes from <code>live</code> to <code>deleted</code>.") {
		t.Errorf("the preview of a deletion:\n%s", page)
	}
	form.Set("reason", "gone")
	form.Set("confirm", "wrong!")
	if status, page, _ := s.Post(t, remove, form); status != 400 || !strings.Contains(page, "Not confirmed") {
		t.Errorf("a deletion that was not confirmed: %d\n%s", status, page)
	}
	_, doc := s.Call(t, "GET", "/job-definitions/nightly-report", nil)
	id := doc["id"].(string)
	posts(t, s, remove, "reason", "gone", "force", "true", "confirm", id[len(id)-6:])
	if status, page := s.Get(t, "/ui/jobs/nightly-report"); status != 404 {
		t.Errorf("a deleted definition: %d\n%s", status, page)
	}
}

// text of a number in a decoded answer.
func text(v any) string { return fmt.Sprint(v) }
