package jobdb_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// fillRuns stores n runs of a tenant that may be claimed and n runs that have ended, with rows like
// those that Create writes.
const fillRuns = `
INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version, command_name, trigger, scheduled_for, available_at, admitted_at,
       idempotency_key, root_run_id, created_at, updated_at, args, state, finished_at)
SELECT i.id, $1, $2, 'report', 1, 'report', 'MANUAL', i.at, i.at, i.at, 'manual:' || i.id, i.id, i.at, i.at, '{"n": 1}', $4::text, CASE WHEN $4::text = 'PENDING' THEN NULL ELSE i.at END
  FROM (SELECT gen_random_uuid() AS id, now() - n * interval '1 millisecond' AS at FROM generate_series($3::integer, 1, -1) AS n) AS i`

// BenchmarkRuns takes runs through their life in batches, as a worker with many concurrent requests
// does, and one by one. It reports the cost of each statement per run: the CPU time of the server's
// processes, which does not depend on the load of the machine.
func BenchmarkRuns(b *testing.B) {
	for _, batch := range []int{100, 1} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) { benchmarkRuns(b, batch) })
	}
}

func benchmarkRuns(b *testing.B, batch int) {
	db, err := postgres.Open(b.Context(), postgres.Config{DSN: testdb.DSN(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(db.Close)
	st := jobdb.NewJobs(jobdb.NewDB(db, pgtest.JobChance, nil), pgtest.Defaults)
	tenant, definition, w := pgtest.NewID(), pgtest.NewID(), pgtest.NewID()
	pgtest.Execute(b, db.SQL(), `INSERT INTO jobs.leader (name, leader_id, node, epoch, acquired_at, expires_at) VALUES ('default', gen_random_uuid(), 'n', 1, now(), now() + interval '1 hour')`)
	pgtest.Execute(b, db.SQL(), fillRuns, tenant, definition, 100_000, "SUCCEEDED")
	pgtest.Execute(b, db.SQL(), fillRuns, tenant, definition, b.N*batch+batch, "PENDING")
	pgtest.Execute(b, db.SQL(), `VACUUM ANALYZE jobs.job_runs`)
	if err := st.Register(b.Context(), jobrun.WorkerProcess{ID: w, TenantID: tenant, Name: "w",
		Queues: []string{"default"}, MaxRuns: 1000}); err != nil {
		b.Fatal(err)
	}
	spent := serverTime(b, db)
	var claim, start, finish time.Duration
	b.ResetTimer()
	for range b.N {
		if _, _, err := st.Heartbeat(b.Context(), tenant, w, 0, 0, nil); err != nil {
			b.Fatal(err)
		}
		t0 := spent()
		offers, err := st.Claim(b.Context(), jobrun.ClaimRequest{TenantID: tenant, WorkerID: w, Slots: batch,
			Queues: []string{"default"}})
		if err != nil || len(offers) != batch {
			b.Fatal(len(offers), err)
		}
		t1 := spent()
		fences, results := make([]jobrun.RunFence, batch), make([]jobrun.Result, batch)
		for i, o := range offers {
			fences[i] = jobrun.RunFence{RunID: o.ID, Fence: o.Fence()}
			results[i] = jobrun.Result{TenantID: tenant, RunID: o.ID, Fence: o.Fence(), Value: json.RawMessage(`{"ok":true}`)}
		}
		check(b, fences)(st.Start(b.Context(), tenant, fences))
		t2 := spent()
		check(b, fences)(st.Finish(b.Context(), results))
		claim, start, finish = claim+t1-t0, start+t2-t1, finish+spent()-t2
	}
	b.StopTimer()
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N*batch) }
	b.ReportMetric(each(claim), "µs/claim")
	b.ReportMetric(each(start), "µs/start")
	b.ReportMetric(each(finish), "µs/finish")
	b.ReportMetric(each(claim+start+finish), "µs/run")
}

// check fails unless every call of a batch succeeded.
func check(b *testing.B, fences []jobrun.RunFence) func([]jobrun.Done, error) {
	return func(done []jobrun.Done, err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		for i := range fences {
			if done[i].Err != nil || done[i].Replayed || done[i].Run.ID == uuid.Nil {
				b.Fatalf("%+v", done[i])
			}
		}
	}
}

// serverTime returns a function that returns the CPU time of the processes behind the writers'
// connections.
func serverTime(b *testing.B, db *postgres.DB) func() time.Duration {
	b.Helper()
	rows, err := db.SQL().QueryContext(b.Context(), `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE '% writer'`)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	var files []string
	for rows.Next() {
		var pid int
		if err := rows.Scan(&pid); err != nil {
			b.Fatal(err)
		}
		files = append(files, fmt.Sprintf("/proc/%d/schedstat", pid))
	}
	if err := rows.Err(); err != nil || len(files) == 0 {
		b.Fatal(err, files)
	}
	return func() (all time.Duration) {
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				b.Skip(err)
			}
			var ns int64
			if _, err := fmt.Sscan(string(text), &ns); err != nil {
				b.Fatal(err)
			}
			all += time.Duration(ns)
		}
		return all
	}
}
