package bulkdb_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/bulk/bulkdb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestALeaderWhoseTermIsOverMovesNoBackfillsAndBulks(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	m := bulkdb.NewRunBulks(j.Base, j.Jobs)
	term := j.Term(t)
	b := j.Backfilled(t, m, 5, 5)
	waits := j.CreateAll(t, j.NewRun(j.Job))[0]
	many := jobrun.Bulk{
		Head: bulk.Head{ID: pgtest.NewID(), TenantID: j.Tenant, Version: 1, State: bulk.Running,
			CreatedAt: pgtest.Now()},
		Action: jobrun.BulkCancel,
		Before: pgtest.Now().Add(time.Minute),
		Filter: jobrun.Filter{States: jobrun.ActiveStates, DefinitionID: j.Job.ID},
	}
	if _, _, err := m.CreateBulk(t.Context(), many,
		operator.By{}.Did(pgtest.NewID(), j.Tenant, pgtest.Now(), operator.JobBulk, many.ID.String(), "create",
			nil)); err != nil {
		t.Fatal(err)
	}
	j.Lead(t, 2)
	if _, err := m.Backfill(t.Context(), term, jobrun.Settings{}, 100); !fault.IsCode(err, jobrun.CodeNoLeader) {
		t.Errorf("backfill: %v", err)
	}
	if _, err := m.Bulk(t.Context(), term, jobrun.Settings{}, 100); !fault.IsCode(err, jobrun.CodeNoLeader) {
		t.Errorf("bulk: %v", err)
	}
	if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE backfill_id = $1`, b.ID); n != 0 {
		t.Errorf("%d runs were made", n)
	}
	if r := j.GetRun(t, waits.ID); r.State != jobrun.Pending {
		t.Errorf("a run is %s", r.State)
	}
	term.Epoch = 2
	for range 2 { // the second time, nothing is left to do
		if _, err := m.Bulk(t.Context(), term, jobrun.Settings{}, 100); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := m.GetBulk(t.Context(), j.Tenant, many.ID); err != nil || got.State != bulk.Completed ||
		got.Done != 1 || got.Matched != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := m.GetBulk(t.Context(), pgtest.NewID(), many.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another tenant reads a bulk: %v", err)
	}
	if _, _, err := m.GetBackfill(t.Context(), pgtest.NewID(), b.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another tenant reads a backfill: %v", err)
	}
}

func TestWhoWaitsForARunIsToldThatABulkHasCanceledIt(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	var told []uuid.UUID
	j.Base.OnOver(func(_, run uuid.UUID) { told = append(told, run) })
	m := bulkdb.NewRunBulks(j.Base, j.Jobs)
	runs := j.CreateAll(t, j.NewRun(j.Job), j.NewRun(j.Job))
	j.StartRuns(t, j.ClaimRuns(t, j.NewWorker(t), func(c *jobrun.ClaimRequest) { c.Slots = 1 })[0].Run)
	many := jobrun.Bulk{
		Head: bulk.Head{ID: pgtest.NewID(), TenantID: j.Tenant, Version: 1, State: bulk.Running,
			CreatedAt: pgtest.Now()},
		Action: jobrun.BulkCancel,
		Before: pgtest.Now().Add(time.Minute),
		Filter: jobrun.Filter{States: jobrun.ActiveStates},
	}
	if _, _, err := m.CreateBulk(t.Context(), many, operator.By{}.Did(pgtest.NewID(), j.Tenant, pgtest.Now(),
		operator.JobBulk, many.ID.String(), "create", nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Bulk(t.Context(), j.Term(t), jobrun.Settings{}, 100); err != nil {
		t.Fatal(err)
	}
	var ended []uuid.UUID
	for i := range runs {
		if j.GetRun(t, runs[i].ID).State == jobrun.Canceled {
			ended = append(ended, runs[i].ID)
		}
	}
	if len(ended) != 1 || !slices.Equal(told, ended) {
		t.Errorf("told of %v, want %v: the other one is with a worker, which is asked to stop", told, ended)
	}
}

func TestABackfillContinuedByManyCreatesEachRunOnce(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	m := bulkdb.NewRunBulks(j.Base, j.Jobs)
	term := j.Term(t)
	b := j.Backfilled(t, m, 30, 7)
	for round := 0; ; round++ {
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				if _, err := m.Backfill(t.Context(), term, jobrun.Settings{}, 3); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE state = 'PENDING'`); n > 7 {
			t.Fatalf("%d runs at once, want 7 at most", n)
		}
		// This simulates that all of them were skipped.
		pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET state = 'SKIPPED', version = version + 1, finished_at = now() WHERE state = 'PENDING'`)
		got, _, err := m.GetBackfill(t.Context(), j.Tenant, b.ID)
		if err != nil || round > 50 {
			t.Fatal(round, err)
		}
		if got.State == bulk.Completed {
			if got.Created != 30 || got.Skipped != 0 {
				t.Errorf("%+v", got)
			}
			break
		}
	}
	if n := j.Count(t, `SELECT count(DISTINCT scheduled_for) FROM jobs.job_runs WHERE backfill_id = $1`, b.ID); n != 30 {
		t.Errorf("%d slots, want 30", n)
	}
}

func TestSlotsOfManyRunsAreFoundByIndexes(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	pgtest.ManyMixedRuns(t, j)
	definition := pgtest.Ask[string](t, j.DB.SQL(), `SELECT md5('7')::uuid::text`)
	p := pgtest.Explain(t, pgtest.InTenant(t, j.DB, j.Tenant), bulkdb.SlotStates, j.Tenant, definition, `{2026-01-01T00:00:00Z,2026-01-01T01:00:00Z}`)
	pgtest.WantIndexes(t, p, "idx_job_runs_definition_scheduled_for", "idx_job_runs_backfilled", "idx_job_runs_root")
}
