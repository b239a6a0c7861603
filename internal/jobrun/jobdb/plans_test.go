package jobdb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// TestPlansOfManyRuns fills one database, which takes longer than all of the checks. The extra
// indexes are created last, so that no other plan uses them.
func TestPlansOfManyRuns(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	rare := pgtest.ManyMixedRuns(t, j)
	t.Run("indexes of open runs hold no others", func(t *testing.T) { testOpenIndexes(t, j) })
	t.Run("lists use indexes", func(t *testing.T) { testListPlans(t, j, rare) })
	t.Run("the calendar reads slots by their index", func(t *testing.T) { testCalendarPlans(t, j) })
	t.Run("recent ends are read by the index of definitions", func(t *testing.T) { testRecentEndPlans(t, j) })
	t.Run("runs that follow are found by indexes", func(t *testing.T) { testFollowPlans(t, j) })
	t.Run("seed 5's queries are served by the extra indexes", func(t *testing.T) { testExtraPlans(t, j) })
}

// testOpenIndexes checks that the indexes that claims, admissions and sweeps search do not grow
// with the runs that have ended.
func testOpenIndexes(t *testing.T, j pgtest.Jobs) {
	t.Helper()
	for _, name := range []string{"claimable", "waiting", "concurrency_key", "concurrency_waiting", "assigned_worker_id"} {
		where := pgtest.Ask[string](t, j.DB.SQL(), `SELECT coalesce(pg_get_expr(indpred, indrelid), 'true')
			FROM pg_index WHERE indexrelid = ('jobs.idx_job_runs_' || $1)::regclass`, name)
		if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE finished_at IS NOT NULL AND (`+where+`)`); n > 0 {
			t.Errorf("the index %s holds %d runs that have ended", name, n)
		}
	}
}

// testListPlans checks that each filter of runs is served by an index.
func testListPlans(t *testing.T, j pgtest.Jobs, rare uuid.UUID) {
	t.Helper()
	lists := pgtest.InTenant(t, j.DB, j.Tenant)
	const inOrder, states = "idx_job_runs_created_at", "idx_job_runs_state"
	id := func(of string) uuid.UUID {
		return uuid.MustParse(pgtest.Ask[string](t, j.DB.SQL(), `SELECT md5('`+of+`')::uuid::text`))
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
		"correlation prefix":  {jobrun.Filter{CorrelationPrefix: "c10", Sort: jobrun.ByCorrelation, Ascending: true}, []string{"idx_job_runs_correlation_id"}},
		"by correlation, all": {jobrun.Filter{Sort: jobrun.ByCorrelation, AfterKey: "c77"}, []string{"idx_job_runs_correlation_id"}},
		"saga":                {jobrun.Filter{SagaID: id("saga1003")}, []string{"idx_job_runs_saga_id"}},
		"root":                {jobrun.Filter{RootRunID: rare}, []string{"idx_job_runs_root", "job_runs_pkey"}},
		"backfill":            {jobrun.Filter{BackfillID: id("backfill")}, []string{"idx_job_runs_backfill_id|" + inOrder}},
		"error code":          {jobrun.Filter{ErrorCode: "E9"}, []string{"idx_job_runs_error_code"}},
		"slots":               {jobrun.Filter{ScheduledFrom: now.Add(-time.Hour), ScheduledTo: now}, []string{states}},
		"slots and state":     {jobrun.Filter{ScheduledFrom: now.Add(-time.Hour), States: []jobrun.State{jobrun.Failed}}, []string{states}},
		"created":             {jobrun.Filter{CreatedFrom: now.Add(-2 * time.Hour), CreatedTo: now.Add(-time.Hour)}, []string{inOrder}},
		"finished":            {jobrun.Filter{FinishedFrom: now.Add(-2 * time.Hour), FinishedTo: now.Add(-time.Hour)}, []string{"idx_job_runs_finished_at"}},
		"by slot":             {jobrun.Filter{Sort: jobrun.BySlot}, []string{states}},
		"by slot, the first":  {jobrun.Filter{Sort: jobrun.BySlot, Ascending: true}, []string{states}},
		"failed by slot":      {jobrun.Filter{Sort: jobrun.BySlot, States: []jobrun.State{jobrun.Failed}}, []string{states}},
		"by end":              {jobrun.Filter{Sort: jobrun.ByEnd}, []string{"idx_job_runs_finished_at"}},
		"by end, the first":   {jobrun.Filter{Sort: jobrun.ByEnd, Ascending: true}, []string{"idx_job_runs_finished_at"}},
		"late":                {jobrun.Filter{LateByMS: 20 * time.Minute.Milliseconds()}, []string{"idx_job_runs_late", states}},
		"who has a key":       {jobrun.Filter{ConcurrencyKey: "key507", States: []jobrun.State{jobrun.Assigned, jobrun.Running, jobrun.Orphaned}}, []string{"idx_job_runs_concurrency_key"}},
		"late of a worker":    {jobrun.Filter{LateByMS: 20 * time.Minute.Milliseconds(), WorkerID: id("3")}, []string{"idx_job_runs_worker|idx_job_runs_late"}},
		"several at once":     {jobrun.Filter{DefinitionID: id("7"), States: []jobrun.State{jobrun.Failed}, CreatedFrom: now.Add(-100 * time.Hour)}, []string{"idx_job_runs_definition|" + inOrder}},
		"error of definition": {jobrun.Filter{DefinitionID: id("9"), ErrorCode: "E9"}, []string{"idx_job_runs_error_code|idx_job_runs_definition"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			for _, p := range []page.ByTime{{Limit: 50},
				{Limit: 50, After: &page.TimeID{At: now.Add(-5 * time.Hour), ID: rare}}} {
				query, args := jobdb.PageOfRuns(j.Tenant, tt.Filter, p)
				pgtest.WantIndexes(t, pgtest.Explain(t, lists, query, args...), tt.indexes...)
			}
			query, args := jobdb.CountOfRuns(j.Tenant, tt.Filter, 10_000)
			pgtest.WantIndexes(t, pgtest.Explain(t, lists, query, args...), tt.indexes...)
		})
	}
}

// testCalendarPlans checks that the slots of each definition are read by the index of slots.
func testCalendarPlans(t *testing.T, j pgtest.Jobs) {
	t.Helper()
	lists := pgtest.InTenant(t, j.DB, j.Tenant)
	ids := pgtest.Ask[string](t, j.DB.SQL(), `SELECT array_agg(DISTINCT definition_id)::text FROM jobs.job_runs WHERE definition_id IS NOT NULL`)
	now := time.Now()
	for _, days := range []int{1, 7, 62} {
		plan := pgtest.Explain(t, lists, jobdb.SlotsOf, j.Tenant, ids, now.AddDate(0, 0, -days), now, 701)
		pgtest.WantIndexes(t, plan, "idx_job_runs_definition_scheduled_for", "idx_job_run_events_run_id")
	}
}

// J-27, J-28: the queries of seed 5, in its own words and over all tenants, are used only by
// people. `skald migrate extras` creates the indexes for them.
func testExtraPlans(t *testing.T, j pgtest.Jobs) {
	t.Helper()
	if _, err := db.MakeExtras(t.Context(), j.Dsn); err != nil {
		t.Fatal(err)
	}
	people := pgtest.Observer(t, j.Dsn)
	pgtest.Execute(t, people, `ANALYZE jobs.job_runs`)
	pgtest.Execute(t, people, `SET ROLE `+db.ReadonlyRole)
	worker := pgtest.Ask[string](t, people, `SELECT md5('3')::uuid::text`)
	for query, index := range map[string]string{
		`SELECT * FROM jobs.job_runs WHERE state = 'PENDING' ORDER BY scheduled_for LIMIT 50`:                          "idx_job_runs_state_all",
		`SELECT * FROM jobs.job_runs WHERE assigned_worker_id = '` + worker + `' AND state IN ('ASSIGNED', 'RUNNING')`: "idx_job_runs_assigned_worker_id_all",
		`SELECT * FROM jobs.job_runs WHERE assigned_worker_id = '` + worker + `' AND state = 'FAILED'`:                 "idx_job_runs_assigned_worker_id_all",
	} {
		pgtest.WantIndexes(t, pgtest.Explain(t, people, query), index)
	}
}

// testRecentEndPlans checks that the index of definitions serves the query for the last runs of
// each definition.
func testRecentEndPlans(t *testing.T, j pgtest.Jobs) {
	t.Helper()
	lists := pgtest.InTenant(t, j.DB, j.Tenant)
	for _, some := range []string{"LIMIT 1", "LIMIT 20", ""} {
		ids := pgtest.Ask[string](t, j.DB.SQL(), `SELECT array_agg(id)::text FROM (SELECT DISTINCT definition_id AS id FROM jobs.job_runs
			WHERE definition_id IS NOT NULL `+some+`) AS d`)
		pgtest.WantIndexes(t, pgtest.Explain(t, lists, jobdb.RecentEnds, j.Tenant, ids, 20), "idx_job_runs_definition")
	}
}
