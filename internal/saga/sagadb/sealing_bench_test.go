package sagadb_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/secret/envelope"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// BenchmarkEncryption stores and loads batches of 64 sagas of three steps, whose payload, requests
// and responses are half a kilobyte each.
func BenchmarkEncryption(b *testing.B) {
	for name, keys := range map[string]*envelope.Keyring{"off": nil, "on": pgtest.Keyring(b, pgtest.KeyOne)} {
		b.Run(name, func(b *testing.B) {
			db, err := postgres.Open(b.Context(), postgres.Config{DSN: testdb.DSN(b), Encryption: keys})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(db.Close)
			if _, _, err := sagadb.NewWorkflows(db).Register(b.Context(), pgtest.Big, pgtest.Order, false,
				pgtest.Now()); err != nil {
				b.Fatal(err)
			}
			st := sagadb.NewSagas(db)
			body := json.RawMessage(`{"text":"` + strings.Repeat("half a kilobyte ", 32) + `"}`)
			sagas := 0
			for b.Loop() {
				batch := pgtest.SomeSagas(64)
				runs, ids := make([]saga.Instance, len(batch)), make([]uuid.UUID, len(batch))
				for i := range batch {
					batch[i].Key, batch[i].Payload = nil, body
					runs[i], ids[i] = saga.NewInstance(batch[i].Saga, pgtest.Order), batch[i].ID
				}
				if _, err := st.Create(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				for range 3 {
					changes := make([]saga.Change, len(runs))
					for i := range runs {
						changes[i] = pgtest.Applied(runs[i], saga.Answered{Outcome: saga.Outcome{
							Verdict: saga.Done, Code: "http_200", Request: body, Output: body, StartedAt: pgtest.Now(),
							EndedAt: pgtest.Now(),
						}})
						runs[i] = changes[i].After
					}
					if errs, err := st.Commit(b.Context(), changes); err != nil || errs[0] != nil {
						b.Fatal(err, errs)
					}
				}
				if l, err := st.Load(b.Context(), pgtest.RefsOf(ids...)); err != nil || len(l) != len(ids) {
					b.Fatal(len(l), err)
				}
				sagas += len(batch)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(sagas), "µs/saga")
			var bytes int64
			if err := db.SQL().QueryRow(`SELECT pg_total_relation_size('saga.saga_states') + pg_total_relation_size('saga.saga_step_logs')`).Scan(&bytes); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(bytes)/float64(sagas), "bytes/saga")
		})
	}
}
