package jobdb_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

var _ jobrun.Work = (*jobdb.Jobs)(nil)

func ids(offers []jobrun.Offer) (out []uuid.UUID) {
	for _, o := range offers {
		out = append(out, o.ID)
	}
	return out
}

func TestARunIsClaimedStartedAndFinished(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	low := j.NewRun(j.Job, func(a *jobrun.Request) { a.Priority = new(-5) })
	high := j.NewRun(j.Job, func(a *jobrun.Request) { a.Priority = new(5); a.Args = json.RawMessage(`{"x": 1}`) })
	later := j.NewRun(j.Job, func(a *jobrun.Request) { a.ScheduledFor = pgtest.Now().Add(time.Hour) })
	j.CreateAll(t, low, high, later)

	offers := j.ClaimRuns(t, w)
	if want := []uuid.UUID{high.ID, low.ID}; !slices.Equal(ids(offers), want) {
		t.Fatalf("claimed %v, want %v", ids(offers), want)
	}
	o := offers[0]
	want := o.Run
	want.State, want.Attempt, want.LeaderEpoch, want.WorkerID = jobrun.Assigned, 1, 1, w
	want.Args = json.RawMessage(`{"x": 1}`)
	if diff := cmp.Diff(want, o.Run); diff != "" || o.LeaseToken == uuid.Nil || o.FencingSeq == 0 {
		t.Errorf("assigned with token %s and number %d (-want +got):\n%s", o.LeaseToken, o.FencingSeq, diff)
	}
	if o.LeaseToken == offers[1].LeaseToken || o.FencingSeq == offers[1].FencingSeq {
		t.Error("two assignments have one token")
	}
	done := j.StartRuns(t, offers[1].Run, o.Run)
	if done[1].Replayed || done[1].Err != nil {
		t.Errorf("started %+v", done[1])
	}
	want = done[1].Run
	want.ID, want.State, want.Version = high.ID, jobrun.Running, o.Version+1
	if diff := cmp.Diff(want, done[1].Run); diff != "" {
		t.Errorf("started (-want +got):\n%s", diff)
	}
	if again := j.StartRuns(t, o.Run)[0]; !again.Replayed || again.Run.Version != done[1].Run.Version {
		t.Errorf("started again: %+v", again)
	}
	got := j.FinishRuns(t, pgtest.Success(o.Run))[0]
	stored := j.GetRun(t, high.ID)
	if got.Err != nil || got.Replayed || got.Run.Version != stored.Version {
		t.Errorf("finished %+v", got)
	}
	ended := stored
	ended.State, ended.Result, ended.ExitCode = jobrun.Succeeded, json.RawMessage(`{"n": 1}`), new(0)
	ended.Resources.CPUSecondsTotal = new(1.5)
	if diff := cmp.Diff(ended, stored); diff != "" || stored.FinishedAt == nil {
		t.Errorf("finished at %v (-want +got):\n%s", stored.FinishedAt, diff)
	}
	if again := j.FinishRuns(t, pgtest.Success(o.Run))[0]; !again.Replayed || again.Err != nil ||
		again.Run.Version != stored.Version {
		t.Errorf("finished again: %+v", again)
	}
	if n := j.Count(t, `SELECT count(*) FROM jobs.job_run_events WHERE run_id = $1`, high.ID); n != 0 {
		t.Errorf("%d events tell what the row says", n)
	}
}

func TestAFailureIsRetriedAndThenADeadLetter(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	d := j.Define(t, func(d *jobrun.Definition) { d.Spec.DeadLetter = new(true) })
	r := j.Running(t, w, d)
	root := r.ID
	for n := 1; n < 3; n++ {
		done := j.FinishRuns(t, pgtest.Failure(r, true))[0]
		if done.Err != nil || done.RetryID == uuid.Nil || done.LetterID != uuid.Nil {
			t.Fatalf("failure %d: %+v", n, done)
		}
		if again := j.FinishRuns(t, pgtest.Failure(r, true))[0]; !again.Replayed || again.RetryID != done.RetryID ||
			!again.RetryAt.Equal(*done.RetryAt) {
			t.Errorf("failed again: %+v, want the retry %s", again, done.RetryID)
		}
		next := j.GetRun(t, done.RetryID)
		want := next
		want.Trigger, want.RetryOfRunID, want.RootRunID = jobrun.ByRetry, r.ID, root
		want.FailuresUsed, want.RetryNumber, want.AdmittedAt = n, n, nil
		if diff := cmp.Diff(want, next); diff != "" || !next.AvailableAt.After(*done.Run.FinishedAt) {
			t.Errorf("retry %d, available at %s after an end at %s (-want +got):\n%s", n, next.AvailableAt, done.Run.FinishedAt, diff)
		}
		j.AdmitRun(t, next.ID)
		offers := j.ClaimRuns(t, w, func(a *jobrun.ClaimRequest) { a.Start = true })
		if len(offers) != 1 || offers[0].ID != next.ID {
			t.Fatalf("claimed %v, want %s", ids(offers), next.ID)
		}
		r = offers[0].Run
	}
	done := j.FinishRuns(t, pgtest.Failure(r, true))[0]
	if done.Err != nil || done.RetryID != uuid.Nil || done.LetterID == uuid.Nil {
		t.Fatalf("the last failure: %+v", done)
	}
	var topic, message string
	if err := j.DB.SQL().QueryRowContext(t.Context(), `SELECT original_topic, error_message FROM dlq.dlq_messages WHERE id = $1 AND tenant_id = $2 AND job_run_id = $3`,
		done.LetterID, j.Tenant, r.ID).Scan(&topic,
		&message); err != nil || topic != "job."+d.Name || message != "the disk is full" {
		t.Errorf("the letter is about %q, %q (%v)", topic, message, err)
	}
	if j.CountEvents(t, r.ID, jobrun.WasFailed) != 1 || j.CountEvents(t, r.ID, jobrun.WasDeadLetter) != 1 {
		t.Error("the end of the chain is not on record")
	}
}

func TestARunEmitsEventsWithItsSuccess(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	r := j.Running(t, j.NewWorker(t), j.Job)
	res := pgtest.Success(r)
	res.Emit = []jobrun.Emitted{{Event: &jobrun.NewEvent{Type: "report.done", Payload: json.RawMessage(`{"a":1}`)}}}
	if done := j.FinishRuns(t, res)[0]; done.Err != nil {
		t.Fatal(done.Err)
	}
	if again := j.FinishRuns(t, res)[0]; !again.Replayed {
		t.Errorf("again: %+v", again)
	}
	if n := j.Count(t, `SELECT count(*) FROM jobs.events WHERE source_run_id = $1 AND event_type = 'report.done' AND tenant_id = $2`, r.ID, j.Tenant); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

func TestARunCreatesTheFollowUpRunsItAsksFor(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	next := j.Define(t, func(d *jobrun.Definition) { d.Spec.ArgsSchema = json.RawMessage(`{"type": "object"}`) })
	r := j.Running(t, w, j.Job, func(a *jobrun.Request) { a.CorrelationID = "c-9" })
	for _, wrong := range []jobrun.NextRun{{Definition: "nobody"}, {Definition: next.Name, Args: json.RawMessage(`5`)}} {
		res := pgtest.Success(r)
		res.Emit = []jobrun.Emitted{{Run: &jobrun.NextRun{Definition: next.Name}}, {Run: &wrong}}
		if done := j.FinishRuns(t, res)[0]; fault.As(done.Err) == nil {
			t.Errorf("%+v: %+v", wrong, done)
		}
	}
	if n := j.Count(t, `SELECT count(*) FROM jobs.job_runs`); n != 1 || j.GetRun(t, r.ID).State != jobrun.Running {
		t.Fatalf("%d runs after refused results", n)
	}
	res := pgtest.Success(r)
	res.Emit = []jobrun.Emitted{
		{Run: &jobrun.NextRun{Definition: next.Name, Args: json.RawMessage(`{"b": 2}`)}}, {Run: &jobrun.NextRun{Definition: next.ID.String(), Key: "k"}},
	}
	if done := j.FinishRuns(t, res)[0]; done.Err != nil {
		t.Fatal(done.Err)
	}
	got := j.ClaimRuns(t, w)
	if len(got) != 2 {
		t.Fatalf("it is followed by %+v", got)
	}
	want := got[0]
	want.DefinitionID, want.CorrelationID, want.Args = next.ID, "c-9", json.RawMessage(`{"b": 2}`)
	want.IdempotencyKey = "follow:" + r.ID.String() + ":0"
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("it is followed by (-want +got):\n%s", diff)
	}
}

func TestAReleasedRunCostsNothingAndIsClaimableAtOnce(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	r := j.Running(t, w, j.Job)
	back, err := j.Release(t.Context(), j.Tenant, r.ID, r.Fence(), jobrun.Released{Reason: "deploy"})
	if err != nil || back.Run.State != jobrun.Orphaned || back.Replayed {
		t.Fatalf("released: %+v, %v", back, err)
	}
	if again, err := j.Release(t.Context(), j.Tenant, r.ID, r.Fence(), jobrun.Released{Reason: "deploy"}); err != nil ||
		again.Run.Version != back.Run.Version || !again.Replayed {
		t.Errorf("released again: %+v, %v", again, err)
	}
	next := j.ClaimRuns(t, j.NewWorker(t))
	if len(next) != 1 {
		t.Fatalf("claimed after the release: %+v", next)
	}
	want := next[0]
	want.Attempt, want.LossesUsed, want.FailuresUsed, want.StartedAt = 2, 0, 0, nil
	if diff := cmp.Diff(want, next[0]); diff != "" {
		t.Fatalf("claimed after the release (-want +got):\n%s", diff)
	}
	if n := j.Count(t, `SELECT count(*) FROM jobs.job_run_attempts WHERE run_id = $1 AND attempt = 1 AND outcome = 'RELEASED' AND worker_id = $2 AND started_at IS NOT NULL`, r.ID, w); n != 1 {
		t.Error("the first attempt is not on record")
	}
	_, err = j.Release(t.Context(), j.Tenant, r.ID, r.Fence(), jobrun.Released{})
	if !fault.IsCode(err, jobrun.CodeFenceLost) {
		t.Errorf("released after the next assignment: %v", err)
	}
}
