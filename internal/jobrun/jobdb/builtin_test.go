package jobdb_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/postgres"
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

// looseTables lets a test store rows that the database otherwise refuses.
const looseTables = `
DO $$
DECLARE
    t regclass;
    c record;
BEGIN
    FOREACH t IN ARRAY ARRAY['saga.saga_states', 'saga.saga_step_logs', 'jobs.job_runs', 'dlq.dlq_messages']::regclass[] LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER ALL', t);
        FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = t AND contype IN ('c', 'f', 'u') LOOP
            EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I CASCADE', t, c.conname);
        END LOOP;
        FOR c IN SELECT indexrelid::regclass AS name FROM pg_index WHERE indrelid = t AND indisunique AND NOT indisprimary LOOP
            EXECUTE format('DROP INDEX %s', c.name);
        END LOOP;
        FOR c IN SELECT attname FROM pg_attribute a WHERE attrelid = t AND attnum > 0 AND attnotnull AND NOT attisdropped AND attidentity = ''
             AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = t AND i.indisprimary AND a.attnum = ANY (i.indkey)) LOOP
            EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', t, c.attname);
        END LOOP;
    END LOOP;
END;
$$`

// Each check must be able to fail, so the test creates a violation of each while bypassing the
// rules.
func TestProofsFindViolations(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	raw := pgtest.RawTables(t, j.Dsn)
	pgtest.Execute(t, raw, looseTables)
	broken := func() (names []string) {
		t.Helper()
		proofs, err := j.Prove(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range proofs {
			if p.Broken > 0 {
				names = append(names, p.Name)
				if p.Broken != 1 || len(p.Samples) != 1 {
					t.Errorf("%s: %d places, %v", p.Name, p.Broken, p.Samples)
				}
			}
		}
		return names
	}
	if names := broken(); names != nil {
		t.Fatalf("broken from the start: %v", names)
	}
	var want []string
	for i, name := range jobdb.Invariants {
		plant, known := violations[name]
		if !known {
			t.Fatalf("nothing violates %q", name)
		}
		pgtest.Execute(t, raw, plant)
		want = append(want, name)
		if diff := cmp.Diff(want, broken()); diff != "" {
			t.Fatalf("after violation %d, broken (-want +got):\n%s", i+1, diff)
		}
	}
	var names []string
	rows, err := j.DB.SQL().QueryContext(t.Context(), `SELECT DISTINCT invariant FROM jobs.invariants ORDER BY invariant`)
	if err == nil {
		err = postgres.EachRow(rows, func() error {
			var name string
			err := rows.Scan(&name)
			names = append(names, name)
			return err
		})
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, names); err != nil || diff != "" {
		t.Errorf("the view names (-want +got), %v:\n%s", err, diff)
	}
}

// violations create one violation of each invariant, and of no other.
var violations = map[string]string{
	"I1 every unfinished saga is owned or due": `
		INSERT INTO saga.saga_states (id, tenant_id, state) VALUES (gen_random_uuid(), gen_random_uuid(), 1)`,
	"I5 a saga is as its state says": `
		INSERT INTO saga.saga_states (id, tenant_id, state, next_run_at) VALUES (gen_random_uuid(), gen_random_uuid(), 3, now())`,
	"J1 a slot has one run": `
		INSERT INTO jobs.job_runs (id, tenant_id, definition_id, state, trigger, scheduled_for)
		SELECT gen_random_uuid(), t, t, 'PENDING', 'TIME', '2026-01-01' FROM gen_random_uuid() t, generate_series(1, 2)`,
	"J2 one run of a concurrency key is with a worker": `
		INSERT INTO jobs.job_runs (id, tenant_id, state, concurrency_key, lease_token, assigned_worker_id, leader_epoch, attempt)
		SELECT gen_random_uuid(), t, 'RUNNING', 'k', t, t, 1, 1 FROM gen_random_uuid() t, generate_series(1, 2)`,
	"J3 what is with a worker has a fence": `
		INSERT INTO jobs.job_runs (id, tenant_id, state, lease_token, assigned_worker_id, leader_epoch, attempt)
		SELECT t, t, 'RUNNING', t, t, 1, 0 FROM gen_random_uuid() t`,
	"J4 no epoch is ahead of the leader's": `
		INSERT INTO jobs.job_runs (id, tenant_id, state, lease_token, assigned_worker_id, leader_epoch, attempt)
		SELECT t, t, 'RUNNING', t, t, 99, 1 FROM gen_random_uuid() t`,
	"J6 what has ended stays so": `
		INSERT INTO jobs.job_runs (id, tenant_id, state, finished_at) VALUES (gen_random_uuid(), gen_random_uuid(), 'PENDING', now())`,
	"J7 a failure with budget left has its retry once": `
		INSERT INTO jobs.job_runs (id, tenant_id, state, trigger, retry_of_run_id)
		SELECT gen_random_uuid(), t, 'PENDING', 'RETRY', t FROM gen_random_uuid() t, generate_series(1, 2)`,
	"a saga whose run has ended does not wait for it": `
		WITH i AS MATERIALIZED (SELECT gen_random_uuid() AS id),
		     r AS (INSERT INTO jobs.job_runs (id, tenant_id, state, finished_at) SELECT id, id, 'SUCCEEDED', now() - interval '1 hour' FROM i),
		     l AS (INSERT INTO saga.saga_step_logs (id, saga_id, tenant_id, outcome_code) SELECT id, id, id, 'job_run' FROM i)
		INSERT INTO saga.saga_states (id, tenant_id, state, next_run_at) SELECT id, id, 1, now() + interval '1 hour' FROM i`,
	"a letter that is retried by a run waits for it": `
		INSERT INTO dlq.dlq_messages (id, tenant_id, source, status, resolution, terminal_at)
		VALUES (gen_random_uuid(), gen_random_uuid(), 'JOB', 'RESOLVED', 'CONFIRMED', now())`,
}
