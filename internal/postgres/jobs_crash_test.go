package postgres_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/jobrun"
)

// A transaction that ends in the middle, as with a crash, leaves nothing of it:
// each of these makes another of its statements fail.
func TestNothingOfACallIsHalfDone(t *testing.T) {
	t.Parallel()
	j := newJobs(t)
	raw := rawTables(t, j.dsn)
	execute(t, raw, `CREATE FUNCTION jobs.crash() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'crash' USING ERRCODE = '57P01'; END $$`)
	crash := func(on, when string) (over func()) {
		t.Helper()
		execute(t, raw, `CREATE TRIGGER crash BEFORE `+when+` EXECUTE FUNCTION jobs.crash()`)
		return func() { execute(t, raw, `DROP TRIGGER crash ON `+on) }
	}
	d := j.define(t, func(d *jobrun.Definition) { d.Spec.DeadLetter, d.Spec.Retry.MaxAttempts = new(true), 2 })
	w := j.worker(t)
	r := j.create(t, j.run(d))[0]
	ask := jobrun.ClaimRequest{TenantID: j.tenant, WorkerID: w, Slots: 1, Start: true, ClaimID: "c"}

	over := crash("jobs.job_runs", `UPDATE ON jobs.job_runs FOR EACH ROW WHEN (NEW.state = 'RUNNING')`)
	if offers, err := j.Claim(t.Context(), ask); err == nil {
		t.Errorf("a claim whose start crashed gave %v", ids(offers))
	}
	over()
	if got := j.get(t, r.ID); got.State != jobrun.Pending || got.Attempt != 0 || j.count(t, `SELECT count(*) FROM jobs.claims`) != 0 {
		t.Errorf("after a crash between assignment and start it is %+v", got)
	}
	for _, middle := range []struct{ name, on, when string }{
		{"the event", "jobs.job_run_events", `INSERT ON jobs.job_run_events FOR EACH ROW`},
		{"the retry", "jobs.job_runs", `INSERT ON jobs.job_runs FOR EACH ROW`},
	} {
		got := j.claim(t, w, func(a *jobrun.ClaimRequest) { *a = ask })
		over := crash(middle.on, middle.when)
		if done, err := j.Finish(t.Context(), []jobrun.Result{failure(got[0].Run, true)}); err == nil {
			t.Errorf("%s crashed: %+v", middle.name, done)
		}
		over()
		if n := j.count(t, `SELECT count(*) FROM jobs.job_runs WHERE state = 'RUNNING' AND failures_used = 0`); n != 1 || j.count(t, `SELECT count(*) FROM jobs.job_run_events`) != 0 {
			t.Errorf("after %s crashed, %d runs go on", middle.name, n)
		}
	}
	// The same call again does all of it, and the last failure is a dead letter or nothing.
	first := j.claim(t, w, func(a *jobrun.ClaimRequest) { *a = ask })[0]
	next := j.finish(t, failure(first.Run, true))[0].RetryID
	j.admit(t, next)
	last := j.claim(t, w, func(a *jobrun.ClaimRequest) { a.Start = true })[0]
	over = crash("dlq.dlq_messages", `INSERT ON dlq.dlq_messages FOR EACH ROW`)
	if done, err := j.Finish(t.Context(), []jobrun.Result{failure(last.Run, true)}); err == nil {
		t.Errorf("the letter crashed: %+v", done)
	}
	over()
	if got := j.get(t, last.ID); got.State != jobrun.Running || j.events(t, last.ID, jobrun.WasDeadLetter) != 0 {
		t.Errorf("after the letter crashed it is %s", got.State)
	}
	if done := j.finish(t, failure(last.Run, true))[0]; done.Err != nil || j.count(t, `SELECT count(*) FROM dlq.dlq_messages WHERE id = $1`, done.LetterID) != 1 {
		t.Errorf("the same again: %+v", done)
	}
	back := j.running(t, w, d)
	over = crash("jobs.job_run_attempts", `INSERT ON jobs.job_run_attempts FOR EACH ROW`)
	if _, err := j.Release(t.Context(), j.tenant, back.ID, back.Fence(), ""); err == nil {
		t.Error("a release whose attempt crashed is told as done")
	}
	over()
	if got := j.get(t, back.ID); got.State != jobrun.Running || got.Version != back.Version {
		t.Errorf("after a release crashed it is %+v", got)
	}
}
