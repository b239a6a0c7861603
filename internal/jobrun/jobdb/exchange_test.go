package jobdb_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// exchange returns an exchange of a worker that uses the default queue.
func exchange(j pgtest.Jobs, w uuid.UUID, slots int, results ...jobrun.Result) jobrun.Exchange {
	return jobrun.Exchange{Results: results, Claim: jobrun.ClaimRequest{
		TenantID: j.Tenant, WorkerID: w, Slots: slots, Queues: []string{jobrun.DefaultQueue}, Start: true}}
}

// exchanged executes exchanges together, and checks that each result has its answer.
func exchanged(t *testing.T, j pgtest.Jobs, all ...jobrun.Exchange) []jobrun.Exchanged {
	t.Helper()
	got, err := j.Exchange(t.Context(), all)
	if err != nil || len(got) != len(all) {
		t.Fatalf("%d answers to %d exchanges: %v", len(got), len(all), err)
	}
	for i := range got {
		if len(got[i].Done) != len(all[i].Results) {
			t.Fatalf("exchange %d: %d answers to %d results", i, len(got[i].Done), len(all[i].Results))
		}
	}
	return got
}

// told returns what an answer reports for each result: its state, or the code of its refusal.
func told(done []jobrun.Done) (out []string) {
	for _, d := range done {
		text := string(d.Run.State)
		if d.Err != nil {
			text = fault.As(d.Err).Code
		}
		if d.Replayed {
			text += " again"
		}
		out = append(out, text)
	}
	return out
}

func TestAnExchangeAnswersEachResultAloneAndStartsTheNextRuns(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w, other := j.NewWorker(t), j.NewWorker(t)
	var held []jobrun.Run
	for range 5 {
		held = append(held, j.Running(t, w, j.Job))
	}
	foreign := j.Running(t, other, j.Job)
	next := j.CreateAll(t, j.NewRun(j.Job), j.NewRun(j.Job))

	stale, broken, unknown := pgtest.Success(held[2]), pgtest.Success(held[3]), pgtest.Success(held[4])
	stale.Fence.LeaderEpoch++
	broken.Value = []byte(`{"a": "\u0000"}`) // the API refuses it, so the database must not be asked to store it twice
	unknown.RunID = pgtest.NewID()
	theirs := pgtest.Success(foreign)
	theirs.Fence.WorkerID = w
	ask := exchange(j, w, 2, pgtest.Success(held[0]), pgtest.Failure(held[1], true), stale, broken, unknown, theirs)
	ask.Claim.ClaimID = "first"
	got := exchanged(t, j, ask)[0]
	want := []string{"SUCCEEDED", "FAILED", "JOB_STALE_EPOCH", "JOB_INVALID", "JOB_RUN_NOT_FOUND", "JOB_FENCE_LOST"}
	if !slices.Equal(told(got.Done), want) {
		t.Errorf("results %v, want %v", told(got.Done), want)
	}
	if want := []uuid.UUID{next[0].ID, next[1].ID}; !slices.Equal(ids(got.Offers), want) {
		t.Fatalf("got runs %v, want %v", ids(got.Offers), want)
	}
	for _, o := range got.Offers {
		if stored := j.GetRun(t, o.ID); o.State != jobrun.Running || stored.State != jobrun.Running ||
			stored.Fence() != o.Fence() || stored.Version != o.Version || o.StartedAt == nil {
			t.Errorf("got %+v, stored %+v", o.Run, stored)
		}
	}
	// The answer was lost. The results are already known, and the claim is the same one.
	again := exchanged(t, j, ask)[0]
	want[0], want[1] = "SUCCEEDED again", "FAILED again"
	if !slices.Equal(told(again.Done), want) || again.Done[1].RetryID != got.Done[1].RetryID || len(again.Offers) != 0 {
		t.Errorf("again: %v, want %v; runs %v", told(again.Done), want, ids(again.Offers))
	}
	same, err := j.Claim(t.Context(), ask.Claim)
	if err != nil || !slices.Equal(tokens(same), tokens(got.Offers)) {
		t.Errorf("the repeated claim: %v, %v", ids(same), err)
	}
	// The worker reports both runs of that answer, and there are no others.
	last := exchanged(t, j, exchange(j, w, 1, pgtest.Success(got.Offers[0].Run), pgtest.Success(got.Offers[1].Run)))[0]
	if !slices.Equal(told(last.Done), []string{"SUCCEEDED", "SUCCEEDED"}) || len(last.Offers) != 0 {
		t.Errorf("%v and runs %v", told(last.Done), ids(last.Offers))
	}
}

// A worker is never idle between a report and its next run, and never has more than its maximum
// number of runs.
func TestAnExchangeFreesTheSlotsOfItsResults(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t, func(w *jobrun.WorkerProcess) { w.MaxRuns = 1 })
	r := j.Running(t, w, j.Job)
	for i, result := range []func(jobrun.Run) jobrun.Result{
		pgtest.Success, func(r jobrun.Run) jobrun.Result { return pgtest.Failure(r, false) }, pgtest.Success,
	} {
		j.CreateAll(t, j.NewRun(j.Job), j.NewRun(j.Job))
		got := exchanged(t, j, exchange(j, w, 5, result(r)))[0]
		if got.Done[0].Err != nil || len(got.Offers) != 1 {
			t.Fatalf("round %d: %v, and %d runs; want one", i, told(got.Done), len(got.Offers))
		}
		if n := len(exchanged(t, j, exchange(j, w, 5))[0].Offers); n != 0 {
			t.Errorf("round %d: %d runs beyond the maximum", i, n)
		}
		r = got.Offers[0].Run
	}
}

// A worker's report and the run that it gets in return are stored in one commit, or the report is
// stored earlier.
func TestASuccessAndTheNextRunAreOneTransaction(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	a, b := j.NewWorker(t), j.NewWorker(t)
	first, second := j.Running(t, a, j.Job), j.Running(t, b, j.Job)
	j.CreateAll(t, j.NewRun(j.Job), j.NewRun(j.Job))
	got := exchanged(t, j, exchange(j, a, 1, pgtest.Success(first)), exchange(j, b, 1, pgtest.Success(second)))
	if len(got[0].Offers) != 1 || len(got[1].Offers) != 1 {
		t.Fatalf("%v and %v", ids(got[0].Offers), ids(got[1].Offers))
	}
	if n := j.Count(t, `SELECT count(DISTINCT xmin::text) FROM jobs.job_runs WHERE id = ANY ($1::uuid[])`,
		fmt.Sprintf("{%s,%s,%s,%s}", first.ID, second.ID, got[0].Offers[0].ID, got[1].Offers[0].ID)); n != 1 {
		t.Errorf("%d transactions", n)
	}
}

// If the claim fails, plain successes are not stored either, but results with consequences are.
// When the exchange is repeated, both are answered.
func TestAnExchangeThatBreaksAtItsClaimIsRepeated(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	see := pgtest.Observer(t, j.Dsn)
	w := j.NewWorker(t)
	good, bad := j.Running(t, w, j.Job), j.Running(t, w, j.Job)
	next := j.CreateAll(t, j.NewRun(j.Job))[0]
	ask := exchange(j, w, 5, pgtest.Success(good), pgtest.Failure(bad, true))
	ask.Claim.ClaimID = "c"
	pgtest.Execute(t, see, `ALTER TABLE jobs.claims RENAME TO broken`)
	if got, err := j.Exchange(t.Context(), []jobrun.Exchange{ask}); err == nil {
		t.Fatalf("answered %+v", got)
	}
	if a, b, c := j.GetRun(t, good.ID), j.GetRun(t, bad.ID), j.GetRun(t, next.ID); a.State != jobrun.Running ||
		b.State != jobrun.Failed || c.State != jobrun.Pending {
		t.Errorf("after the outage: %s, %s, %s", a.State, b.State, c.State)
	}
	pgtest.Execute(t, see, `ALTER TABLE jobs.broken RENAME TO claims`)
	got := exchanged(t, j, ask)[0]
	if want := []string{"SUCCEEDED", "FAILED again"}; !slices.Equal(told(got.Done), want) || len(got.Offers) != 1 {
		t.Errorf("repeated: %v and runs %v", told(got.Done), ids(got.Offers))
	}
}

func TestAnExchangeGivesNoRunsWhereAClaimGivesNone(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	for name, statement := range map[string]string{
		"the queue is held": `INSERT INTO jobs.queues (tenant_id, name, state, since, version) VALUES ($1, 'default', 'HELD', now(), 1)`,
		"the worker drains": `UPDATE jobs.workers SET state = 'DRAINING', drain_at = now() WHERE tenant_id = $1`,
		"it is detached":    `UPDATE jobs.workers SET state = 'DETACHED', detached_at = now() WHERE tenant_id = $1`,
		"no node leads":     `UPDATE jobs.leader SET expires_at = now() WHERE $1::uuid IS NOT NULL`,
	} {
		j.Lead(t, 1)
		pgtest.Execute(t, j.DB.SQL(), `DELETE FROM jobs.queues`)
		w := j.NewWorker(t)
		r := j.Running(t, w, j.Job)
		waits := j.CreateAll(t, j.NewRun(j.Job))[0]
		pgtest.Execute(t, j.DB.SQL(), statement, j.Tenant)
		got := exchanged(t, j, exchange(j, w, 5, pgtest.Success(r)))[0]
		if got.Done[0].Err != nil || len(got.Offers) != 0 || j.GetRun(t, r.ID).State != jobrun.Succeeded ||
			j.GetRun(t, waits.ID).State != jobrun.Pending {
			t.Errorf("%s: %v, and runs %v", name, told(got.Done), ids(got.Offers))
		}
		pgtest.Execute(t, j.DB.SQL(), `DELETE FROM jobs.job_runs WHERE id = $1`, waits.ID)
	}
}

// Workers of two nodes exchange at the same time, any answer may be lost, and reports are repeated.
// Each run must be executed under one token and must end once.
func TestWorkersThatExchangeNeverShareARunOrLoseOne(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	nodes := []*jobdb.Jobs{j.Jobs,
		jobdb.NewJobs(jobdb.NewDB(pgtest.Connect(t, j.Dsn), pgtest.JobChance, nil), pgtest.Defaults)}
	const runs, workers = 300, 6
	var all []jobrun.Run
	for range runs {
		all = append(all, j.NewRun(j.Job))
	}
	j.CreateAll(t, all...)
	var mu sync.Mutex
	given := map[uuid.UUID]int{}
	var fleet sync.WaitGroup
	for n := range workers {
		w := j.NewWorker(t)
		fleet.Go(func() {
			var results []jobrun.Result
			for round := 0; ; round++ {
				x := exchange(j, w, 1+round%7, results...)
				x.Claim.ClaimID = fmt.Sprint(round)
				got, err := nodes[n%2].Exchange(t.Context(), []jobrun.Exchange{x})
				offers := []jobrun.Offer(nil)
				if err == nil && round%3 == 0 { // the answer is lost, so it is repeated at the other node
					if got, err = nodes[(n+1)%2].Exchange(t.Context(), []jobrun.Exchange{x}); err == nil {
						offers, err = nodes[n%2].Claim(t.Context(), x.Claim)
					}
				} else if err == nil {
					offers = got[0].Offers
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, d := range got[0].Done {
					if d.Err != nil {
						t.Error(d.Err)
					}
				}
				if len(offers) == 0 {
					return
				}
				results = nil
				mu.Lock()
				for _, o := range offers {
					given[o.ID]++
					results = append(results, pgtest.Success(o.Run))
				}
				mu.Unlock()
			}
		})
	}
	fleet.Wait()
	for id, n := range given {
		if n != 1 {
			t.Errorf("run %s was given %d times", id, n)
		}
	}
	ended := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE state = 'SUCCEEDED' AND attempt = 1 AND version = 4`)
	if len(given) != runs || ended != runs {
		t.Errorf("%d of %d runs were given, %d have ended at their first attempt", len(given), runs, ended)
	}
}
