package app_test

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// sealedWith returns the tables that have a value sealed with a key, whatever the
// column: one that is sealed and that system.reseal does not know would stay in it.
func sealedWith(t *testing.T, d *sql.DB, key string) (found []string) {
	t.Helper()
	rows, err := d.QueryContext(t.Context(), `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
		WHERE schemaname IN ('saga', 'dlq', 'jobs') ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range tables {
		var n int
		err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM `+name+` r WHERE r::text LIKE '%"v1.' || $1 || '.%' OR r::text LIKE '%""v1.' || $1 || '.%'
			OR r::text LIKE '%$skald_enc:t1.' || $1 || '.%' OR r::text LIKE '%' || encode(convert_to('$skald_enc:b1.' || $1 || '.', 'UTF8'), 'hex') || '%'`, key).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			found = append(found, name)
		}
	}
	return found
}

// What docs/security.md says about rotating and retiring a key, with something sealed
// in every place: after the job nothing needs the old key, and every answer is what it
// was.
func TestAKeyIsRetiredAfterEverythingIsSealedAgain(t *testing.T) {
	t.Parallel()
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); r.URL.Path == "/two" && strings.Contains(string(body), `"refuse":true`) {
			w.WriteHeader(http.StatusConflict)
		}
		io.WriteString(w, `{"said":"canary"}`)
	}))
	defer participant.Close()
	dsn := testdb.DSN(t)
	begin := func(name, keys string) *node {
		return start(t, dsn, name, func(cfg *config.Config) { cfg.Encryption.Keys = config.Secret(keys) })
	}
	a := begin("a", masterOne)
	api := func(n *node, method, path, body string) map[string]any {
		t.Helper()
		status, doc := call(t, method, n.url+"/api/v1"+path, strings.ReplaceAll(body, "URL", participant.URL))
		if status >= 300 {
			t.Fatalf("%s %s: %d %v", method, path, status, doc)
		}
		return doc
	}
	api(a, "POST", "/workflows", twoSteps)
	var paths []string
	for _, refuse := range []string{"false", "true"} {
		s := api(a, "POST", "/sagas", `{"workflow_name":"pair","payload":{"who":"canary","refuse":`+refuse+`}}`)
		paths = append(paths, fmt.Sprintf("/sagas/%v", s["saga_id"]))
		api(a, "GET", paths[len(paths)-1]+"?wait=4m", "")
	}
	letter := api(a, "POST", "/dlq/messages", `{"original_topic":"t","error_message":"e","error_stack":"canary","key":"canary","payload":{"n":1},
		"headers":[{"name":"h","value":"canary"}],"target":{"kind":"http","url":"URL/letters"}}`)
	letterPath := fmt.Sprintf("/dlq/messages/%v", letter["id"])
	api(a, "POST", letterPath+"/retry", `{"reason":"better","payload_patch":[{"op":"replace","path":"/n","value":"canary"}]}`)
	paths = append(paths, letterPath, letterPath+"/revisions")
	req, err := http.NewRequest("POST", a.url+"/api/v1/events", strings.NewReader(`{"event_type":"happened","payload":{"who":"canary"}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "event-1")
	if status, doc := answer(t, req); status >= 300 {
		t.Fatalf("publish: %d %v", status, doc)
	}
	job := ran(t, a, jobrun.SystemRedrive, `{"args":{"topic":"canary"}}`)
	checked := ran(t, a, jobrun.SystemInvariants, `{}`)
	for _, r := range []map[string]any{job, checked} {
		paths = append(paths, fmt.Sprintf("/job-runs/%v", r["id"]), fmt.Sprintf("/job-runs/%v/logs", r["id"]))
	}
	read := func(n *node) (docs []string) {
		for _, path := range paths {
			resp, err := http.Get(n.url + "/api/v1" + path)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("read %s: %d %s %v", path, resp.StatusCode, text, err)
			}
			docs = append(docs, path+" "+string(text))
		}
		return docs
	}
	before := read(a)
	d := owner(t, dsn)
	with := sealedWith(t, d, "one")
	for _, table := range []string{"saga.saga_states", "saga.saga_step_logs", "saga.idempotency_answers",
		"dlq.dlq_messages", "dlq.dlq_revisions", "jobs.events", "jobs.job_run_logs", "jobs.job_runs",
		"saga.deployment_secrets"} {
		if !strings.Contains(strings.Join(with, " ")+" ", table+" ") {
			t.Errorf("nothing in %s is sealed, so that this test proves nothing about it: %v", table, with)
		}
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}

	b := begin("b", masterTwo+","+masterOne)
	run := ran(t, b, jobrun.SystemReseal, `{}`)
	result, _ := run["result"].(map[string]any)
	left, counted := result["left"].(map[string]any)
	if run["state"] != "SUCCEEDED" || result["key"] != "two" || len(left) > 0 || !counted {
		t.Errorf("the run is %v", run)
	}
	if rest := sealedWith(t, d, "one"); rest != nil {
		t.Errorf("still sealed with the old key: %v", rest)
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ExecContext(t.Context(), `DELETE FROM saga.deployment_secrets WHERE name = 'envelope:one'`); err != nil {
		t.Fatal(err)
	}
	c := begin("c", masterTwo)
	if diff := cmp.Diff(before, read(c)); diff != "" {
		t.Errorf("what is read (-before +after):\n%s", diff)
	}
	if doc := api(c, "GET", "/audit/verify", ""); doc["first_bad"] != nil {
		t.Errorf("the audit trail: %v", doc)
	}
}
