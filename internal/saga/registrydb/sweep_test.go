package registrydb_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/registrydb"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// A saga that begins to compensate waits with another call. Until it parks with that call, its old
// place at the gate is meaningless and is swept. If the saga parks during a sweep, the sweep has
// seen only the old row. It must leave the new row, because otherwise the saga is never let
// through.
func TestASweepLeavesWhatParksMeanwhile(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	ctx, db := t.Context(), pgtest.Connect(t, dsn)
	if _, _, err := sagadb.NewWorkflows(db).Register(ctx, pgtest.Big, pgtest.Order, false, pgtest.Now()); err != nil {
		t.Fatal(err)
	}
	batch := pgtest.SomeSagas(1)
	if _, err := sagadb.NewSagas(db).Create(ctx, batch); err != nil {
		t.Fatal(err)
	}
	look, id := pgtest.Observer(t, dsn), batch[0].ID
	pgtest.Execute(t, look, `UPDATE saga.saga_states SET state = 4, current_step = 0, step_attempt = 0 WHERE id = $1`, id)
	pgtest.Execute(t, look, `
		INSERT INTO saga.parked (tenant_id, saga_id, participant, state, step, attempt, parked_at)
		SELECT tenant_id, id, 'card', 2, 0, 2, now() FROM saga.saga_states WHERE id = $1`, id)

	parks, err := pgtest.Observer(t, dsn).BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer parks.Rollback() //nolint:errcheck // it is committed below
	for _, statement := range []string{
		`UPDATE saga.saga_states SET step_attempt = 1 WHERE id = $1`,
		`UPDATE saga.parked SET state = 4, attempt = 1, parked_at = now() WHERE saga_id = $1`,
	} {
		if _, err := parks.ExecContext(ctx, statement, id); err != nil {
			t.Fatal(err)
		}
	}
	swept := make(chan error, 1)
	go func() { swept <- registrydb.New(db).Sweep(ctx) }()
	patience.Until(t, "the sweep waits for the saga that parks", func() bool {
		return pgtest.Ask[int](t, look, `
			SELECT count(*) FROM pg_stat_activity
			 WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%saga.parked%'`) > 0
	})
	if err := parks.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-swept; err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Ask[int](t, look, `SELECT count(*) FROM saga.parked WHERE saga_id = $1`, id); n != 1 {
		t.Error("the sweep has removed the row of a saga that waits")
	}
	pgtest.Execute(t, look, `UPDATE saga.parked SET attempt = 7`)
	if err := registrydb.New(db).Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Ask[int](t, look, `SELECT count(*) FROM saga.parked WHERE saga_id <> $1`, uuid.Nil); n != 0 {
		t.Error("what waits no longer is not swept")
	}
}
