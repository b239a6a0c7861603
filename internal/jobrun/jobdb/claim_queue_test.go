package jobdb_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

var ofDefault = func(a *jobrun.ClaimRequest) { a.Queues = []string{jobrun.DefaultQueue} }

func TestClaimsOfOneQueueAreAnsweredTogether(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	a, b, full := j.NewWorker(t), j.NewWorker(t), j.NewWorker(t, func(w *jobrun.WorkerProcess) { w.MaxRuns = 1 })
	elsewhere := j.NewWorker(t, func(w *jobrun.WorkerProcess) { w.Queues = []string{"slow"} })
	detached := j.NewWorker(t)
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.workers SET state = 'DETACHED', detached_at = now() WHERE id = $1`, detached)
	for range 6 {
		j.CreateAll(t, j.NewRun(j.Job))
	}
	asks := []jobrun.ClaimRequest{
		{WorkerID: a, Slots: 2, ClaimID: "first"}, {WorkerID: b, Slots: 1}, {WorkerID: full, Slots: 5}, {WorkerID: elsewhere, Slots: 1}, {WorkerID: detached, Slots: 1},
	}
	got := j.ClaimAtOnce(t, asks...)
	seen := map[uuid.UUID]bool{}
	for i, want := range []int{2, 1, 1, 0, 0} {
		if len(got[i]) != want {
			t.Errorf("worker %d got %d runs, want %d", i, len(got[i]), want)
		}
		for _, o := range got[i] {
			if seen[o.ID] || o.WorkerID != asks[i].WorkerID || o.State != jobrun.Assigned || o.LeaseToken == uuid.Nil {
				t.Errorf("worker %d got %+v", i, o.Run)
			}
			seen[o.ID] = true
			if d := j.StartRuns(t, o.Run); d[0].Err != nil {
				t.Error(d[0].Err)
			}
		}
	}
	again := j.ClaimAtOnce(t, asks...)
	if len(again[0]) != 0 || len(again[1]) != 1 || len(again[2]) != 0 {
		t.Errorf("the second time %d, %d and %d runs", len(again[0]), len(again[1]), len(again[2]))
	}
	kept := ids(j.ClaimRuns(t, a, ofDefault, func(c *jobrun.ClaimRequest) { c.ClaimID = "first" }))
	slices.SortFunc(kept, compareUUIDs)
	first := ids(got[0])
	slices.SortFunc(first, compareUUIDs)
	if !slices.Equal(kept, first) {
		t.Errorf("the same claim got %v, and before %v", kept, first)
	}
}

func compareUUIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

func TestWorkersThatDifferAreNotGivenEachOthersRuns(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	gpu := j.Define(t, func(d *jobrun.Definition) { d.Spec.Requires = map[string]string{"gpu": "yes"} })
	able, plain := j.NewWorker(t, func(w *jobrun.WorkerProcess) { w.Labels = []string{"gpu=yes"} }), j.NewWorker(t)
	r := j.CreateAll(t, j.NewRun(gpu))[0]
	if got := j.ClaimAtOnce(t, jobrun.ClaimRequest{WorkerID: plain, Slots: 1}); len(got[0]) != 0 {
		t.Errorf("a worker without the label got %v", ids(got[0]))
	}
	for _, order := range [][2]uuid.UUID{{plain, able}, {able, plain}} {
		got := j.ClaimAtOnce(t, jobrun.ClaimRequest{WorkerID: order[0], Slots: 1},
			jobrun.ClaimRequest{WorkerID: order[1], Slots: 1})
		for i, offers := range got {
			if order[i] == plain && len(offers) != 0 {
				t.Errorf("a worker without the label got %v", ids(offers))
			}
		}
	}
	// In the batch, the worker gets the run if it came first. In a claim of its own, it gets the
	// run in any case.
	left := ids(j.ClaimRuns(t, able, ofDefault))
	if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE id = $1 AND state = 'ASSIGNED' AND assigned_worker_id = $2`, r.ID, able); n != 1 {
		t.Errorf("alone it got %v, and the run is not its own", left)
	}
}

func TestOnlyOneRunOfAKeyIsGivenToABatchOfClaims(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	keyed := j.Define(t, func(d *jobrun.Definition) { d.Spec.ConcurrencyKey, d.Spec.Concurrency = "k", jobrun.Queue })
	for range 3 {
		j.CreateAll(t, j.NewRun(keyed))
	}
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET admitted_at = now()`) // as the leader would
	a, b := j.NewWorker(t), j.NewWorker(t)
	for n, want := range []int{1, 0} {
		got := j.ClaimAtOnce(t, jobrun.ClaimRequest{WorkerID: a, Slots: 3}, jobrun.ClaimRequest{WorkerID: b, Slots: 3})
		if len(got[0])+len(got[1]) != want {
			t.Errorf("claim %d: %d and %d runs of one key, want %d", n, len(got[0]), len(got[1]), want)
		}
	}
	if got := j.ClaimRuns(t, b, ofDefault); len(got) != 0 {
		t.Errorf("another one of the key: %v", ids(got))
	}
}
