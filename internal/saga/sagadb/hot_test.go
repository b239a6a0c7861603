package sagadb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// A transition that updates an index costs half as much again (PERFORMANCE 1e). Here sagas complete
// normally, and only their last change may update an index. All versions of the rows fit on one
// page. Whether dead versions are removed in time depends on other transactions, and is not tested
// here.
func TestOnlyTheLastChangeOfASagaTouchesItsIndexes(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db := pgtest.Connect(t, dsn)
	pgtest.Registered(t, db)
	st := sagadb.NewSagas(db)
	batch := pgtest.SomeSagas(4)
	results, err := st.Create(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	runs := make([]saga.Instance, len(results))
	for i, r := range results {
		if r.Created != saga.Stored {
			t.Fatalf("result %d, want stored", r.Created)
		}
		runs[i] = saga.NewInstance(r.Saga, pgtest.Order)
	}
	for range pgtest.Order.Steps {
		changes := make([]saga.Change, len(runs))
		for i := range runs {
			changes[i] = pgtest.Applied(runs[i], pgtest.Done())
			runs[i] = changes[i].After
		}
		pgtest.Commit(t, st, changes)
	}
	if runs[0].State != saga.Completed {
		t.Fatalf("the sagas are %s", runs[0].State)
	}
	db.Close()
	watch := pgtest.Observer(t, dsn)
	pgtest.Quiet(t, watch)
	var updated, hot int
	if err := watch.QueryRowContext(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
		WHERE schemaname = 'saga' AND relname = 'saga_states'`).Scan(&updated, &hot); err != nil {
		t.Fatal(err)
	}
	if want := len(runs) * len(pgtest.Order.Steps); updated != want || hot != want-len(runs) {
		t.Errorf("%d updates, %d of them HOT; want %d and %d", updated, hot, want, want-len(runs))
	}
}
