package sagadb_test

import (
	"database/sql"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// BenchmarkCommit writes batches of 64 changes that each update their row and insert one
// event: batches of ordinary changes, and batches with one change by an operator.
func BenchmarkCommit(b *testing.B) {
	for _, byHand := range []bool{false, true} {
		name := map[bool]string{false: "ordinary", true: "operated"}[byHand]
		b.Run(name, func(b *testing.B) {
			db, err := postgres.Open(b.Context(), postgres.Config{DSN: testdb.DSN(b)})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(db.Close)
			store := sagadb.NewSagas(db)
			changes := pgtest.SomeChanges(64)
			for i := range changes {
				c := &changes[i]
				c.Logs = nil
				id := c.After.ID
				pgtest.Execute(b, db.SQL(), `INSERT INTO saga.saga_states (id, tenant_id, workflow_name, workflow_version, saga_type, total_steps, version, lease_epoch)
					VALUES ($1, $2, 'w', 1, 'w', 3, $3, $4)`, id, uuid.New(), c.Before.Version, c.Before.Epoch)
			}
			b.ResetTimer()
			for b.Loop() {
				for i := range changes {
					if byHand && i == 0 {
						changes[i].Operated = &saga.Operated{DeadlineInMS: new(int64(1000))}
					}
					changes[i].After.Version = changes[i].Before.Version + 1
				}
				errs, err := store.Commit(b.Context(), changes)
				if err != nil || errs[0] != nil {
					b.Fatal(err, errs)
				}
				for i := range changes {
					changes[i].Before.Version++
				}
			}
		})
	}
}

// BenchmarkCommitKinds writes batches of six changes, as 16 waiting clients produce them, with one
// log each and their events: only ordinary changes, only undone steps, or some changes of another
// kind among ordinary ones. It reports the CPU time of PostgreSQL per batch.
func BenchmarkCommitKinds(b *testing.B) {
	refused := func(run saga.Instance) saga.Change { return pgtest.Applied(run, pgtest.Refusal("no")) }
	done := func(run saga.Instance) saga.Change { return pgtest.Applied(run, pgtest.Done()) }
	for name, kind := range map[string]func(i int, run saga.Instance) saga.Change{
		"onward": func(_ int, run saga.Instance) saga.Change { return done(run) },
		"onward, its request stored": func(_ int, run saga.Instance) saga.Change {
			c := pgtest.Applied(run, pgtest.Sent(run, pgtest.Done()))
			c.Logs[0].Parts = nil
			return c
		},
		"onward, its request made when read": func(_ int, run saga.Instance) saga.Change {
			return pgtest.Applied(run, pgtest.Sent(run, pgtest.Done()))
		},
		"a third refused": func(i int, run saga.Instance) saga.Change {
			if i%3 == 0 {
				return refused(done(run).After)
			}
			return done(run)
		},
		"undone": func(_ int, run saga.Instance) saga.Change { return done(refused(done(done(run).After).After).After) },
		"one with a key": func(i int, run saga.Instance) saga.Change {
			c := done(run)
			if i == 0 {
				c.Key = &idempotency.Key{TenantID: pgtest.Big, Principal: "p", Route: "r", Hash: []byte("h")}
			}
			return c
		},
		"one that completes a log": func(i int, run saga.Instance) saga.Change {
			c := done(run)
			c.Logs[0].Completes = i == 0
			return c
		},
	} {
		b.Run(name, func(b *testing.B) {
			db, err := postgres.Open(b.Context(), postgres.Config{DSN: testdb.DSN(b)})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(db.Close)
			store := sagadb.NewSagas(db)
			var changes []saga.Change
			for i, s := range pgtest.SomeSagas(6) {
				changes = append(changes, kind(i, saga.NewInstance(s.Saga, pgtest.Order)))
				c := &changes[i]
				pgtest.Execute(b, db.SQL(), `INSERT INTO saga.saga_states (id, tenant_id, workflow_name, workflow_version, saga_type, total_steps, version, lease_epoch)
					VALUES ($1, $2, 'w', 1, 'w', 3, $3, $4)`, c.After.ID, c.After.Tenant.ID, c.Before.Version, c.Before.Epoch)
			}
			n := 0
			commit := func() {
				n++
				for i := range changes {
					c := &changes[i]
					c.After.Version = c.Before.Version + 1
					c.Logs[0].ID, c.Logs[0].Attempt = pgtest.NewID(), n
					if c.Key != nil {
						c.Key.Key = pgtest.NewID().String()
					}
				}
				errs, err := store.Commit(b.Context(), changes)
				if err != nil || errs[0] != nil {
					b.Fatal(err, errs)
				}
				for i := range changes {
					changes[i].Before.Version++
				}
			}
			for range 20 {
				commit()
			}
			before := backendsCPU(b, db.SQL())
			b.ResetTimer()
			for b.Loop() {
				commit()
			}
			b.ReportMetric(float64(backendsCPU(b, db.SQL())-before)/1000/float64(b.N), "pg-µs/op")
		})
	}
}

// backendsCPU returns the CPU time in nanoseconds that the sessions of the database have used.
func backendsCPU(b *testing.B, db *sql.DB) (total int64) {
	b.Helper()
	for _, pid := range texts(b, db, `SELECT pid::text FROM pg_stat_activity WHERE datname = current_database()`) {
		raw, err := os.ReadFile("/proc/" + pid + "/schedstat")
		if err != nil {
			b.Fatal(err)
		}
		n, err := strconv.ParseInt(strings.Fields(string(raw))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		total += n
	}
	return total
}
