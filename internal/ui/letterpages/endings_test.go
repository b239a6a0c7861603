package letterpages_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestALetterIsSentElsewhereReportedAndRestored takes one letter through its endings: another
// target accepts it, its consumer first reports a failure and then success, and it is archived and
// restored.
func TestALetterIsSentElsewhereReportedAndRestored(t *testing.T) {
	var dsn string
	s := site{uitest.Start(t, func(c *config.Config) { dsn = string(c.Database.URL) }), newTarget(t)}
	elsewhere := newTarget(t)
	s.target.answer(http.StatusServiceUnavailable)
	id := s.push(t, map[string]any{"payload": map[string]any{"order": uint64(9007199254740993)}})
	letter := "/ui/dlq/letters/" + id

	s.page(t, letter+"/actions/edit", "Different key or target")
	moved := []string{
		"payload_json", `{"order": 9007199254740993}`, "target.url", elsewhere.URL + "/new-home", "reason", "it has moved",
	}
	send := func() (int, string, string) {
		t.Helper()
		form := uitest.Form(s.page(t, letter+"/actions/edit"))
		for i := 0; i < len(moved); i += 2 {
			form.Set(moved[i], moved[i+1])
		}
		form.Set("do", "act")
		return s.Post(t, letter+"/actions/edit", form)
	}
	if status, page, _ := send(); status != http.StatusUnprocessableEntity ||
		!strings.Contains(page, "DLQ_TARGET_NOT_ALLOWED") {
		t.Errorf("a target that no policy allows: %d", status)
	}
	s.act(t, "/ui/dlq/topics/orders/policy", "allowed_targets", elsewhere.URL+"/*", "reason", "it moves")
	patience.Until(t, "the node knows the policy, and the retry is accepted", func() bool {
		status, _, to := send()
		return status == http.StatusSeeOther && to == letter+"?accepted=retry"
	})
	body, _ := elsewhere.last()
	if at, _ := s.target.last(); at != "" || !strings.Contains(body, "9007199254740993") {
		t.Errorf("its own target got %q, the other one %q", at, body)
	}
	s.page(t, letter+"?tab=attempts", elsewhere.URL+"/new-home")
	s.page(t, letter, "The target answered <code>200</code> at", "Report the outcome")

	ack := letter + "/actions/ack"
	s.page(t, ack, "it failed again", "/api/v1/dlq/messages/"+id+"/ack", "generation")
	s.act(t, ack, "outcome", "FAILED", "reason", "the consumer refused it")
	s.page(t, letter+"?accepted=ack", "Accepted.", "pending")
	s.act(t, letter+"/actions/edit", moved...)
	s.act(t, ack, "outcome", "PROCESSED")
	s.page(t, letter, "Its consumer has confirmed that it was processed")

	db := pgtest.Observer(t, dsn)
	pgtest.Execute(t, db, `UPDATE dlq.dlq_messages SET terminal_at = now() - interval '9 years' WHERE id = $1`, id)
	if status, doc := s.Call(t, "POST", "/job-definitions/system.dlq.archive/runs", map[string]any{}); status != 201 {
		t.Fatalf("archive: %d %v", status, doc)
	}
	patience.Until(t, "it is archived", func() bool {
		_, page := s.Get(t, "/ui/dlq/archive")
		return strings.Contains(page, letter)
	})
	restore := letter + "/actions/restore"
	s.page(t, letter, "It is in the archive", restore)
	s.page(t, "/ui/search?q="+id, `href="`+letter+`"`)
	s.page(t, restore, "/api/v1/dlq/archive/"+id+"/restore")
	if to := s.act(t, restore, "reason", "it was needed after all"); to != letter+"?accepted=restore" {
		t.Errorf("the restoration leads to %s", to)
	}
	s.page(t, letter+"?accepted=restore", "no longer in the archive", "pending")
	s.page(t, "/ui/dlq/archive", "The archive is empty")
}
