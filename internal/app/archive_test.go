package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestAnEndedSagaGoesIntoTheArchiveAndComesBack(t *testing.T) {
	t.Parallel()
	participant := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"ok":true}`) }),
	)
	defer participant.Close()
	n := start(t, testdb.DSN(t), "a", func(c *config.Config) { c.Retention.Interval = time.Second })
	short := strings.Replace(
		strings.ReplaceAll(twoSteps, "URL", participant.URL),
		`"steps"`,
		`"retention": {"completed_ms": 1}, "steps"`,
		1,
	)
	if status, doc := call(t, "POST", n.url+"/api/v1/workflows", short); status != 201 {
		t.Fatalf("register: %d %v", status, doc)
	}
	_, doc := call(t, "POST", n.url+"/api/v1/sagas?wait=4m", `{"workflow_name": "pair"}`)
	at := n.url + "/api/v1/sagas/" + doc["saga_id"].(string)
	patience.Until(t, "the saga is archived", func() bool {
		_, doc = call(t, "GET", at, "")
		return doc["archived"] == true
	})
	if doc["status"] != "COMPLETED" || len(doc["step_logs"].([]any)) != 2 {
		t.Errorf("archived: %v", doc)
	}
	// It is archived again soon, possibly before the response arrives.
	if status, doc := call(t, "POST", at+"/restore", `{"reason": "test"}`); status != 200 || doc["status"] != "COMPLETED" {
		t.Errorf("restore: %d %v", status, doc)
	}
	if status, doc := call(t, "GET", n.url+"/api/v1/admin/storage", ""); status != 200 ||
		doc["database_bytes"].(float64) < 1<<20 ||
		len(doc["tables"].([]any)) < 8 {
		t.Errorf("storage: %d %v", status, doc)
	}
	for _, want := range []string{`skald_loop_last_success_timestamp_seconds{loop="retention"}`, "skald_sagas_archived_total "} {
		// The round may still be running.
		patience.Until(t, "the metrics have "+want, func() bool { return strings.Contains(metrics(t, n), want) })
	}
	if strings.Contains(metrics(t, n), "skald_sagas_archived_total 0\n") {
		t.Error("no archived saga was counted")
	}
	patience.Until(t, "the tables are measured", func() bool {
		time.Sleep(time.Second) // they are after the janitor's first pause of a quarter of a minute
		return strings.Contains(metrics(t, n), `skald_table_bytes{part="heap",table="saga_states"}`)
	})
}

func metrics(t *testing.T, n *node) string {
	t.Helper()
	res, err := http.Get(n.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// S2-98: old audit events are archived automatically; the saga's history and the chain are
// unchanged.
func TestOldAuditEventsGoIntoTheirArchive(t *testing.T) {
	t.Parallel()
	participant := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"ok":true}`) }),
	)
	defer participant.Close()
	dsn := testdb.DSN(t)
	n := start(t, dsn, "a", func(c *config.Config) {
		c.Retention.Interval, c.Retention.Events = 50*time.Millisecond, time.Millisecond
	})
	call(t, "POST", n.url+"/api/v1/workflows", strings.ReplaceAll(twoSteps, "URL", participant.URL))
	_, doc := call(t, "POST", n.url+"/api/v1/sagas?wait=4m", `{"workflow_name": "pair"}`)
	_, events := call(t, "GET", n.url+"/api/v1/sagas/"+doc["saga_id"].(string)+"/events", "")
	var verified map[string]any
	patience.Until(t, "the events are archived", func() bool {
		_, verified = call(t, "GET", n.url+"/api/v1/audit/verify", "")
		return verified["archived_seals"] != nil && verified["unsealed_events"] == float64(0) &&
			verified["archived_seals"] == verified["checked_seals"]
	})
	if verified["ok"] != true || verified["checked_events"] != float64(len(events["events"].([]any))) {
		t.Errorf("verified: %v", verified)
	}
	_, after := call(t, "GET", n.url+"/api/v1/sagas/"+doc["saga_id"].(string)+"/events", "")
	if diff := cmp.Diff(events, after); diff != "" {
		t.Errorf("the history of the saga (-before +after):\n%s", diff)
	}
	if _, feed := call(t, "GET", n.url+"/api/v1/saga-events", ""); len(feed["events"].([]any)) != 0 {
		t.Errorf("the feed still has them: %v", feed)
	}
	// Once they are deleted there as well, the saga is still found, archived or not.
	pgtest.Execute(t, pgtest.Observer(t, dsn), `DELETE FROM saga.audit_events_archive WHERE saga_id = $1`, doc["saga_id"])
	for _, archived := range []bool{false, true} {
		if archived {
			call(t, "POST", n.url+"/api/v1/admin/retention/run", `{"older_than": "`+time.Now().UTC().Format(time.RFC3339Nano)+`"}`)
		}
		for path, want := range map[string]int{"/api/v1/sagas/%v": 200, "/api/v1/sagas/%v/events": 200, "/ui/sagas/%v": 200} {
			if got := status(t, "GET", n.url+fmt.Sprintf(path, doc["saga_id"]), ""); got != want {
				t.Errorf("a saga without events, archived %t: GET %s answers %d", archived, path, got)
			}
		}
	}
}
