package sagadb_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// BenchmarkClaim claims and releases 64 sagas of a tenant that has exactly 64, both alone and with
// another tenant's backlog of a hundred thousand sagas in the table.
func BenchmarkClaim(b *testing.B) {
	for _, backlog := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("beside %d", backlog), func(b *testing.B) {
			db, err := postgres.Open(b.Context(), postgres.Config{DSN: testdb.DSN(b)})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(db.Close)
			store := sagadb.NewSagas(db)
			few := uuid.New()
			for tenant, n := range map[uuid.UUID]int{uuid.New(): backlog, few: 64} {
				pgtest.Execute(b, db.SQL(), `INSERT INTO saga.saga_states (id, tenant_id, workflow_name, workflow_version, saga_type, total_steps, next_run_at)
					SELECT gen_random_uuid(), $1, 'w', 1, 'w', 3, now() - i * interval '1 ms' FROM generate_series(1, $2) AS i`, tenant, n)
			}
			pgtest.Execute(b, db.SQL(), `ANALYZE saga.saga_states`)
			owner, err := store.Register(b.Context(), "node", "", time.Hour)
			if err != nil {
				b.Fatal(err)
			}
			claims := 0
			b.ResetTimer()
			for b.Loop() {
				for got := 0; got < 64; claims++ {
					loaded, err := store.Claim(b.Context(), owner, 64)
					if err != nil || len(loaded) == 0 {
						b.Fatal(len(loaded), err)
					}
					for i := range loaded {
						if loaded[i].Saga.Tenant.ID == few {
							got++
						}
					}
				}
				b.StopTimer()
				pgtest.Execute(b, db.SQL(), `UPDATE saga.saga_states SET lease_owner = NULL, next_run_at = now() WHERE tenant_id = $1`, few)
				b.StartTimer()
			}
			b.ReportMetric(float64(claims)/float64(b.N), "claims/op")
		})
	}
}
