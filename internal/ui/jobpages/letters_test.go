package jobpages_test

import (
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestARunSaysWhatItDoesForADeadLetter checks that a run created by a letter's retry describes this
// according to its current state, and that the run that failed does not mention a retry.
func TestARunSaysWhatItDoesForADeadLetter(t *testing.T) {
	s := uitest.Start(t)
	s.Must(t, "POST", "/job-definitions", map[string]any{
		"name": "import", "type": "manual", "command_name": "import", "queue": "rows", "dead_letter": true,
		"retry": map[string]any{"max_attempts": 1},
	})
	w := worker(t, s, "rows")
	failure := map[string]any{"code": "BAD_ROW", "message": "row 7", "retryable": false}
	first := s.Must(t, "POST", "/job-definitions/import/runs", map[string]any{})["id"].(string)
	run, fence := claims(t, s, w)
	s.Must(t, "POST", "/job-runs/"+run+"/fail", with(fence, "error", failure))
	var letter string
	patience.Until(t, "its dead letter is there", func() bool {
		found, _ := s.Must(t, "GET", "/dlq/messages?job_run_id="+first, nil)["messages"].([]any)
		if len(found) == 1 {
			letter = found[0].(map[string]any)["id"].(string)
		}
		return letter != ""
	})
	const retries, succeeded, failed = "It retries this dead letter", "It retried this dead letter and succeeded",
		"It retried this dead letter but did not succeed"
	says := func(id, want string) {
		t.Helper()
		page := reads(t, s, "/ui/runs/"+id)
		for _, sentence := range []string{retries, succeeded, failed} {
			if strings.Contains(page, sentence+"<") != (sentence == want) {
				t.Errorf("run %s, which should say %q, says or lacks %q", id, want, sentence)
			}
		}
		if strings.Contains(page, "It gave up") {
			t.Errorf("run %s says that it gave up", id)
		}
	}
	says(first, "")
	for _, end := range []struct{ verb, says string }{{"fail", failed}, {"complete", succeeded}} {
		s.Must(t, "POST", "/dlq/messages/"+letter+"/retry", map[string]any{})
		again, fence := claims(t, s, w)
		says(again, retries)
		body := with(fence)
		if end.verb == "fail" {
			body["error"] = failure
		}
		s.Must(t, "POST", "/job-runs/"+again+"/"+end.verb, body)
		says(again, end.says)
		patience.Until(t, "the letter is told", func() bool {
			return s.Must(t, "GET", "/dlq/messages/"+letter, nil)["status"] != "RETRYING"
		})
	}
}
