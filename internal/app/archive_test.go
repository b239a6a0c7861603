package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
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
	_, doc := call(t, "POST", n.url+"/api/v1/sagas?wait=10s", `{"workflow_name": "pair"}`)
	at := n.url + "/api/v1/sagas/" + doc["saga_id"].(string)
	deadline := time.Now().Add(30 * time.Second)
	for doc["archived"] != true {
		if time.Now().After(deadline) {
			t.Fatalf("after half a minute the saga is not archived: %v", doc)
		}
		_, doc = call(t, "GET", at, "")
	}
	if doc["status"] != "COMPLETED" || len(doc["step_logs"].([]any)) != 2 {
		t.Errorf("archived: %v", doc)
	}
	// It goes again soon, and so may be gone by the time it is answered.
	if status, doc := call(t, "POST", at+"/restore", `{"reason": "test"}`); status != 200 || doc["status"] != "COMPLETED" {
		t.Errorf("restore: %d %v", status, doc)
	}
	if status, doc := call(t, "GET", n.url+"/api/v1/admin/storage", ""); status != 200 ||
		doc["database_bytes"].(float64) < 1<<20 ||
		len(doc["tables"].([]any)) < 8 {
		t.Errorf("storage: %d %v", status, doc)
	}
	for _, want := range []string{`skald_table_bytes{part="heap",table="saga_states"}`, `skald_loop_last_success_timestamp_seconds{loop="retention"}`, "skald_sagas_archived_total "} {
		for !strings.Contains(metrics(t, n), want) { // the round may not be over
			if time.Now().After(deadline) {
				t.Fatalf("the metrics lack %s", want)
			}
		}
	}
	if strings.Contains(metrics(t, n), "skald_sagas_archived_total 0\n") {
		t.Error("no archived saga was counted")
	}
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
