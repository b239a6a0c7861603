package db_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// What was stored with other words is read after the migration, and by the version before it once it is reverted.
func TestStoredChoicesAreSpelledAsTheContractSpellsThem(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	pool := open(t, dsn)
	execute(t, pool, `INSERT INTO jobs.bulks (id, tenant_id, action, state, filter, before, created_at)
		SELECT gen_random_uuid(), gen_random_uuid(), v.action, 'RUNNING', '{}', now(), now() FROM (VALUES ('cancel'), ('rerun')) v (action)`)
	const words = `SELECT action FROM jobs.bulks ORDER BY 1`
	is := texts(t, pool, words)
	back := ask[int](t, pool, `SELECT count(*) FROM saga.saga_schema_version WHERE version >= 452`)
	if _, err := db.Down(t.Context(), dsn, back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"CANCEL", "RERUN"}, texts(t, pool, words)); diff != "" {
		t.Errorf("before 0452 (-want +got):\n%s", diff)
	}
	if _, err := db.Up(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(is, texts(t, pool, words)); diff != "" {
		t.Errorf("with it again (-want +got):\n%s", diff)
	}
}
