package app_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/test/patience"
)

// After an erasure no table contains the content of a person's sagas, letters, runs and
// deliveries; nothing is erased while any of it is active. The history remains, and the chain
// is valid.
func TestErasureOfASubjectOverTheAPI(t *testing.T) {
	t.Parallel()
	const said = "zqperson"
	w := newWalker(t)
	services := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/refuse") {
			http.Error(rw, `{"message":"no `+said+`"}`, http.StatusConflict)
			return
		}
		_, _ = rw.Write([]byte(`{"answer":"` + said + `"}`))
	}))
	t.Cleanup(services.Close)
	hook := w.do("createWebhook", `{"url":"`+services.URL+`/hook"}`).text("id")
	w.do("registerWorkflow", `{"name":"sad","steps":[
		{"name":"one","action":{"http":{"url":"`+services.URL+`/one"}},"compensation":{"http":{"url":"`+services.URL+`/refuse"}}},
		{"name":"two","action":{"http":{"url":"`+services.URL+`/refuse"}},"compensation":"none"}]}`)
	id := w.do("createSaga", `{"workflow_name":"sad","correlation_id":"c-81","payload":{"who":"`+said+`"},"metadata":{"who":"`+said+`"},
		"name":"`+said+`","description":"`+said+`"}`).text("saga_id")
	patience.Until(t, "the saga fails", func() bool { return w.get("/api/v1/sagas/" + id)["state"] == "failed" })
	w.do("createJobDefinition", `{"name":"tell","type":"manual","command_name":"tell"}`)
	_, begun := w.send("run", "POST", "/api/v1/job-definitions/tell/runs", `{"correlation_id":"c-81","args":{"who":"`+said+`"}}`)
	run := answered(begun).text("id")
	letter := w.do("pushDeadLetter", `{"original_topic":"people","error_message":"`+said+`","error_type":"odd","correlation_id":"c-81",
		"payload":{"who":"`+said+`"},"target":{"kind":"http","url":"`+services.URL+`/one"}}`).text("id")
	patience.Until(t, "every failure was delivered", func() bool {
		var n int
		err := w.db.QueryRowContext(t.Context(), `SELECT count(*) FROM saga.webhook_deliveries
			WHERE saga_id = $1 AND status = 'delivered' AND body LIKE '%zqperson%'`, id).Scan(&n)
		return err == nil && n >= 2
	})

	erase := func(body, query string) (int, map[string]any) {
		t.Helper()
		return w.send("erase-"+uuid.NewString(), "POST", "/api/v1/admin/erasures"+query, body)
	}
	const subject = `{"correlation_id":"c-81","reason":"request 7 of the 23rd"}`
	for _, active := range []string{"job run " + run + " is", "2 dead letters (", "saga " + id + " is"} {
		status, doc := erase(subject, "")
		if status != http.StatusConflict || doc["code"] != "SAGA_NOT_ERASABLE" ||
			!strings.Contains(answered(doc).text("detail"), active) {
			t.Fatalf("want %q still active: %d %v", active, status, doc)
		}
		switch kind, _, _ := strings.Cut(active, " "); kind {
		case "job":
			w.do("cancelJobRun", `{"reason":"not needed"}`, run)
		case "2":
			w.do("discardDeadLetter", `{"reason":"not needed"}`, letter)
			for _, m := range w.get("/api/v1/dlq/messages?saga_id=" + id)["messages"].([]any) {
				w.do("discardDeadLetter", `{"reason":"done by hand","force":true}`, m.(map[string]any)["id"].(string))
			}
		case "saga":
			w.do("updateSaga", `{"note":"`+said+`","reason":"done by hand"}`, id)
			w.do("acknowledgeSaga", `{"reason":"done by hand"}`, id)
		}
	}
	status, counted := erase(subject, "?dry_run=true")
	if status != http.StatusOK || counted["dry_run"] != true || counted["sagas"] != 1.0 || counted["job_runs"] != 1.0 ||
		counted["dead_letters"] != 2.0 || !strings.Contains(asText(counted["changes"]), `"of":"dead_letter"`) {
		t.Fatalf("%d %v", status, counted)
	}
	delete(counted, "changes") // only a dry run has them
	const one = `","reason":"request 7 of the 23rd"}`
	status, doc := erase(`{"saga_id":"`+id+one, "?dry_run=true")
	if status != http.StatusOK || doc["dead_letters"] != 1.0 {
		t.Errorf("of the saga alone: %d %v", status, doc)
	}
	if !w.stored(said) {
		t.Fatal("a dry run has erased, or nothing said it")
	}
	status, doc = erase(subject, "")
	counted["dry_run"] = false
	if status != http.StatusOK || asText(doc) != asText(counted) || doc["audit_events"] == 0.0 ||
		doc["webhook_deliveries"] == 0.0 {
		t.Errorf("%d %v, the dry run: %v", status, doc, counted)
	}
	if w.stored(said) {
		t.Error("it is still stored")
	}
	if status, doc := erase(subject, ""); status != http.StatusOK || doc["sagas"] != 0.0 || doc["job_runs"] != 0.0 ||
		doc["dead_letters"] != 0.0 {
		t.Errorf("again: %d %v", status, doc)
	}
	if doc := w.get("/api/v1/sagas/" + id); doc["state"] != "failed" || len(doc["allowed_actions"].([]any)) != 0 {
		t.Errorf("the saga: %v", doc)
	}
	for _, path := range []string{"sagas/" + id + "/step-logs", "sagas/" + id + "/steps", "sagas/" + id + "/explain",
		"sagas/" + id + "/events", "job-runs/" + run, "webhooks/" + hook + "/deliveries", "timeline?correlation_id=c-81"} {
		status, doc := w.send("look", "GET", "/api/v1/"+path, "")
		if status >= 400 || strings.Contains(strings.ToLower(asText(doc)), said) {
			t.Errorf("%s: %d %v", path, status, doc)
		}
	}
	status, doc = w.send("resume", "POST", "/api/v1/sagas/"+id+"/resume-compensation", `{}`)
	if status != http.StatusConflict {
		t.Errorf("without content it goes on: %d %v", status, doc)
	}
	if status, doc := w.send("verify", "GET", "/api/v1/audit/verify?limit=1000", ""); status != http.StatusOK || doc["ok"] != true {
		t.Errorf("verify: %d %v", status, doc)
	}
}

// A request that selects nothing, or two things at once, is refused.
func TestRequestsForErasure(t *testing.T) {
	t.Parallel()
	w := newWalker(t)
	const path = "/api/v1/admin/erasures"
	run := func() string {
		w.do("registerWorkflow", `{"name":"none","steps":[{"name":"one","compensation":"none",
			"action":{"http":{"url":"http://127.0.0.1:9/"}}}]}`)
		id := w.do("createSaga", `{"workflow_name":"none","business_key":"k-1","payload":{}}`).text("saga_id")
		w.do("forceFail", `{"reason":"not needed"}`, id)
		patience.Until(t, "it ends", func() bool { return w.get("/api/v1/sagas/" + id)["status"] == "FAILED" })
		w.send("acknowledge", "POST", "/api/v1/sagas/"+id+"/acknowledge", `{"reason":"seen"}`)
		return id
	}
	id, zero := run(), uuid.Nil.String()
	for body, want := range map[string]int{
		`{"reason":"x"}`:         422,
		`{"business_key":"k-1"}`: 422,
		`{"business_key":"k-1","correlation_id":"c","reason":"x"}`:   422,
		`{"saga_id":"` + zero + `","reason":"x"}`:                    422,
		`{"saga_id":"` + uuid.NewString() + `","reason":"x"}`:        404,
		`{"dead_letter_id":"` + uuid.NewString() + `","reason":"x"}`: 404,
		`{"job_run_id":"` + uuid.NewString() + `","reason":"x"}`:     404,
		`{"correlation_id":"nobody's","reason":"x"}`:                 200,
	} {
		if status, doc := w.send("bad", "POST", path, body); status != want {
			t.Errorf("%s: %d %v, want %d", body, status, doc, want)
		}
	}
	const asked = `{"business_key":"k-1","reason":"asked"}`
	if status, doc := w.send("key", "POST", path, asked); status != http.StatusOK || doc["sagas"] != 1.0 {
		t.Fatal(status, doc)
	}
	if doc := w.get("/api/v1/sagas/" + id); asText(doc["payload"]) != `{"$skald_erased":true}` {
		t.Errorf("the saga: %v", doc)
	}
	if doc := w.get("/api/v1/audit?kind=erasure"); len(doc["actions"].([]any)) != 2 {
		t.Errorf("the record: %v", doc)
	}
}

// stored reports whether any row of any table contains a text, as text or as bytes.
func (w *walker) stored(text string) bool {
	w.t.Helper()
	rows, err := w.db.QueryContext(w.t.Context(),
		`SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname IN ('saga', 'dlq', 'jobs')`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		var table string
		var n int
		if err := rows.Scan(&table); err != nil {
			w.t.Fatal(err)
		}
		err := w.db.QueryRowContext(w.t.Context(), `SELECT count(*) FROM `+table+` r WHERE strpos(lower(r::text), $1) > 0
			OR strpos(lower(r::text), encode(convert_to($1, 'UTF8'), 'hex')) > 0`, text).Scan(&n)
		if err != nil {
			w.t.Fatal(table, err)
		}
		if n > 0 {
			w.t.Logf("%s has it in %d rows", table, n)
			found = true
		}
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return found
}

func asText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
