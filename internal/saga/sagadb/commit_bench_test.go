package sagadb_test

import (
	"testing"

	"github.com/google/uuid"

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
