package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// manyRuns is how many runs the plans are made for: nine in ten have SUCCEEDED, and
// a fifth is another tenant's.
const manyRuns = 60_000

func manyMixedRuns(t *testing.T, j jobs) (rare uuid.UUID) {
	t.Helper()
	rare = newID()
	j.create(t, j.run(j.job)) // a row to copy from, in form
	execute(t, j.db.SQL(), fmt.Sprintf(`
		INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version, command_name, version, state, trigger, scheduled_for, available_at,
		       queue, labels, idempotency_key, concurrency_key, concurrency_policy, attempt, assigned_worker_id, assigned_at, lease_token, lease_expires_at, leader_epoch, started_at,
		       finished_at, error_code, root_run_id, retry_number, saga_id, backfill_id, correlation_id, created_at, updated_at)
		SELECT gen_random_uuid(), CASE WHEN n %% 5 = 0 THEN 'c0000000-0000-4000-8000-000000000000'::uuid ELSE $1::uuid END, md5((n %% 50)::text)::uuid, 'job', 1, 'x', 3,
		       s.state, CASE WHEN n %% 3 = 0 THEN 'MANUAL' ELSE 'EVENT' END, at, at, CASE WHEN n %% 2000 = 1 THEN 'rare' ELSE 'default' END,
		       CASE WHEN n %% 5000 = 1 THEN '{few=1}'::text[] WHEN n %% 4 = 0 THEN '{team=red}' ELSE '{}' END, 'k' || n,
		       CASE WHEN n %% 500 = 7 THEN 'key' || n END, 'allow', 1, md5((n %% 200)::text)::uuid, at, gen_random_uuid(), at, 1,
		       at + CASE WHEN n %% 3000 = 2 THEN interval '1 hour' ELSE interval '1 second' END,
		       CASE WHEN s.state IN ('PENDING', 'ASSIGNED', 'RUNNING', 'ORPHANED') THEN NULL ELSE at + interval '2 seconds' END,
		       CASE WHEN s.state = 'FAILED' THEN 'E' || n %% 100 END,
		       CASE WHEN n %% 9000 = 4 THEN $2::uuid ELSE gen_random_uuid() END, CASE WHEN n %% 9000 = 4 THEN 1 ELSE 0 END, CASE WHEN n %% 1000 = 3 THEN md5('saga' || n)::uuid END,
		       CASE WHEN n %% 1000 < 5 THEN md5('backfill')::uuid END, CASE WHEN n %% 10 = 0 THEN 'c' || n END, at, at
		  FROM generate_series(1, %d) AS n,
		  LATERAL (SELECT now() - n * interval '1 minute' AS at, CASE WHEN n %% 1000 = 11 THEN 'PENDING' WHEN n %% 1000 = 12 THEN 'RUNNING' WHEN n %% 1000 = 13 THEN 'ORPHANED'
		           WHEN n %% 20 = 9 THEN 'FAILED' WHEN n %% 300 = 19 THEN 'CANCELED' ELSE 'SUCCEEDED' END AS state) AS s`, manyRuns), j.tenant, rare)
	execute(t, observer(t, j.dsn), `VACUUM (ANALYZE) jobs.job_runs`)
	return rare
}

// TestListsOfManyRunsUseIndexes shows that each filter of runs is served by an
// index.
func TestListsOfManyRunsUseIndexes(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	rare := manyMixedRuns(t, j)
	lists := inTenant(t, j.db, j.tenant)
	const inOrder, states = "idx_job_runs_created_at", "idx_job_runs_state"
	id := func(of string) uuid.UUID {
		return uuid.MustParse(ask[string](t, j.db.SQL(), `SELECT md5('`+of+`')::uuid::text`))
	}
	now := time.Now()
	for name, tt := range map[string]struct {
		jobrun.Filter
		indexes []string
	}{
		"all":                 {jobrun.Filter{}, []string{inOrder}},
		"what fails":          {jobrun.Filter{States: []jobrun.State{jobrun.Failed}}, []string{states + "|" + inOrder}},
		"what waits":          {jobrun.Filter{States: []jobrun.State{jobrun.Pending}}, []string{states + "|idx_job_runs_waiting"}},
		"what has not ended":  {jobrun.Filter{States: jobrun.ActiveStates}, []string{states + "|" + inOrder}},
		"trigger":             {jobrun.Filter{Triggers: []jobrun.Trigger{jobrun.ByHand}}, []string{inOrder}},
		"queue":               {jobrun.Filter{Queue: "rare"}, []string{"idx_job_runs_queue"}},
		"the default queue":   {jobrun.Filter{Queue: "default"}, []string{inOrder}},
		"definition":          {jobrun.Filter{DefinitionID: id("7")}, []string{"idx_job_runs_definition"}},
		"worker":              {jobrun.Filter{WorkerID: id("3")}, []string{"idx_job_runs_worker", "idx_job_runs_assigned_worker_id"}},
		"few labels":          {jobrun.Filter{Label: "few=1"}, []string{"idx_job_runs_labels"}},
		"many labels":         {jobrun.Filter{Label: "team=red"}, []string{"idx_job_runs_labels|" + inOrder}},
		"correlation id":      {jobrun.Filter{CorrelationID: "c100"}, []string{"idx_job_runs_correlation_id"}},
		"saga":                {jobrun.Filter{SagaID: id("saga1003")}, []string{"idx_job_runs_saga_id"}},
		"root":                {jobrun.Filter{RootRunID: rare}, []string{"idx_job_runs_root", "job_runs_pkey"}},
		"backfill":            {jobrun.Filter{BackfillID: id("backfill")}, []string{"idx_job_runs_backfill_id|" + inOrder}},
		"error code":          {jobrun.Filter{ErrorCode: "E9"}, []string{"idx_job_runs_error_code"}},
		"slots":               {jobrun.Filter{ScheduledFrom: now.Add(-time.Hour), ScheduledTo: now}, []string{states}},
		"slots and state":     {jobrun.Filter{ScheduledFrom: now.Add(-time.Hour), States: []jobrun.State{jobrun.Failed}}, []string{states}},
		"created":             {jobrun.Filter{CreatedFrom: now.Add(-2 * time.Hour), CreatedTo: now.Add(-time.Hour)}, []string{inOrder}},
		"finished":            {jobrun.Filter{FinishedFrom: now.Add(-2 * time.Hour), FinishedTo: now.Add(-time.Hour)}, []string{"idx_job_runs_finished_at"}},
		"late":                {jobrun.Filter{LateByMS: 20 * time.Minute.Milliseconds()}, []string{"idx_job_runs_late", states}},
		"who has a key":       {jobrun.Filter{ConcurrencyKey: "key507", States: []jobrun.State{jobrun.Assigned, jobrun.Running, jobrun.Orphaned}}, []string{"idx_job_runs_concurrency_key"}},
		"late of a worker":    {jobrun.Filter{LateByMS: 20 * time.Minute.Milliseconds(), WorkerID: id("3")}, []string{"idx_job_runs_worker|idx_job_runs_late"}},
		"several at once":     {jobrun.Filter{DefinitionID: id("7"), States: []jobrun.State{jobrun.Failed}, CreatedFrom: now.Add(-100 * time.Hour)}, []string{"idx_job_runs_definition|" + inOrder}},
		"error of definition": {jobrun.Filter{DefinitionID: id("9"), ErrorCode: "E9"}, []string{"idx_job_runs_error_code|idx_job_runs_definition"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			for _, p := range []jobrun.Paging{{Limit: 50}, {Limit: 50, After: &jobrun.Cursor{At: now.Add(-5 * time.Hour), ID: rare}}} {
				query, args := postgres.PageOfRuns(j.tenant, tt.Filter, p)
				wantIndexes(t, explain(t, lists, query, args...), tt.indexes...)
			}
			query, args := postgres.CountOfRuns(j.tenant, tt.Filter, 10_000)
			wantIndexes(t, explain(t, lists, query, args...), tt.indexes...)
		})
	}
	t.Run("what became of slots", func(t *testing.T) {
		wantIndexes(t, explain(t, lists, postgres.SlotStates, j.tenant, id("7"), `{2026-01-01T00:00:00Z,2026-01-01T01:00:00Z}`),
			"idx_job_runs_definition_scheduled_for", "idx_job_runs_backfilled", "idx_job_runs_root")
	})
}
