package db_test

import (
	"testing"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// After restoring a `pg_dump -n saga`, the schema skald does not exist.
func TestASchemaRestoredAloneIsRecognised(t *testing.T) {
	dsn := testdb.DSN(t)
	pool := open(t, dsn)
	before := texts(t, pool, `SELECT id FROM skald.schema_migrations ORDER BY id`)
	execute(t, pool, `DROP SCHEMA skald CASCADE`)
	if err := db.Check(t.Context(), pool); err == nil {
		t.Error("Check knows what was applied, without a record of it")
	}
	if n, err := db.Up(t.Context(), dsn); err != nil || n != 0 {
		t.Errorf("Up = %d, %v; want nothing to do", n, err)
	}
	if err := db.Check(t.Context(), pool); err != nil {
		t.Errorf("Check: %v", err)
	}
	after := texts(t, pool, `SELECT id FROM skald.schema_migrations ORDER BY id`)
	if len(before) == 0 || len(after) != len(before) {
		t.Errorf("recorded %v, want %v", after, before)
	}
	// A dump by an older Skald lacks the newest migrations.
	if _, err := db.Down(t.Context(), dsn, 1); err != nil {
		t.Fatal(err)
	}
	execute(t, pool, `DROP SCHEMA skald CASCADE`)
	if n, err := db.Up(t.Context(), dsn); err != nil || n != 1 {
		t.Errorf("Up = %d, %v; want the one that was taken back", n, err)
	}
	if n, err := db.Down(t.Context(), dsn, 0); err != nil || n != len(before) {
		t.Errorf("Down = %d, %v; want all %d", n, err, len(before))
	}
}
