package jobdb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// A transaction that ends in the middle, as in a crash, leaves no trace. Each case makes a
// different statement of it fail.
func TestACallThatFailsHalfwayLeavesNoTrace(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	raw := pgtest.RawTables(t, j.Dsn)
	pgtest.Execute(t, raw, `CREATE FUNCTION jobs.crash() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'crash' USING ERRCODE = '57P01'; END $$`)
	crash := func(on, when string) (over func()) {
		t.Helper()
		pgtest.Execute(t, raw, `CREATE TRIGGER crash BEFORE `+when+` EXECUTE FUNCTION jobs.crash()`)
		return func() { pgtest.Execute(t, raw, `DROP TRIGGER crash ON `+on) }
	}
	d := j.Define(t, func(d *jobrun.Definition) { d.Spec.DeadLetter, d.Spec.Retry.MaxAttempts = new(true), 2 })
	w := j.NewWorker(t)
	r := j.CreateAll(t, j.NewRun(d))[0]
	ask := jobrun.ClaimRequest{TenantID: j.Tenant, WorkerID: w, Slots: 1, Start: true, ClaimID: "c"}

	over := crash("jobs.job_runs", `UPDATE ON jobs.job_runs FOR EACH ROW WHEN (NEW.state = 'RUNNING')`)
	if offers, err := j.Claim(t.Context(), ask); err == nil {
		t.Errorf("a claim whose start crashed gave %v", ids(offers))
	}
	over()
	if got := j.GetRun(t, r.ID); got.State != jobrun.Pending || got.Attempt != 0 || j.Count(t, `SELECT count(*) FROM jobs.claims`) != 0 {
		t.Errorf("after a crash between assignment and start it is %+v", got)
	}
	for _, middle := range []struct{ name, on, when string }{
		{"the event", "jobs.job_run_events", `INSERT ON jobs.job_run_events FOR EACH ROW`},
		{"the retry", "jobs.job_runs", `INSERT ON jobs.job_runs FOR EACH ROW`},
	} {
		got := j.ClaimRuns(t, w, func(a *jobrun.ClaimRequest) { *a = ask })
		over := crash(middle.on, middle.when)
		if done, err := j.Finish(t.Context(), []jobrun.Result{pgtest.Failure(got[0].Run, true)}); err == nil {
			t.Errorf("%s crashed: %+v", middle.name, done)
		}
		over()
		if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE state = 'RUNNING' AND failures_used = 0`); n != 1 || j.Count(t, `SELECT count(*) FROM jobs.job_run_events`) != 0 {
			t.Errorf("after %s crashed, %d runs go on", middle.name, n)
		}
	}
	// The repeated call does all of it. Without remaining retries, the failure becomes a dead
	// letter.
	first := j.ClaimRuns(t, w, func(a *jobrun.ClaimRequest) { *a = ask })[0]
	next := j.FinishRuns(t, pgtest.Failure(first.Run, true))[0].RetryID
	j.AdmitRun(t, next)
	last := j.ClaimRuns(t, w, func(a *jobrun.ClaimRequest) { a.Start = true })[0]
	over = crash("dlq.dlq_messages", `INSERT ON dlq.dlq_messages FOR EACH ROW`)
	if done, err := j.Finish(t.Context(), []jobrun.Result{pgtest.Failure(last.Run, true)}); err == nil {
		t.Errorf("the letter crashed: %+v", done)
	}
	over()
	if got := j.GetRun(t, last.ID); got.State != jobrun.Running || j.CountEvents(t, last.ID, jobrun.WasDeadLetter) != 0 {
		t.Errorf("after the letter crashed it is %s", got.State)
	}
	if done := j.FinishRuns(t, pgtest.Failure(last.Run, true))[0]; done.Err != nil || j.Count(t, `SELECT count(*) FROM dlq.dlq_messages WHERE id = $1`, done.LetterID) != 1 {
		t.Errorf("the same again: %+v", done)
	}
	back := j.Running(t, w, d)
	over = crash("jobs.job_run_attempts", `INSERT ON jobs.job_run_attempts FOR EACH ROW`)
	if _, err := j.Release(t.Context(), j.Tenant, back.ID, back.Fence(), jobrun.Released{}); err == nil {
		t.Error("a release whose attempt crashed is told as done")
	}
	over()
	if got := j.GetRun(t, back.ID); got.State != jobrun.Running || got.Version != back.Version {
		t.Errorf("after a release crashed it is %+v", got)
	}
}
