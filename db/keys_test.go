package db_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// A version that does not know the queues of keys would use a bound key for all queues.
func TestGoingBackRevokesKeysThatAreBoundToQueues(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	pool := open(t, dsn)
	execute(t, pool, `INSERT INTO saga.api_keys (id, name, prefix, hash, role, created_by, bound_tenant_id, queues)
		SELECT gen_random_uuid(), v.name, v.prefix, sha256(''), 'worker', 'x', gen_random_uuid(), v.queues
		  FROM (VALUES ('bound', 'aaaaaaaa', '{a}'::text[]), ('free', 'bbbbbbbb', '{}')) v (name, prefix, queues)`)
	back := ask[int](t, pool, `SELECT count(*) FROM saga.saga_schema_version WHERE version >= 255`)
	if _, err := db.Down(t.Context(), dsn, back); err != nil {
		t.Fatal(err)
	}
	want := []string{"bound revoked by migration 0255", "free active"}
	keys := `SELECT name || CASE WHEN revoked_at IS NULL THEN ' active' ELSE ' revoked by ' || revoked_by END
		FROM saga.api_keys ORDER BY name`
	if diff := cmp.Diff(want, texts(t, pool, keys)); diff != "" {
		t.Errorf("before 0255 (-want +got):\n%s", diff)
	}
	if _, err := db.Up(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, texts(t, pool, keys)); diff != "" {
		t.Errorf("with 0255 again (-want +got):\n%s", diff)
	}
}
