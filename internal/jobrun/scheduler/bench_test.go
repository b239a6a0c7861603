package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/patience"
)

// BenchmarkDefinitionsDueAtOnce measures the time until the runs of 100,000 definitions that are
// due in the same minute are stored, and until they may be claimed. Run it with -benchtime 1x.
func BenchmarkDefinitionsDueAtOnce(b *testing.B) {
	const n = 100_000
	for _, policy := range []string{"allow", "queue"} {
		b.Run(policy, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				w := newWorld(b)
				w.set[jobrun.AssignAhead] = 1 // runs that are due now are created and admitted now
				w.exec(b, `
INSERT INTO jobs.job_definitions (id, tenant_id, name, type, command_name, spec, last_materialized_at, next_due_at, created_at, updated_at)
SELECT gen_random_uuid(), $1, 'job ' || i, 'time', 'c', jsonb_build_object('type', 'time', 'command_name', 'c', 'concurrency_policy', $3::text,
       'retry', '{}'::jsonb, 'schedule', jsonb_build_object('type', 'hourly_at_minute', 'value', extract(minute from date_trunc('minute', now()))::int::text)),
       now() - interval '4 minutes', date_trunc('minute', now()), now(), now()
  FROM generate_series(1, $2) AS i`, w.tenant, n, policy)
				w.exec(b, `INSERT INTO jobs.job_definition_versions (definition_id, tenant_id, spec_version, spec, created_at)
					SELECT id, tenant_id, 1, spec, now() FROM jobs.job_definitions`)
				w.exec(b, `VACUUM ANALYZE jobs.job_definitions`)
				b.StartTimer()
				began := time.Now()
				leader := start(b, w.config())
				patience.Until(b, "all are made", func() bool {
					time.Sleep(50 * time.Millisecond)
					return w.count(b, `SELECT count(*) FROM jobs.job_definitions WHERE next_due_at <= now()`) == 0
				})
				b.ReportMetric(time.Since(began).Seconds(), "s/made")
				patience.Until(b, "all are admitted", func() bool {
					time.Sleep(50 * time.Millisecond)
					return w.count(b, `SELECT count(*) FROM jobs.job_runs WHERE admitted_at IS NULL`) == 0
				})
				b.ReportMetric(time.Since(began).Seconds(), "s/claimable")
				leader.mu.Lock()
				b.Logf("in sweeps: %v", leader.took)
				leader.mu.Unlock()
				if made := w.count(b, `SELECT count(*) FROM jobs.job_runs`); made != n {
					b.Errorf("%d runs", made)
				}
			}
		})
	}
}

// BenchmarkSweeps measures the cost of a round without work, with 10,000 runs held by workers, and
// 100,000 that wait for a key.
func BenchmarkSweeps(b *testing.B) {
	w := newWorld(b)
	d := w.define(b, jobrun.Spec{Type: jobrun.OnDemand, Concurrency: jobrun.Queue}, time.Now())
	run := func(n, keys int, state, assigned string) {
		w.exec(b, `INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version, command_name, trigger, scheduled_for, available_at,
			idempotency_key, concurrency_key, concurrency_policy, root_run_id, created_at, updated_at, admitted_at, state, attempt, assigned_worker_id, assigned_at,
			lease_token, lease_expires_at, leader_epoch, started_at, timeout_ms)
			SELECT gen_random_uuid(), $1, $2, 'd', 1, 'c', 'MANUAL', now() - interval '1 hour', now() - interval '1 hour', gen_random_uuid(), 'key ' || i % $4, 'queue',
			gen_random_uuid(), now(), now(), `+assigned+`, $5, 1, gen_random_uuid(), now(), gen_random_uuid(), now() + interval '1 hour', 1, now(), 3600000
			FROM generate_series(1, $3) AS i`, w.tenant, d, n, keys, state)
	}
	run(10_000, 10_000, "RUNNING", "now()")
	run(100_000, 1000, "PENDING", "NULL")
	w.exec(b, `VACUUM ANALYZE jobs.job_runs`)
	cfg := w.config()
	set, _ := cfg.Settings(context.Background())
	term, leads, err := cfg.Elections.Acquire(b.Context(), newID(), "bench", time.Hour)
	if err != nil || !leads {
		b.Fatal(leads, err)
	}
	for _, sweep := range []struct {
		name string
		run  func(context.Context, jobrun.Term, jobrun.Settings, int) (jobrun.Swept, error)
	}{
		{"orphan", cfg.Sweeps.Orphan},
		{"doubt", cfg.Sweeps.Doubt},
		{"lose", cfg.Sweeps.Lose},
		{"time_out", cfg.Sweeps.TimeOut},
		{"end_canceled", cfg.Sweeps.EndCanceled},
		{"admit", cfg.Sweeps.Admit},
	} {
		b.Run(sweep.name, func(b *testing.B) {
			for b.Loop() {
				if got, err := sweep.run(b.Context(), term, set, 1000); err != nil || got.Moved != 0 {
					b.Fatal(got, err)
				}
			}
		})
	}
}
