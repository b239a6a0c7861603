package jobdb_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// atOnce calls f n times at the same moment.
func atOnce(n int, f func(i int)) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	all.Wait()
}

// beat keeps the workers alive, however long a round takes, because silent workers get no runs.
func beat(t *testing.T, j pgtest.Jobs) {
	t.Helper()
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.workers SET heartbeat_at = clock_timestamp()`)
}

func TestWorkersThatRaceNeverShareARun(t *testing.T) {
	t.Parallel()
	const rounds, workers, runs = 25, 6, 40
	j := pgtest.NewJobs(t)
	ids := make([]uuid.UUID, workers)
	for i := range ids {
		ids[i] = j.NewWorker(t)
	}
	for round := range rounds {
		beat(t, j)
		batch := make([]jobrun.Run, runs)
		for i := range batch {
			batch[i] = j.NewRun(j.Job)
		}
		j.CreateAll(t, batch...)
		var mu sync.Mutex
		holders := map[uuid.UUID]uuid.UUID{}
		atOnce(workers, func(i int) {
			offers, err := j.Claim(t.Context(), jobrun.ClaimRequest{TenantID: j.Tenant, WorkerID: ids[i], Slots: 15,
				Start: i%2 == 0})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, o := range offers {
				if other, taken := holders[o.ID]; taken {
					t.Errorf("round %d: run %s went to %s and to %s", round, o.ID, other, ids[i])
				}
				holders[o.ID] = ids[i]
			}
		})
		for len(holders) < runs { // a worker that already had enough runs may have held the lock of one
			offers := j.ClaimRuns(t, ids[0])
			if len(offers) == 0 {
				t.Fatalf("round %d: %d of %d runs were given", round, len(holders), runs)
			}
			for _, o := range offers {
				holders[o.ID] = ids[0]
			}
		}
		for id, w := range holders {
			if r := j.GetRun(t, id); r.WorkerID != w || r.Attempt != 1 {
				t.Errorf("round %d: run %s is with %s, attempt %d; %s was told that it has it", round, id, r.WorkerID, r.Attempt, w)
			}
		}
		pgtest.Execute(t, j.DB.SQL(), `DELETE FROM jobs.job_runs`)
	}
}

func TestOnlyOneRunOfAConcurrencyKeyIsWithAWorker(t *testing.T) {
	t.Parallel()
	const rounds, claimers = 20, 16
	j := pgtest.NewJobs(t)
	d := j.Define(t, func(d *jobrun.Definition) { d.Spec.Concurrency = jobrun.Queue })
	workers := make([]uuid.UUID, claimers)
	for i := range workers {
		workers[i] = j.NewWorker(t)
	}
	for round := range rounds {
		beat(t, j)
		// The leader admits only one run of a key. Here all are admitted, so that the claims must
		// exclude each other.
		for range 4 {
			for _, key := range []string{"a", "b", "c"} {
				r := j.NewRun(d)
				r.ConcurrencyKey, r.AdmittedAt = key, new(pgtest.Now())
				j.CreateAll(t, r)
			}
		}
		free := j.CreateAll(t, j.NewRun(j.Job), j.NewRun(j.Job))
		var mu sync.Mutex
		var got []jobrun.Offer
		atOnce(claimers, func(i int) {
			offers, err := j.Claim(t.Context(), jobrun.ClaimRequest{TenantID: j.Tenant, WorkerID: workers[i], Slots: 5})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, offers...)
		})
		keys := map[string]int{}
		for _, o := range got {
			keys[o.ConcurrencyKey]++
		}
		want := map[string]int{"a": 1, "b": 1, "c": 1, "": len(free)}
		if fmt.Sprint(keys) != fmt.Sprint(want) {
			t.Errorf("round %d: of each key were given %v, want %v", round, keys, want)
		}
		if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE state = 'ASSIGNED'`); n != len(got) {
			t.Errorf("round %d: %d runs are assigned, %d were given", round, n, len(got))
		}
		pgtest.Execute(t, j.DB.SQL(), `DELETE FROM jobs.job_runs`)
	}
}

func TestACancelAndAResultAreDecidedByWhichCommitsFirst(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	won := map[jobrun.State]int{}
	for range 40 {
		r := j.Running(t, w, j.Job)
		pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET cancel_requested_at = now(), version = version + 1 WHERE id = $1`, r.ID)
		var done jobrun.Done
		var canceled jobrun.Done
		var refusal error
		atOnce(2, func(i int) {
			if i == 0 {
				all, err := j.Finish(t.Context(), []jobrun.Result{pgtest.Success(r)})
				if err != nil {
					t.Error(err)
					return
				}
				done = all[0]
				return
			}
			canceled, refusal = j.AckCancel(t.Context(), j.Tenant, r.ID, r.Fence())
		})
		end := j.GetRun(t, r.ID).State
		won[end]++
		switch end {
		case jobrun.Succeeded:
			if done.Err != nil || done.Replayed || !fault.IsCode(refusal, jobrun.CodeConflict) {
				t.Errorf("it succeeded, and the result got %v, the cancel %v", done.Err, refusal)
			}
		case jobrun.Canceled:
			if !fault.IsCode(done.Err, jobrun.CodeCancelWins) || refusal != nil || canceled.Run.State != jobrun.Canceled {
				t.Errorf("it was canceled, and the result got %v, the cancel %v", done.Err, refusal)
			}
		default:
			t.Errorf("it is %s", end)
		}
	}
	t.Log(won)
}

// The network may deliver a repeated claim while the first one is still in progress.
func TestTheSameClaimAtOnceGivesTheSameRuns(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	for round := range 30 {
		j.CreateAll(t, j.NewRun(j.Job), j.NewRun(j.Job), j.NewRun(j.Job))
		ask := jobrun.ClaimRequest{TenantID: j.Tenant, WorkerID: w, ClaimID: fmt.Sprint("c-", round), Slots: 2}
		if round%2 == 1 {
			ofDefault(&ask) // uses another statement
		}
		answers := make([][]jobrun.Offer, 5)
		atOnce(len(answers), func(i int) {
			var err error
			if answers[i], err = j.Claim(t.Context(), ask); err != nil {
				t.Error(err)
			}
		})
		for _, a := range answers {
			if len(a) != 2 || fmt.Sprint(tokens(a)) != fmt.Sprint(tokens(answers[0])) {
				t.Errorf("round %d: one claim got %v, its repetition %v", round, tokens(answers[0]), tokens(a))
			}
		}
		if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE state = 'ASSIGNED'`); n != 2 {
			t.Errorf("round %d: %d runs are assigned, want 2", round, n)
		}
		pgtest.Execute(t, j.DB.SQL(), `DELETE FROM jobs.job_runs`)
	}
}

// tokens returns the runs of an answer with their lease tokens.
func tokens(offers []jobrun.Offer) (out []string) {
	for _, o := range offers {
		out = append(out, fmt.Sprint(o.ID, " ", o.LeaseToken))
	}
	return out
}

func TestTheSameClaimGivesTheSameRuns(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	j.CreateAll(t, j.NewRun(j.Job), j.NewRun(j.Job), j.NewRun(j.Job))
	same := func(a *jobrun.ClaimRequest) { a.ClaimID, a.Slots = "c-1", 2 }
	given := j.ClaimRuns(t, w, same)
	if again := j.ClaimRuns(t, w, same); len(given) != 2 || fmt.Sprint(tokens(again)) != fmt.Sprint(tokens(given)) {
		t.Fatalf("one claim got %v, its repetition %v", tokens(given), tokens(again))
	}
	if other := j.ClaimRuns(t, w, func(a *jobrun.ClaimRequest) { a.ClaimID = "c-2" }); len(other) != 1 {
		t.Errorf("another claim got %v", ids(other))
	}
	j.StartRuns(t, given[0].Run)
	j.FinishRuns(t, pgtest.Success(given[0].Run))
	if left := j.ClaimRuns(t, w, same); len(left) != 1 || left[0].ID != given[1].ID {
		t.Errorf("after one has ended, the repetition gets %v, want %s", ids(left), given[1].ID)
	}
	// The worker counts its lease from the answer.
	set := func(left string) {
		pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET lease_expires_at = clock_timestamp() + $2::interval WHERE id = $1`, given[1].ID, left)
	}
	set("7 hours")
	if got := j.ClaimRuns(t, w, same); len(got) != 1 || got[0].Left > 7*time.Hour || got[0].Left < 6*time.Hour {
		t.Errorf("of a lease with 7 h left the repetition says %v", got)
	}
	set("-1 seconds")
	if got := j.ClaimRuns(t, w, same); len(got) != 0 {
		t.Errorf("the repetition gives a run whose lease is over: %v", ids(got))
	}
}

func TestAnExpiredLeaseIsNotARefusal(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	r := j.Running(t, w, j.Job)
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET lease_expires_at = now() - interval '1 hour', continuation_state = 'CONFIRMING',
		continuation_check_started_at = now(), continuation_check_deadline_at = now() - interval '1 second' WHERE id = $1`, r.ID)
	done := j.FinishRuns(t, pgtest.Success(r))[0]
	if done.Err != nil || done.Replayed {
		t.Fatalf("%+v", done)
	}
	if got := j.GetRun(t, r.ID); got.State != jobrun.Succeeded || got.Continuation != jobrun.NoDoubt ||
		got.ConfirmDeadlineAt != nil {
		t.Errorf("it ended as %+v", got)
	}
	late := j.CreateAll(t, j.NewRun(j.Job))[0]
	o := j.ClaimRuns(t, w)[0]
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET lease_expires_at = now() - interval '1 hour' WHERE id = $1`, late.ID)
	if done := j.StartRuns(t, o.Run)[0]; done.Err != nil || !done.Run.LeaseExpiresAt.After(time.Now()) {
		t.Errorf("started late: %+v", done)
	}
}
