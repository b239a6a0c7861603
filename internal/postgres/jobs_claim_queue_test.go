package postgres_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
)

var ofDefault = func(a *jobrun.ClaimRequest) { a.Queues = []string{jobrun.DefaultQueue} }

func TestClaimsOfOneQueueAreAnsweredTogether(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	a, b, full := j.worker(t), j.worker(t), j.worker(t, func(w *jobrun.WorkerProcess) { w.MaxRuns = 1 })
	elsewhere := j.worker(t, func(w *jobrun.WorkerProcess) { w.Queues = []string{"slow"} })
	detached := j.worker(t)
	execute(t, j.db.SQL(), `UPDATE jobs.workers SET state = 'DETACHED', detached_at = now() WHERE id = $1`, detached)
	for range 6 {
		j.create(t, j.run(j.job))
	}
	asks := []jobrun.ClaimRequest{
		{WorkerID: a, Slots: 2, ClaimID: "first"}, {WorkerID: b, Slots: 1}, {WorkerID: full, Slots: 5}, {WorkerID: elsewhere, Slots: 1}, {WorkerID: detached, Slots: 1},
	}
	got := j.claimEach(t, asks...)
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
			if d := j.start(t, o.Run); d[0].Err != nil {
				t.Error(d[0].Err)
			}
		}
	}
	again := j.claimEach(t, asks...)
	if len(again[0]) != 0 || len(again[1]) != 1 || len(again[2]) != 0 {
		t.Errorf("the second time %d, %d and %d runs", len(again[0]), len(again[1]), len(again[2]))
	}
	kept := ids(j.claim(t, a, ofDefault, func(c *jobrun.ClaimRequest) { c.ClaimID = "first" }))
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
	j := newJobs(t)
	gpu := j.define(t, func(d *jobrun.Definition) { d.Spec.Requires = map[string]string{"gpu": "yes"} })
	able, plain := j.worker(t, func(w *jobrun.WorkerProcess) { w.Labels = []string{"gpu=yes"} }), j.worker(t)
	r := j.create(t, j.run(gpu))[0]
	if got := j.claimEach(t, jobrun.ClaimRequest{WorkerID: plain, Slots: 1}); len(got[0]) != 0 {
		t.Errorf("a worker without the label got %v", ids(got[0]))
	}
	for _, order := range [][2]uuid.UUID{{plain, able}, {able, plain}} {
		got := j.claimEach(t, jobrun.ClaimRequest{WorkerID: order[0], Slots: 1}, jobrun.ClaimRequest{WorkerID: order[1], Slots: 1})
		for i, offers := range got {
			if order[i] == plain && len(offers) != 0 {
				t.Errorf("a worker without the label got %v", ids(offers))
			}
		}
	}
	// Together it has got it, if it was the first of them; alone it does.
	left := ids(j.claim(t, able, ofDefault))
	if n := j.count(t, `SELECT count(*) FROM jobs.job_runs WHERE id = $1 AND state = 'ASSIGNED' AND assigned_worker_id = $2`, r.ID, able); n != 1 {
		t.Errorf("alone it got %v, and the run is not its own", left)
	}
}

func TestOfAKeyOneRunIsGivenToAllWhoAskTogether(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	keyed := j.define(t, func(d *jobrun.Definition) { d.Spec.ConcurrencyKey, d.Spec.Concurrency = "k", jobrun.Queue })
	for range 3 {
		j.create(t, j.run(keyed))
	}
	execute(t, j.db.SQL(), `UPDATE jobs.job_runs SET admitted_at = now()`) // as if the leader had
	a, b := j.worker(t), j.worker(t)
	for n, want := range []int{1, 0} {
		got := j.claimEach(t, jobrun.ClaimRequest{WorkerID: a, Slots: 3}, jobrun.ClaimRequest{WorkerID: b, Slots: 3})
		if len(got[0])+len(got[1]) != want {
			t.Errorf("claim %d: %d and %d runs of one key, want %d", n, len(got[0]), len(got[1]), want)
		}
	}
	if got := j.claim(t, b, ofDefault); len(got) != 0 {
		t.Errorf("another one of the key: %v", ids(got))
	}
}
