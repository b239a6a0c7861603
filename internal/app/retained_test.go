package app_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/patience"
)

// What retention archives and deletes is recorded for each round and tenant, but only if the round
// removed something.
func TestRetentionIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWalker(t, func(c *config.Config) {
		c.Retention.Completed, c.Retention.Interval = time.Millisecond, 50*time.Millisecond
	})
	participant := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer participant.Close()
	w.do(
		"registerWorkflow",
		`{"name":"short","steps":[{"name":"one","action":{"http":{"url":"`+participant.URL+`"}},"compensation":"none"}]}`,
	)
	saga := w.do("createSaga", `{"workflow_name":"short","payload":{}}`).text("saga_id")
	type row struct {
		actor, subject, operation, detail string
	}
	told := func(subject string) (rows []row) {
		t.Helper()
		found, err := w.db.QueryContext(t.Context(), `SELECT actor, subject, operation, detail::text FROM saga.audit_actions
			WHERE kind = 'retention' AND verb = 'run' AND result = 'done' AND subject = $1 ORDER BY txid, n`, subject)
		if err != nil {
			t.Fatal(err)
		}
		defer found.Close()
		for found.Next() {
			var r row
			if err := found.Scan(&r.actor, &r.subject, &r.operation, &r.detail); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, r)
		}
		if err := found.Err(); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	patience.Until(w.t, "the saga is archived, and that is on record", func() bool { return len(told("sagas")) > 0 })
	if doc := w.get("/api/v1/sagas/" + saga); doc["archived_at"] == nil && doc["archived"] != true {
		t.Errorf("the saga is not archived: %v", doc)
	}

	id := w.letter("orders", participant.URL)
	w.do("resolveDeadLetter", `{"reason":"by hand"}`, id)
	w.exec(`UPDATE dlq.dlq_messages SET terminal_at = terminal_at - interval '400 days' WHERE id = $1`, id)
	run := func(command string) {
		t.Helper()
		path := "/api/v1/job-runs/" + w.do("createJobRun", `{"reason":"now"}`, command).text("id")
		var doc map[string]any
		patience.Until(w.t, command+" ends", func() bool { doc = w.get(path); return doc["finished_at"] != nil })
		if doc["state"] != "SUCCEEDED" {
			t.Fatalf("%s: %v", command, doc)
		}
	}
	run(jobrun.SystemArchive)
	w.exec(`UPDATE dlq.dlq_messages_archive SET archived_at = archived_at - interval '400 days' WHERE id = $1`, id)
	run(jobrun.SystemPurge)
	for range 2 { // which find nothing
		run(jobrun.SystemArchive)
		run(jobrun.SystemPurge)
	}
	want := []row{
		{"key:*:bootstrap", "dead_letters", jobrun.SystemArchive, `{"dead_letters_archived": 1}`},
		{"key:*:bootstrap", "dead_letters", jobrun.SystemPurge, `{"dead_letters_deleted": 1}`},
	}
	if diff := cmp.Diff(want, told("dead_letters"), cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("of dead letters (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]row{{"system:retention", "sagas", "", `{"sagas_archived": 1}`}}, told("sagas"),
		cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("of sagas, after many rounds (-want +got):\n%s", diff)
	}
}
