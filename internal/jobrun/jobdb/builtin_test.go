package jobdb_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestRetentionDeletesWhatHasExpiredAndNothingElse(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	raw := pgtest.RawTables(t, j.Dsn)
	const long, short = "400 days", "1 hour"
	for _, age := range []string{long, short} {
		pgtest.Execute(t, raw, `INSERT INTO jobs.events (id, tenant_id, event_type, occurred_at, created_at, processed_at)
			VALUES (gen_random_uuid(), $1, 'order.paid', now(), now() - $2::interval, now() - $2::interval)`, j.Tenant, age)
		pgtest.Execute(t, raw, `INSERT INTO jobs.event_deliveries (event_id, definition_id, tenant_id) SELECT id, $1, tenant_id FROM jobs.events ON CONFLICT DO NOTHING`, j.Job.ID)
		pgtest.Execute(t, raw, `INSERT INTO jobs.claims (worker_id, claim_id, tenant_id, run_ids, created_at) VALUES (gen_random_uuid(), 'c', $1, '{}', now() - $2::interval)`, j.Tenant, age)
		pgtest.Execute(t, raw, `INSERT INTO jobs.fences (tenant_id, key, epoch, seq, checked_at) VALUES ($1, $2::text, 1, 1, now() - $2::text::interval)`, j.Tenant, age)
		gone := putWorker(t, raw, j.Tenant, jobrun.WorkerDetached, 500*24*time.Hour)
		pgtest.Execute(t, raw, `UPDATE jobs.workers SET detached_at = now() - $2::interval WHERE id = $1`, gone, age)
	}
	putWorker(t, raw, j.Tenant, jobrun.WorkerActive, 500*24*time.Hour)
	pgtest.Execute(t, raw, `INSERT INTO jobs.events (id, tenant_id, event_type, occurred_at, created_at)
		VALUES (gen_random_uuid(), $1, 'order.paid', now(), now() - interval '400 days')`, j.Tenant) // not processed yet

	for _, want := range []jobdb.Expired{{Events: 1, Claims: 1, Fences: 1, Workers: 1}, {}} {
		ctx, tally := operator.Tallied(t.Context())
		got, err := j.Retain(ctx)
		if err != nil {
			t.Fatal(err)
		}
		told := tally.Actions(operator.By{}, "jobs", pgtest.Now(), pgtest.NewID)
		if n := len(told); n != int(got.Events) || n == 1 && (told[0].TenantID != j.Tenant || string(told[0].Detail) != `{"fences_deleted":1,"job_events_deleted":1,"workers_deleted":1}`) {
			t.Errorf("the round tells %+v", told)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("deleted (-want +got):\n%s", diff)
		}
	}
	left := map[string]int{}
	for table, want := range map[string]int{"events": 2, "event_deliveries": 1, "claims": 1, "fences": 1, "workers": 2} {
		var n int
		if err := raw.QueryRowContext(t.Context(), `SELECT count(*) FROM jobs.`+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if left[table] = n; n != want {
			t.Errorf("%d rows of jobs.%s are left, want %d", n, table, want)
		}
	}
}

// Each check must be able to fail: a violation is created behind the rules' back.
func TestProofsFindViolations(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	raw := pgtest.RawTables(t, j.Dsn)
	broken := func() (names []string) {
		t.Helper()
		proofs, err := j.Prove(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range proofs {
			if p.Broken > 0 {
				names = append(names, p.Name)
			}
		}
		return names
	}
	if names := broken(); names != nil {
		t.Fatalf("broken from the start: %v", names)
	}
	first := j.CreateAll(t, j.NewRun(j.Job))[0]
	pgtest.Execute(t, raw, `ALTER TABLE jobs.job_runs DISABLE TRIGGER ALL`)
	pgtest.Execute(t, raw, `ALTER TABLE jobs.job_runs DROP CONSTRAINT chk_job_runs_finished`)
	pgtest.Execute(t, raw, `UPDATE jobs.job_runs SET state = 'RUNNING', finished_at = now(), leader_epoch = 99, assigned_worker_id = gen_random_uuid(), assigned_at = now(),
		lease_token = gen_random_uuid(), lease_expires_at = now(), started_at = now() WHERE id = $1`, first.ID)
	want := []string{
		"J3 what is with a worker has a fence", // its attempt is 0
		"J4 no epoch is ahead of the leader's",
		"J6 what has ended stays so",
	}
	if diff := cmp.Diff(want, broken()); diff != "" {
		t.Errorf("broken (-want +got):\n%s", diff)
	}
}
