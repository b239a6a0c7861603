package sagadb_test

import (
	"database/sql"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// BenchmarkRowSecurity measures the cost of row-level security by running each operation both as a
// superuser, to whom no policy applies, and as Skald's roles. "plain" is a read by key that names
// no tenant (decision 0022).
func BenchmarkRowSecurity(b *testing.B) {
	for _, mode := range []struct {
		name      string
		unsecured bool
	}{{"superuser", true}, {"roles", false}} {
		dsn := testdb.DSN(b)
		db, err := postgres.Open(b.Context(), postgres.Config{DSN: dsn, Unsecured: mode.unsecured})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(db.Close)
		if _, _, err := sagadb.NewWorkflows(db).Register(b.Context(), pgtest.Big, pgtest.Order, false,
			pgtest.Now()); err != nil {
			b.Fatal(err)
		}
		st := sagadb.NewSagas(db)
		create := func(b *testing.B, n int) []saga.NewSaga {
			batch := pgtest.SomeSagas(n)
			for i := range batch {
				batch[i].Key = nil
			}
			if _, err := st.Create(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			return batch
		}
		for range 100 {
			create(b, 200)
		}
		one := create(b, 1)[0]
		if _,
			err := st.Commit(b.Context(),
			[]saga.Change{pgtest.Applied(saga.NewInstance(one.Saga, pgtest.Order), pgtest.Done())}); err != nil {
			b.Fatal(err)
		}
		super, err := sql.Open("postgres", dsn)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := super.Exec(`ANALYZE`); err != nil {
			b.Fatal(err)
		}
		super.Close()
		check := func(b *testing.B, err error) {
			if err != nil {
				b.Fatal(err)
			}
		}
		b.Run("get/"+mode.name, func(b *testing.B) {
			for b.Loop() {
				_, err := st.Get(b.Context(), pgtest.Big, one.ID)
				check(b, err)
			}
		})
		b.Run("logs/"+mode.name, func(b *testing.B) {
			for b.Loop() {
				_, err := st.StepLogs(b.Context(), pgtest.Big, one.ID, saga.Logs{})
				check(b, err)
			}
		})
		b.Run("list/"+mode.name, func(b *testing.B) {
			for b.Loop() {
				_, err := st.List(b.Context(), pgtest.Big, saga.Filter{ByTime: page.ByTime{Limit: 50}})
				check(b, err)
			}
		})
		b.Run("create64/"+mode.name, func(b *testing.B) {
			for b.Loop() {
				create(b, 64)
			}
		})
		b.Run("commit64/"+mode.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				changes := make([]saga.Change, 64)
				for i, s := range create(b, 64) {
					changes[i] = pgtest.Applied(saga.NewInstance(s.Saga, pgtest.Order), pgtest.Done())
				}
				b.StartTimer()
				errs, err := st.Commit(b.Context(), changes)
				check(b, err)
				check(b, errs[0])
			}
		})
		if !mode.unsecured {
			continue
		}
		b.Run("get/plain", func(b *testing.B) {
			q, err := db.SQL().PrepareContext(b.Context(), `SELECT `+sagadb.SagaColumns+` FROM saga.saga_states s WHERE s.id = $1 AND s.tenant_id = $2`)
			check(b, err)
			for b.Loop() {
				check(b, drain(q, one.ID, pgtest.Big))
			}
		})
		b.Run("logs/plain", func(b *testing.B) {
			q, err := db.SQL().PrepareContext(b.Context(), `SELECT `+sagadb.LogColumns+` FROM saga.saga_step_logs l
				WHERE l.saga_id = $1 AND EXISTS (SELECT 1 FROM saga.saga_states s WHERE s.id = $1 AND s.tenant_id = $2) ORDER BY l.step_index, l.started_at, l.attempt`)
			check(b, err)
			for b.Loop() {
				check(b, drain(q, one.ID, pgtest.Big))
			}
		})
	}
}

func drain(q *sql.Stmt, id, tenant uuid.UUID) error {
	rows, err := q.Query(id, tenant)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}
