package jobdb_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestAStaleWorkersCallsAreRefusedAndOnlyRecorded(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	for name, next := range map[string]struct {
		worker uuid.UUID
		change func(*jobrun.Run)
		code   string
	}{
		"another worker has it now":                          {j.NewWorker(t), nil, jobrun.CodeFenceLost},
		"the same worker has it again, under the same epoch": {w, nil, jobrun.CodeFenceLost}, // S1
		"its token is made up":                               {w, func(r *jobrun.Run) { r.Attempt = 2 }, jobrun.CodeFenceLost},
	} {
		zombie := j.Running(t, w, j.Job)
		if _, err := j.Release(t.Context(), j.Tenant, zombie.ID, zombie.Fence(), jobrun.Released{}); err != nil {
			t.Fatal(err)
		}
		if got := j.ClaimRuns(t, next.worker, func(a *jobrun.ClaimRequest) { a.Start = true }); len(got) != 1 {
			t.Fatalf("%s: claimed %v", name, ids(got))
		}
		if next.change != nil {
			next.change(&zombie)
		}
		before := j.GetRun(t, zombie.ID)
		for call, do := range j.CallsOf(t, zombie) {
			for range 3 {
				if err := do(); !fault.IsCode(err, next.code) || fault.KindOf(err) != fault.Conflict {
					t.Errorf("%s, %s: %v, want %s", name, call, err, next.code)
				}
			}
			if n := j.Count(t, `SELECT count(*) FROM jobs.job_run_events WHERE run_id = $1 AND kind = 'refused' AND attempt = $2 AND worker_id = $3 AND reason = $4`,
				zombie.ID, zombie.Attempt, w, string(call)+": "+next.code); n != 1 {
				t.Errorf("%s, %s: three refusals left %d events", name, call, n)
			}
		}
		if diff := cmp.Diff(before, j.GetRun(t, zombie.ID)); diff != "" {
			t.Errorf("%s: refused calls changed the run: %s", name, diff)
		}
		if n := j.Count(t, `SELECT count(*) FROM jobs.job_run_logs WHERE run_id = $1`, zombie.ID); n != 0 {
			t.Errorf("%s: %d chunks of its log were stored", name, n)
		}
	}
}

func TestACallUnderAnEpochThatTheRunDoesNotCarryIsRefused(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	r := j.Running(t, j.NewWorker(t), j.Job)
	r.LeaderEpoch = 2
	for call, do := range j.CallsOf(t, r) {
		if err := do(); !fault.IsCode(err, jobrun.CodeStaleEpoch) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if got := j.GetRun(t, r.ID); got.State != jobrun.Running || got.LogBytes != 0 || got.Progress != nil {
		t.Errorf("it is %+v", got)
	}
}

func TestACallOfAnotherTenantFindsNothing(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	r := j.Running(t, w, j.Job)
	r.TenantID = pgtest.NewID()
	for call, do := range j.CallsOf(t, r) {
		if err := do(); !fault.IsCode(err, jobrun.CodeRunNotFound) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if n := j.Count(t, `SELECT count(*) FROM jobs.job_run_events`); n != 0 {
		t.Errorf("%d events", n)
	}
	if _, err := j.Claim(t.Context(), jobrun.ClaimRequest{TenantID: r.TenantID, WorkerID: w, Slots: 1}); !fault.IsCode(err,
		jobrun.CodeWorkerGone) {
		t.Errorf("a claim with a worker of another tenant: %v", err)
	}
	if _, _, err := j.Heartbeat(t.Context(), r.TenantID, w, 1, 0, nil); !fault.IsCode(err, jobrun.CodeWorkerGone) {
		t.Errorf("a heartbeat of a worker of another tenant: %v", err)
	}
}

func TestTerminalRunsAnswerByTheirOutcome(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	ends := map[jobrun.State]func(jobrun.Run){
		jobrun.Succeeded: func(r jobrun.Run) { j.FinishRuns(t, pgtest.Success(r)) },
		jobrun.Failed:    func(r jobrun.Run) { j.FinishRuns(t, pgtest.Failure(r, false)) },
		jobrun.TimedOut: func(r jobrun.Run) {
			f := pgtest.Failure(r, false)
			f.TimedOut = true
			j.FinishRuns(t, f)
		},
		jobrun.Canceled: func(r jobrun.Run) {
			pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET cancel_requested_at = now(), cancel_reason = 'no more', version = version + 1 WHERE id = $1`, r.ID)
			if _, err := j.AckCancel(t.Context(), j.Tenant, r.ID, r.Fence()); err != nil {
				t.Error(err)
			}
		},
	}
	for end, do := range ends {
		r := j.Running(t, w, j.Job)
		do(r)
		before := j.GetRun(t, r.ID)
		if before.State != end {
			t.Fatalf("it is %s, want %s", before.State, end)
		}
		want := map[jobrun.Call]string{
			jobrun.CallStart: jobrun.CodeConflict, jobrun.CallProgress: jobrun.CodeConflict,
			jobrun.CallRelease: jobrun.CodeConflict, jobrun.CallConfirm: jobrun.CodeConflict,
			jobrun.CallComplete: jobrun.CodeConflict, jobrun.CallFail: jobrun.CodeConflict,
			jobrun.CallCancel: jobrun.CodeConflict,
		}
		switch end {
		case jobrun.Succeeded:
			want[jobrun.CallComplete] = ""
		case jobrun.Failed, jobrun.TimedOut:
			want[jobrun.CallFail] = ""
		case jobrun.Canceled:
			want[jobrun.CallComplete], want[jobrun.CallFail], want[jobrun.CallCancel] = jobrun.CodeCancelWins,
				jobrun.CodeCancelWins, ""
		}
		for call, code := range want {
			err := j.CallsOf(t, r)[call]()
			if code == "" && err != nil || code != "" && !fault.IsCode(err, code) {
				t.Errorf("%s of a run that is %s: %v, want %q", call, end, err, code)
			}
		}
		if diff := cmp.Diff(before, j.GetRun(t, r.ID)); diff != "" {
			t.Errorf("a run that is %s was changed: %s", end, diff)
		}
	}
}

func TestAResultBeforeTheStartIsAnErrorOfTheWorker(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	j.CreateAll(t, j.NewRun(j.Job))
	o := j.ClaimRuns(t, w)[0]
	for _, call := range []jobrun.Call{jobrun.CallComplete, jobrun.CallFail, jobrun.CallProgress, jobrun.CallConfirm,
		jobrun.CallLogs} {
		if err := j.CallsOf(t, o.Run)[call](); !fault.IsCode(err, jobrun.CodeNotStarted) {
			t.Errorf("%s: %v", call, err)
		}
	}
	// A run that is released before its start can be claimed again as well.
	if back, err := j.Release(t.Context(), j.Tenant, o.ID, o.Fence(), jobrun.Released{Reason: "drain"}); err != nil ||
		back.Run.State != jobrun.Orphaned {
		t.Errorf("released: %v, %v", back.Run.State, err)
	}
}

func TestABatchReturnsTheResultOfEachRun(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	good, bad, failed, unknown := j.Running(t, w, j.Job), j.Running(t, w, j.Job), j.Running(t, w, j.Job), j.NewRun(j.Job)
	bad.LeaseToken = pgtest.NewID()
	unstorable := j.Running(t, w, j.Job)
	odd := pgtest.Success(unstorable)
	odd.Value = []byte(`"\u0000"`)
	done := j.FinishRuns(t, pgtest.Success(good), pgtest.Success(bad), pgtest.Failure(failed, true), odd,
		pgtest.Success(unknown), pgtest.Success(good))
	if done[0].Err != nil || done[0].Run.State != jobrun.Succeeded || done[0].Run.ID != good.ID {
		t.Errorf("the good one: %+v", done[0])
	}
	if !fault.IsCode(done[1].Err, jobrun.CodeFenceLost) {
		t.Errorf("the one with a wrong token: %+v", done[1])
	}
	if done[2].Err != nil || done[2].Run.State != jobrun.Failed || done[2].RetryID == uuid.Nil {
		t.Errorf("the one that failed: %+v", done[2])
	}
	if !fault.IsCode(done[3].Err, jobrun.CodeInvalid) || j.GetRun(t, unstorable.ID).State != jobrun.Running {
		t.Errorf("the one whose result cannot be stored: %+v", done[3])
	}
	if !fault.IsCode(done[4].Err, jobrun.CodeRunNotFound) {
		t.Errorf("the one that does not exist: %+v", done[4])
	}
	if done[5].Err != nil || !done[5].Replayed {
		t.Errorf("the good one again: %+v", done[5])
	}
}
