package uitest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestAHaltedOperationIsResumedOnItsPage: a person's operation has found more resources than
// expected. Its page says why it was halted and offers to resume it, the form explains what will
// happen, and the operation then completes.
func TestAHaltedOperationIsResumedOnItsPage(t *testing.T) {
	t.Parallel()
	s := uitest.Start(t)
	for _, journey := range []struct {
		operation, page, resume, why, means, ended string
	}{
		{"redrive-by-filter", "/ui/redrives/%s", "/actions/resume", "letters", "the redrive processes all", "completed"},
		{"bulk-of-sagas", "/ui/sagas/bulk/%s", "/actions/resume", "sagas, more than the maximum of", "all", "all requested"},
		{"bulk-of-runs", "/ui/run-bulks/%s", "/resume", "runs, more than the maximum of", "It continues with all", "all requested"},
		{"backfill", "/ui/backfills/%s", "/resume", "slots, more than the maximum of", "It continues with all", "all runs ended"},
	} {
		t.Run(journey.operation, func(t *testing.T) {
			all := operations()
			op := all[slices.IndexFunc(all, func(o operation) bool { return o.name == journey.operation })]
			w := &acting{s, t, op.name}
			op.add(w, 3)
			path, body := op.ask(w)
			body["expected"] = 2
			id := idOf(w.Must(t, "POST", path, body))
			w.awaitState(&op, id, "HALTED")
			at := fmt.Sprintf(journey.page, id)
			sees := func(path string, texts ...string) string {
				t.Helper()
				status, page := s.Get(t, path)
				for _, text := range texts {
					if status != http.StatusOK || !strings.Contains(page, text) {
						t.Fatalf("%s: %d, without %q:\n%s", path, status, text, page)
					}
				}
				return page
			}
			sees(at, "halted", journey.why, "If you resume", `href="`+at+journey.resume, "Resume")
			form := uitest.Form(sees(at+journey.resume, journey.means, `name="reason"`))
			form.Set("reason", "all three are meant")
			form.Set("do", "act")
			status, page, to := s.Post(t, at+journey.resume, form)
			if status != http.StatusSeeOther || !strings.HasPrefix(to, at) {
				t.Fatalf("resume: %d, to %q\n%s", status, to, page)
			}
			if op.kind == "job_backfill" { // it completes only when its runs have ended
				patience.Until(t, "its runs are there", func() bool { return fmt.Sprint(w.get(&op, id)["created"]) == "3" })
				for _, run := range w.ids("/job-runs?backfill_id="+id, "job_runs", "id") {
					w.Must(t, "POST", fmt.Sprint("/job-runs/", run, "/cancel"), object{"reason": "enough"})
				}
			}
			if ended := w.awaitState(&op, id, "COMPLETED"); fmt.Sprint(ended[op.done]) != "3" {
				t.Errorf("it ended as %v", ended)
			}
			page = sees(at, journey.ended)
			if strings.Contains(page, "If you resume") {
				t.Error("after its end its page offers to resume it")
			}
			// The operation has only requested the changes, which isn't success: the page may show
			// success only if the resources are known to have ended.
			asked := journey.ended != "completed"
			if asked && (strings.Contains(page, "</span> completed") || strings.Contains(page, "3 done,")) {
				t.Errorf("a request that was accepted is shown as done:\n%s", page)
			}
		})
	}
}
