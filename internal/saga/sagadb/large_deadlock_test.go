package sagadb_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestLargeTable(t *testing.T) {
	t.Parallel()
	l := openLarge(t)
	t.Run("every purpose of the seeds' indexes has one", func(t *testing.T) { testPlans(t, l) })
	t.Run("retention and the archive are served by indexes", func(t *testing.T) { testArchivePlans(t, l) })
	t.Run("counting that takes too long is given up", func(t *testing.T) { testCounts(t, l) })
	t.Run("opposite batches of two nodes do not deadlock", func(t *testing.T) { testOppositeBatches(t, l) })
	t.Run("the seeds' own queries are served by the extra indexes", func(t *testing.T) { testExtras(t, l) })
}

// testOppositeBatches makes two nodes commit the same sagas in opposite order. A deadlock may be
// resolved by running the statement again, so the test reads the server's deadlock counter.
func testOppositeBatches(t *testing.T, l large) {
	const rounds = 200
	dsn := pgtest.With(t, l.dsn, "deadlock_timeout", "10ms")
	a, b := pgtest.Connect(t, dsn), pgtest.Connect(t, dsn)
	watch := pgtest.Observer(t, l.dsn)
	var ids, tenants []uuid.UUID
	if err := watch.QueryRowContext(t.Context(), `SELECT array_agg(id ORDER BY md5(id::text)), array_agg(tenant_id ORDER BY md5(id::text)) FROM (
		SELECT id, tenant_id FROM saga.saga_states WHERE completed_at IS NULL AND state = 1 AND lease_owner = 1 LIMIT 60) AS mine`).Scan(pq.Array(&ids), pq.Array(&tenants)); err != nil {
		t.Fatal(err)
	}
	refs := make([]saga.Ref, len(ids))
	for i, id := range ids {
		refs[i] = saga.Ref{Tenant: tenants[i], ID: id}
	}
	loaded, err := sagadb.NewSagas(a).Load(t.Context(), refs)
	if err != nil || len(loaded) != len(ids) || len(ids) < 50 {
		t.Fatalf("loaded %d of %d sagas, %v", len(loaded), len(ids), err)
	}
	for range rounds {
		batch := make([]saga.Change, len(loaded))
		for i := range loaded {
			s := &loaded[i].Saga
			batch[i] = saga.Change{Before: saga.Precondition{Version: s.Version, Epoch: s.LeaseEpoch},
				After: saga.Instance{Saga: *s}}
			batch[i].After.Version++
			batch[i].After.UpdatedAt = pgtest.Now()
		}
		opposite := slices.Clone(batch)
		slices.Reverse(opposite)
		var wg sync.WaitGroup
		for db, batch := range map[*postgres.DB][]saga.Change{a: batch, b: opposite} {
			wg.Go(func() {
				if _, err := sagadb.NewSagas(db).Commit(t.Context(), batch); err != nil {
					t.Errorf("commit: %v", err)
				}
			})
		}
		wg.Wait()
		for i := range loaded { // each saga was written by one of the two
			loaded[i].Saga.Version++
		}
	}
	if l, err := sagadb.NewSagas(a).Load(t.Context(), refs[:1]); err != nil || l[0].Saga.Version < rounds {
		t.Errorf("the sagas were not written: %+v, %v", l, err)
	}
	a.Close()
	b.Close()
	l.db.Close()
	pgtest.Quiet(t, watch)
	if n := pgtest.Ask[int](t, watch, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n > 0 {
		t.Errorf("%d deadlocks in %d rounds", n, rounds)
	}
}
