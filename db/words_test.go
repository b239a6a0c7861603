package db_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Data stored with other words can be read after the migration, and by the previous version after
// the migration is reverted.
func TestStoredChoicesAreSpelledAsTheContractSpellsThem(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	pool := open(t, dsn)
	execute(t, pool, `INSERT INTO jobs.bulks (id, tenant_id, action, state, filter, before, created_at)
		SELECT gen_random_uuid(), gen_random_uuid(), v.action, 'RUNNING', '{}', now(), now() FROM (VALUES ('cancel'), ('rerun')) v (action)`)
	execute(t, pool, `INSERT INTO jobs.backfills (id, tenant_id, definition_id, state, from_at, to_at, reprocess, max_active, created_at)
		SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'RUNNING', now(), now(), v.again, 1, now()
		  FROM (VALUES ('none'), ('failed'), ('completed')) v (again)`)
	execute(t, pool, `INSERT INTO dlq.dlq_redrives (id, tenant_id, action, state, filter, rate, concurrency, key_order, created_at, updated_at)
		SELECT gen_random_uuid(), gen_random_uuid(), v.action, 'PENDING', '{}', 1, 1, v.key_order, now(), now()
		  FROM (VALUES ('retry', 'oldest'), ('discard', 'oldest'), ('resolve', 'oldest'), ('requeue', 'per_key'), ('delete', 'per_key')) v (action, key_order)`)
	const words = `SELECT action FROM jobs.bulks UNION ALL SELECT reprocess FROM jobs.backfills
		UNION ALL SELECT action || ' ' || key_order FROM dlq.dlq_redrives ORDER BY 1`
	is := texts(t, pool, words)
	back := ask[int](t, pool, `SELECT count(*) FROM saga.saga_schema_version WHERE version >= 452`)
	if _, err := db.Down(t.Context(), dsn, back); err != nil {
		t.Fatal(err)
	}
	was := []string{"CANCEL", "COMPLETED", "DELETE PER_KEY", "DISCARD OLDEST", "FAILED", "NONE", "REQUEUE PER_KEY",
		"RERUN", "RESOLVE OLDEST", "RETRY OLDEST"}
	if diff := cmp.Diff(was, texts(t, pool, words)); diff != "" {
		t.Errorf("before 0452 (-want +got):\n%s", diff)
	}
	if _, err := db.Up(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(is, texts(t, pool, words)); diff != "" {
		t.Errorf("with the migrations again (-want +got):\n%s", diff)
	}
}
