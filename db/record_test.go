package db_test

import (
	"fmt"
	"testing"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Changes of the schema are recorded: by whom, with which login, and from and to which version.
// There is one action per run, and none for a run without migrations.
func TestMigrationsAreOnRecord(t *testing.T) {
	t.Parallel()
	dsn := testdb.Empty(t)
	pool := open(t, dsn)
	n, err := db.Up(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Up(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	const applied = `SELECT max(id) FROM skald.schema_migrations`
	last, login := ask[string](t, pool, applied), ask[string](t, pool, `SELECT session_user::text`)
	by := db.As(t.Context(), db.By{Actor: "cli", Address: "ann@host", Operation: "skald migrate down"})
	if _, err := db.Down(by, dsn, 2); err != nil {
		t.Fatal(err)
	}
	before := ask[string](t, pool, applied)
	want := []string{
		fmt.Sprintf(`up %s system:migrate   {"to": %q, "from": "", "login": %q, "migrations": %d} done`, last, last, login, n),
		fmt.Sprintf(`down %s cli ann@host skald migrate down {"to": %q, "from": %q, "login": %q, "migrations": 2} done`, before, before, last, login),
	}
	got := texts(t, pool, `SELECT concat_ws(' ', verb, subject, actor, address, operation, detail, result) FROM saga.audit_actions
		WHERE tenant_id = '00000000-0000-0000-0000-000000000000' AND kind = 'schema' ORDER BY txid, n`)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("on record:\n%q\nwant\n%q", got, want)
	}
	// Before the table exists, nothing is recorded, which is not an error.
	back := ask[int](t, pool, `SELECT count(*) FROM skald.schema_migrations WHERE id >= '0153'`)
	if _, err := db.Down(t.Context(), dsn, back); err != nil {
		t.Errorf("down to where no record is: %v", err)
	}
	if _, err := db.Up(t.Context(), dsn); err != nil {
		t.Errorf("and up again: %v", err)
	}
	if n := ask[int](t, pool, `SELECT count(*) FROM saga.audit_actions WHERE kind = 'schema' AND verb = 'up' AND subject = $1 AND detail->>'from' < '0153'`, last); n != 2 {
		t.Errorf("%d rows of the ways up to %s, want 2", n, last)
	}
}
