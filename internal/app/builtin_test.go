package app_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"

	_ "github.com/lib/pq"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// ran runs a built-in definition on the nodes' own worker and returns the run after its end.
func ran(t *testing.T, n *node, name, args string) map[string]any {
	t.Helper()
	status, doc := call(t, "POST", n.url+"/api/v1/job-definitions/"+name+"/runs", args)
	if status != http.StatusCreated {
		t.Fatalf("run %s: %d %v", name, status, doc)
	}
	url := n.url + "/api/v1/job-runs/" + fmt.Sprint(doc["id"])
	patience.Until(t, name+" ends", func() bool {
		_, doc = call(t, "GET", url, "")
		return doc["finished_at"] != nil
	})
	return doc
}

func TestBuiltInDefinitionsExistOnceAndRun(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	a := start(t, dsn, "a")
	start(t, dsn, "b") // finds the definitions of the first node
	status, doc := call(t, "GET", a.url+"/api/v1/job-definitions?built_in=true&page_size=50", "")
	if status != http.StatusOK || len(doc["job_definitions"].([]any)) != len(jobrun.BuiltIns) {
		t.Fatalf("%d %v", status, doc)
	}
	for _, name := range []string{jobrun.SystemArchive, jobrun.SystemPurge, jobrun.SystemOffload, jobrun.SystemRetention,
		jobrun.SystemInvariants} {
		if doc := ran(t, a, name, `{}`); doc["state"] != "SUCCEEDED" || doc["result"] == nil {
			t.Errorf("%s: %v", name, doc)
		}
	}
	if status, doc := call(t, "DELETE", a.url+"/api/v1/job-definitions/"+jobrun.SystemArchive,
		""); status != http.StatusConflict ||
		doc["code"] != "JOB_BUILT_IN" {
		t.Errorf("it is deleted: %d %v", status, doc)
	}
}

func TestABrokenInvariantFailsItsRun(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	n := start(t, dsn, "a")
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// This letter was confirmed although no run has succeeded.
	if status, doc := call(t, "POST", n.url+"/api/v1/dlq/messages", `{"original_topic":"t","error_message":"e","payload":{},"target":{"kind":"job_run","job":"system.invariants"}}`); status != http.StatusCreated {
		t.Fatalf("%d %v", status, doc)
	}
	if _, err := db.ExecContext(t.Context(), `UPDATE dlq.dlq_messages SET source = 'JOB', status = 'RESOLVED', resolution = 'CONFIRMED', terminal_at = now()`); err != nil {
		t.Fatal(err)
	}
	doc := ran(t, n, jobrun.SystemInvariants, `{}`)
	if doc["state"] != "FAILED" || !strings.Contains(fmt.Sprint(doc["error"]), "INVARIANT_BROKEN") ||
		!strings.Contains(fmt.Sprint(doc["error"]), "a letter that is retried by a run") {
		t.Errorf("the run is %v", doc)
	}
}

func TestLettersOfATopicAreRedrivenByARun(t *testing.T) {
	t.Parallel()
	n := start(t, testdb.DSN(t), "a")
	var ids []string
	for range 3 {
		status, doc := call(
			t,
			"POST",
			n.url+"/api/v1/dlq/messages",
			`{"original_topic":"upkeep","error_message":"e","payload":{},"target":{"kind":"job_run","job":"`+jobrun.SystemInvariants+`"}}`,
		)
		if status != http.StatusCreated {
			t.Fatalf("%d %v", status, doc)
		}
		ids = append(ids, fmt.Sprint(doc["id"]))
	}
	if doc := ran(t, n, jobrun.SystemRedrive, `{"args":{"topic":"upkeep","rate_per_second":100}}`); doc["state"] != "SUCCEEDED" ||
		!strings.Contains(fmt.Sprint(doc["result"]), "matched:3") {
		t.Errorf("the run is %v", doc)
	}
	for _, id := range ids {
		var doc map[string]any
		patience.Until(t, "the letter is driven", func() bool {
			_, doc = call(t, "GET", n.url+"/api/v1/dlq/messages/"+id, "")
			return doc["status"] != "RETRYING" && doc["status"] != "PENDING"
		})
		if doc["status"] != "RESOLVED" || doc["resolution"] != "CONFIRMED" {
			t.Errorf("the letter is %v", doc)
		}
	}
}
