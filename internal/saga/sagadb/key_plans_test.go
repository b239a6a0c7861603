package sagadb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestThePrimaryKeyIsTheCheapestPathToASaga shows that in a young table, for which PostgreSQL has
// no statistics yet, only the primary key is chosen to find a saga by id and tenant. A plan made at
// that time is kept. If it used an index for lists, it would read all of a tenant's sagas for each
// change.
func TestThePrimaryKeyIsTheCheapestPathToASaga(t *testing.T) {
	t.Parallel()
	db := pgtest.Observer(t, testdb.DSN(t))
	pgtest.Execute(t, db, `ALTER TABLE saga.saga_states SET (autovacuum_enabled = off)`)
	const byKey = `SELECT 1 FROM ONLY saga.saga_states x WHERE id = '0197e2a0-0000-7000-8000-000000000001' AND tenant_id = '00000000-0000-0000-0000-000000000001' FOR KEY SHARE OF x`
	for range 10 {
		pgtest.Execute(t, db, `INSERT INTO saga.saga_states (tenant_id, workflow_name, workflow_version, saga_type, total_steps)
			SELECT '00000000-0000-0000-0000-000000000001', 'order', 1, 'ORDER', 3 FROM generate_series(1, 60)`)
		for _, random := range []string{"4", "1.1"} {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, set := range []string{"enable_seqscan = off", "random_page_cost = " + random} {
				if _, err = tx.ExecContext(t.Context(), "SET LOCAL "+set); err != nil {
					t.Fatal(err)
				}
			}
			key := pgtest.Explain(t, tx, byKey)
			if _, err = tx.ExecContext(t.Context(), `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'saga.saga_states_pkey'::regclass`); err != nil {
				t.Fatal(err)
			}
			next := pgtest.Explain(t, tx, byKey)
			if err = tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if got := key.Plans[0].Index; got != "saga_states_pkey" || next.Cost < 1.1*key.Cost {
				t.Errorf("at %s a random page: by %s for %.2f, and by %s for %.2f when there is no key",
					random, got, key.Cost, next.Plans[0].Index, next.Cost)
			}
		}
	}
}
