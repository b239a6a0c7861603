package sagadb_test

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// A node whose lease has ended may still write until another node claims its sagas. If such a write
// is committed after a claim has begun but before the claim locks the row, the claim sees the new
// row but not the RUNNING log written with it, which would then stay RUNNING forever.
func TestAClaimSkipsSagasThatChangedSinceItsSnapshot(t *testing.T) {
	dsn := testdb.DSN(t)
	ctx, db := t.Context(), pgtest.Connect(t, dsn)
	sagas := sagadb.NewSagas(db)
	if _, _, err := sagadb.NewWorkflows(db).Register(ctx, pgtest.Big, pgtest.Order, false, pgtest.Now()); err != nil {
		t.Fatal(err)
	}
	owner := func(node string) int64 {
		id, err := sagas.Register(ctx, node, "", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	dead, heir := owner("dead"), owner("heir")
	batch := pgtest.SomeSagas(1)
	batch[0].LeaseOwner = &dead
	if r, err := sagas.Create(ctx, batch); err != nil || r[0].Created != saga.Stored {
		t.Fatalf("create: %v, %v", r, err)
	}
	if err := sagas.Resign(ctx, dead); err != nil {
		t.Fatal(err)
	}

	// The claim reads engine_nodes first. It is blocked there after it has taken its snapshot.
	gate, err := pgtest.Observer(t, dsn).Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	for _, statement := range []string{
		`ALTER TABLE saga.engine_nodes RENAME TO nodes`,
		`CREATE VIEW saga.engine_nodes AS SELECT * FROM saga.nodes WHERE pg_advisory_xact_lock_shared(1) IS NOT NULL`,
		`GRANT ALL ON saga.engine_nodes TO saga_engine_role`,
		`SELECT pg_advisory_lock(1)`,
	} {
		if _, err := gate.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	claim := func() int {
		claimed, err := sagas.Claim(ctx, heir, 10)
		if err != nil {
			t.Error(err)
		}
		return len(claimed)
	}
	claimed := make(chan int)
	go func() { claimed <- claim() }()
	for waiting := 0; waiting == 0; {
		err := db.SQL().QueryRowContext(ctx, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
	}
	slow := pgtest.Applied(saga.NewInstance(batch[0].Saga, pgtest.Order), saga.Slow{StartedAt: pgtest.Now()})
	if r, err := sagas.Commit(ctx, []saga.Change{slow}); err != nil || r[0] != nil {
		t.Fatalf("commit: %v, %v", r, err)
	}
	if _, err := gate.ExecContext(ctx, `SELECT pg_advisory_unlock(1)`); err != nil {
		t.Fatal(err)
	}

	if n := <-claimed; n != 0 {
		t.Errorf("the claim took %d sagas that changed after it had begun, want none", n)
	}
	if n := claim(); n != 1 {
		t.Errorf("the next claim took %d sagas, want 1", n)
	}
	logs, err := sagas.StepLogs(ctx, pgtest.Big, batch[0].ID, saga.Logs{})
	if err != nil || len(logs) != 1 || logs[0].Status != saga.LogFailed {
		t.Errorf("step logs: %+v, %v; want the call of the dead owner as FAILED", logs, err)
	}
}
