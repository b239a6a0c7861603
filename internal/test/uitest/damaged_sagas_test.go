package uitest_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// gone is encrypted content whose key is lost.
const gone = `{"$skald_enc":"v1.gone.AAAA"}`

// restored starts a Skald server, lets prepare create rows with it, damages some of them as a bad
// restore would, and returns a second server on the same database: the first one has cached what it
// has read.
func restored(t *testing.T, prepare func(*uitest.Server), damage func(*sql.DB)) *uitest.Server {
	t.Helper()
	dsn := testdb.DSN(t)
	here := func(c *config.Config) { c.Database.URL = config.Secret(dsn) }
	t.Run("before", func(t *testing.T) { prepare(uitest.Start(t, here)) })
	if t.Failed() {
		t.FailNow()
	}
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	damage(db)
	readViews(t, db)
	return uitest.Start(t, here)
}

// readViews reads every row of every view for people who use SQL.
func readViews(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `
SELECT format('%I.%I', schemaname, viewname)
  FROM pg_views
 WHERE schemaname IN ('saga', 'dlq', 'jobs', 'public')`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var views []string
	for rows.Next() {
		var view string
		if err := rows.Scan(&view); err != nil {
			t.Fatal(err)
		}
		views = append(views, view)
	}
	if err := rows.Err(); err != nil || len(views) < 10 {
		t.Fatalf("views %v, %v", views, err)
	}
	for _, view := range views {
		var size sql.NullInt64
		if err := db.QueryRowContext(t.Context(), `SELECT sum(length(v::text)) FROM `+view+` v`).Scan(&size); err != nil {
			t.Errorf("%s: %v", view, err)
		}
	}
}

func execute(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	// A restore can damage even immutable rows.
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	res, err := tx.ExecContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		t.Fatalf("%s: %d rows, %v", query, n, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// damagedSaga is a kind of damage that makes a saga's definition or content unreadable.
type damagedSaga struct {
	name, damage string // $1 is the workflow's name
	mark, code   string
}

var damagedSagas = []damagedSaga{
	{"empty", `UPDATE saga.workflow_definitions SET definition = '{}' WHERE name = $1`,
		"definition_unreadable", "SAGA_DEFINITION_UNREADABLE"},
	{"no-object", `UPDATE saga.workflow_definitions SET definition = '[1]' WHERE name = $1`,
		"definition_unreadable", "SAGA_DEFINITION_UNREADABLE"},
	{"other-schema", `UPDATE saga.workflow_definitions SET definition = '{"steps":[{"name":5}]}' WHERE name = $1`,
		"definition_unreadable", "SAGA_DEFINITION_UNREADABLE"},
	{"fewer-steps", `UPDATE saga.workflow_definitions SET definition = definition #- '{steps,1}' WHERE name = $1`,
		"definition_unreadable", "SAGA_DEFINITION_UNREADABLE"},
	{"other-names", `UPDATE saga.workflow_definitions SET definition = jsonb_set(definition, '{steps,0,name}', '"x"') WHERE name = $1`,
		"definition_unreadable", "SAGA_DEFINITION_UNREADABLE"},
	{"missing", `DELETE FROM saga.workflow_definitions WHERE name = $1`,
		"definition_unreadable", "SAGA_DEFINITION_UNREADABLE"},
	{"sealed-payload", `UPDATE saga.saga_states SET payload = '` + gone + `' WHERE workflow_name = $1`,
		"content_unreadable", "SAGA_CONTENT_UNREADABLE"},
	{"sealed-answer", `UPDATE saga.saga_step_logs l SET response_payload = '` + gone + `' FROM saga.saga_states s
		WHERE s.workflow_name = $1 AND l.saga_id = s.id AND l.tenant_id = s.tenant_id AND l.status = 'SUCCESS'`,
		"content_unreadable", "SAGA_CONTENT_UNREADABLE"},
}

// workflowOf returns a workflow with a step that succeeds and a step at path second that waits for
// its next attempt.
func workflowOf(s *uitest.Server, name, second string) map[string]any {
	step := func(name, path string) map[string]any {
		return map[string]any{
			"name": name, "action": map[string]any{"http": map[string]any{"url": s.Participant + path}},
			"compensation": "none",
		}
	}
	return map[string]any{
		"name": name, "steps": []any{step("one", "/ok"), step("two", second)},
		"retry": map[string]any{"initial_interval_ms": 600_000, "max_interval_ms": 600_000, "max_attempts": 3},
	}
}

// TestADamagedSagaIsShownAndCanBeOperated: programs and people can read each damaged saga in every
// way there is, it accepts actions that don't need the damaged part, and undamaged sagas are not
// affected.
func TestADamagedSagaIsShownAndCanBeOperated(t *testing.T) {
	waiting, ended := map[string]string{}, map[string]string{}
	var whole map[string]any
	s := restored(t, func(s *uitest.Server) {
		begin := func(name string) string {
			doc := s.Must(t, "POST", "/sagas", map[string]any{
				"workflow_name": name, "payload": map[string]any{"n": 1}, "correlation_id": "order-1",
			})
			return doc["saga_id"].(string)
		}
		reach := func(id, what string, is func(map[string]any) bool) {
			patience.Until(t, what, func() bool { return is(s.Must(t, "GET", "/sagas/"+id, nil)) })
		}
		for _, d := range append(damagedSagas, damagedSaga{name: "whole"}) {
			s.Must(t, "POST", "/workflows", workflowOf(s, d.name, "/503/two"))
			waiting[d.name] = begin(d.name)
			reach(waiting[d.name], "it waits for its next attempt", waitsToRetry)
			ended[d.name] = begin(d.name)
			reach(ended[d.name], "it waits for its next attempt", waitsToRetry)
			s.Must(t, "POST", "/sagas/"+ended[d.name]+"/force-fail", map[string]any{"reason": "test"})
		}
		whole = workflowOf(s, "empty", "/503/two")
	}, func(db *sql.DB) {
		for _, d := range damagedSagas {
			execute(t, db, d.damage, d.name)
		}
	})
	list := s.Must(t, "GET", "/sagas?page_size=200", nil)
	if n := len(list["sagas"].([]any)); n != 2*len(waiting) {
		t.Errorf("%d of %d sagas are listed", n, 2*len(waiting))
	}
	for _, path := range []string{
		"/workflows", "/saga-errors", "/statistics/sagas", "/statistics/series", "/saga-events", "/overview",
		"/timeline?correlation_id=order-1", "/search?q=order-1", "/audit", "/sagas?view=full", "/sagas?needs_attention=true",
	} {
		if status, doc := s.Call(t, "GET", path, nil); status != 200 {
			t.Errorf("%s: %d %v", path, status, doc)
		}
	}
	for _, page := range []string{
		"/ui/", "/ui/sagas", "/ui/sagas/errors", "/ui/workflows", "/ui/timeline?correlation_id=order-1",
		"/ui/sagas/export.csv", "/ui/sagas/export.ndjson",
	} {
		if status, text := s.Get(t, page); status != 200 {
			t.Errorf("%s: %d\n%s", page, status, text)
		}
	}
	for _, d := range damagedSagas {
		t.Run(d.name, func(t *testing.T) {
			for _, id := range []string{waiting[d.name], ended[d.name]} {
				shows(t, s, d, id)
			}
			operates(t, s, d, waiting[d.name])
			status, doc := s.Call(t, "POST", "/admin/erasures", map[string]any{"saga_id": waiting[d.name], "reason": "test"})
			if status != 200 && status != 409 {
				t.Errorf("erasure: %d %v", status, doc)
			}
			page := "/ui/workflows/" + d.name
			if status, text := s.Get(t, page); status/100 == 5 {
				t.Errorf("%s: %d\n%s", page, status, text)
			}
			status, doc = s.Call(t, "POST", "/sagas", map[string]any{"workflow_name": d.name})
			if status/100 == 5 {
				t.Errorf("another saga: %d %v", status, doc)
			}
		})
	}
	shows(t, s, damagedSaga{name: "whole"}, waiting["whole"])
	// The way to repair it: registering the same definition again yields the same version,
	// undamaged.
	doc := s.Must(t, "POST", "/workflows", whole)
	if fmt.Sprint(doc["version"]) != "1" || doc["definition_unreadable"] != nil {
		t.Errorf("registered again: %v", doc)
	}
	s.Must(t, "POST", "/sagas/"+ended["empty"]+"/retry", map[string]any{"reason": "test"})
}

// shows reads a saga in every possible way.
func shows(t *testing.T, s *uitest.Server, d damagedSaga, id string) {
	t.Helper()
	for _, path := range []string{"", "?include=steps&include=running", "?view=basic", "/explain"} {
		status, doc := s.Call(t, "GET", "/sagas/"+id+path, nil)
		brief := path == "?view=basic" // this view leaves out the damaged part
		if status != 200 || d.mark != "" && doc[d.mark] != true && !brief || d.mark == "" &&
			(doc["definition_unreadable"] != nil || doc["content_unreadable"] != nil) {
			t.Errorf("%s: %d %v", path, status, doc)
		}
		actions, _ := doc["actions"].([]any)
		if path == "/explain" && len(actions) == 0 {
			t.Errorf("it explains no action: %v", doc)
		}
		for _, a := range actions { // none of these actions is refused because of the damage
			verb := fmt.Sprint(a.(map[string]any)["action"])
			body := map[string]any{"reason": "test"}
			if name, is := strings.CutSuffix(verb, "-step"); is {
				verb = "steps/two/" + name
			} else if verb == "extend-deadline" {
				body["timeout_ms"] = 3_600_000
			}
			if status, doc := s.Call(t, "POST", "/sagas/"+id+"/"+verb+"?dry_run=true", body); status != 200 {
				t.Errorf("%s, an action of its explanation: %d %v", verb, status, doc)
			}
		}
	}
	for _, path := range []string{"/steps", "/step-logs", "/events", "/result"} {
		if status, doc := s.Call(t, "GET", "/sagas/"+id+path, nil); status != 200 && (path != "/result" || status != 409) {
			t.Errorf("%s: %d %v", path, status, doc)
		}
	}
	for _, tab := range []string{
		"", "?tab=attempts", "?tab=events", "?tab=data", "?tab=related", "?tab=preview", "?tab=json",
	} {
		status, page := s.Get(t, "/ui/sagas/"+id+tab)
		says := strings.Contains(page, "definition unreadable") || strings.Contains(page, "content unreadable")
		if status != 200 || says != (d.mark != "") && d.name != "sealed-answer" {
			t.Errorf("the page, %s: %d\n%s", tab, status, page)
		}
	}
}

// operates tries the actions of an operator.
func operates(t *testing.T, s *uitest.Server, d damagedSaga, id string) {
	t.Helper()
	for _, a := range []struct {
		verb  string
		needs bool // it needs the damaged part
	}{
		{"retry", true}, {"steps/two/skip", true}, {"steps/two/complete", true}, {"steps/two/fail", true},
		{"force-complete", true}, {"suspend", false}, {"resume", false}, {"cancel?dry_run=true", false},
		{"extend-deadline", false}, {"cancel", false},
	} {
		body := map[string]any{"reason": "test"}
		if a.verb == "extend-deadline" {
			body["timeout_ms"] = 3_600_000
		}
		status, doc := s.Call(t, "POST", "/sagas/"+id+"/"+a.verb, body)
		switch {
		case a.needs && (status != 409 || doc["code"] != d.code || doc["allowed_actions"] == nil):
			t.Errorf("%s: %d %v", a.verb, status, doc)
		case !a.needs && status/100 != 2:
			t.Errorf("%s: %d %v", a.verb, status, doc)
		}
	}
	if status, doc := s.Call(t, "PATCH", "/sagas/"+id, map[string]any{"note": "restore it"}); status != 200 {
		t.Errorf("the note: %d %v", status, doc)
	}
	doc := s.Must(t, "GET", "/sagas/"+id, nil)
	if doc["cancel_requested_at"] == nil || doc["completed_at"] != nil {
		t.Errorf("after the cancel: %v", doc)
	}
}
