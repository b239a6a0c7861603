package jobdb_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestAHeartbeatRenewsWhatTheWorkerHolds(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	fine, doubted, canceled, lost := j.Running(t, w, j.Job), j.Running(t, w, j.Job), j.Running(t, w, j.Job),
		j.Running(t, w, j.Job)
	j.CreateAll(t, j.NewRun(j.Job))
	assigned := j.ClaimRuns(t, w)[0].Run
	ended := j.Running(t, w, j.Job)
	j.FinishRuns(t, pgtest.Success(ended))
	for _, set := range []struct {
		what string
		run  uuid.UUID
	}{
		{`lease_expires_at = now() - interval '1 minute'`, fine.ID},
		{`lease_expires_at = now() - interval '1 minute', continuation_state = 'CONFIRMING', continuation_check_started_at = now(), continuation_check_deadline_at = now() + interval '9 seconds'`, doubted.ID},
		{`cancel_requested_at = now(), cancel_reason = 'enough', version = version + 1`, canceled.ID},
		{`state = 'ORPHANED', version = version + 1`, lost.ID},
	} {
		pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET `+set.what+` WHERE id = $1`, set.run)
	}
	before := map[uuid.UUID]int64{}
	for _, r := range []jobrun.Run{fine, doubted, canceled} {
		before[r.ID] = j.GetRun(t, r.ID).Version
	}
	forged, stranger := fine, pgtest.NewID()
	forged.LeaseToken = pgtest.NewID()
	worker, leases := j.Beat(t, w, 1,
		jobrun.Beat{RunID: fine.ID, Fence: fine.Fence(), Progress: &jobrun.Progress{Message: "half"},
			Checkpoint: []byte(`{"n": 2}`)},
		jobrun.Beat{RunID: doubted.ID, Fence: doubted.Fence()}, jobrun.Beat{RunID: canceled.ID, Fence: canceled.Fence()},
		jobrun.Beat{RunID: lost.ID, Fence: lost.Fence()}, jobrun.Beat{RunID: assigned.ID, Fence: assigned.Fence()},
		jobrun.Beat{RunID: ended.ID, Fence: ended.Fence()}, jobrun.Beat{RunID: stranger, Fence: fine.Fence()})
	if worker.State != jobrun.WorkerActive || worker.Running != 7 || worker.Load != 0.5 || worker.HeartbeatSeq != 1 {
		t.Errorf("the worker is %+v", worker)
	}
	want := []jobrun.Lease{
		{RunID: fine.ID, OK: true}, {RunID: doubted.ID, OK: true}, {RunID: canceled.ID, OK: true, CancelRequested: true, Reason: "enough"},
		{RunID: lost.ID, Reason: jobrun.CodeFenceLost}, {RunID: assigned.ID, OK: true},
		{RunID: ended.ID, Reason: jobrun.CodeConflict}, {RunID: stranger, Reason: jobrun.CodeRunNotFound},
	}
	for i, got := range leases {
		if got.OK && !got.ExpiresAt.After(time.Now()) {
			t.Errorf("lease %d ends at %s", i, got.ExpiresAt)
		}
		got.ExpiresAt = time.Time{}
		if got != want[i] {
			t.Errorf("lease %d is %+v, want %+v", i, got, want[i])
		}
	}
	for id, version := range before {
		if got := j.GetRun(t, id); got.Version != version || got.Continuation != jobrun.NoDoubt ||
			got.ConfirmDeadlineAt != nil {
			t.Errorf("renewed run: version %d, want %d; %s", got.Version, version, got.Continuation)
		}
	}
	if got := j.GetRun(t, fine.ID); got.Progress.Message != "half" || string(got.Checkpoint) != `{"n": 2}` {
		t.Errorf("what the heartbeat told is %v, %s", got.Progress, got.Checkpoint)
	}
	if j.CountEvents(t, doubted.ID, jobrun.WasConfirmed) != 1 || j.CountEvents(t, fine.ID, jobrun.WasConfirmed) != 0 {
		t.Error("that the run is confirmed is not on record")
	}
	if _, leases := j.Beat(t, w, 2, jobrun.Beat{RunID: fine.ID, Fence: forged.Fence()}); leases[0].OK ||
		leases[0].Reason != jobrun.CodeFenceLost {
		t.Errorf("a wrong token: %+v", leases[0])
	}
}

func TestAnAssignmentThatIsNeverStartedIsNotRenewedForEver(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	j.CreateAll(t, j.NewRun(j.Job))
	o := j.ClaimRuns(t, w)[0]
	beat := jobrun.Beat{RunID: o.ID, Fence: o.Fence()}
	_, young := j.Beat(t, w, 1, beat)
	if !young[0].ExpiresAt.After(*o.LeaseExpiresAt) {
		t.Errorf("a young assignment ends at %s, before at %s", young[0].ExpiresAt, o.LeaseExpiresAt)
	}
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET assigned_at = now() - interval '1 minute', lease_expires_at = now() - interval '1 second' WHERE id = $1`, o.ID)
	_, old := j.Beat(t, w, 2, beat)
	if !old[0].OK || old[0].ExpiresAt.After(time.Now().Add(time.Second)) {
		t.Errorf("an assignment of a minute ago, of leases of 20 s, ends at %s", old[0].ExpiresAt)
	}
}

func TestAHeartbeatRevivesALostWorkerAndNoDetachedOne(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	lost, drained, detached := j.NewWorker(t), j.NewWorker(t), j.NewWorker(t)
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.workers SET state = 'LOST', lost_at = now() WHERE id = $1`, lost)
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.workers SET state = 'LOST', lost_at = now(), drain_at = now() WHERE id = $1`, drained)
	r := j.Running(t, detached, j.Job)
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.workers SET state = 'DETACHED', detached_at = now() WHERE id = $1`, detached)
	if w, _ := j.Beat(t, lost, 1); w.State != jobrun.WorkerActive || w.LostAt != nil || w.Version != 2 {
		t.Errorf("a lost worker is %+v", w)
	}
	if w, _ := j.Beat(t, drained, 1); w.State != jobrun.WorkerDraining {
		t.Errorf("a lost worker that was to drain is %s", w.State)
	}
	_, _, err := j.Heartbeat(t.Context(), j.Tenant, detached, 1, 0, []jobrun.Beat{{RunID: r.ID, Fence: r.Fence()}})
	if !fault.IsCode(err, jobrun.CodeWorkerGone) || fault.KindOf(err) != fault.Gone {
		t.Errorf("a detached worker: %v", err)
	}
	if got := j.GetRun(t, r.ID); !got.LeaseExpiresAt.Equal(*r.LeaseExpiresAt) {
		t.Error("the heartbeat of a detached worker renewed a lease")
	}
	// A heartbeat that arrives late does not change the worker.
	j.Beat(t, lost, 7)
	if w, _ := j.Beat(t, lost, 3); w.HeartbeatSeq != 7 {
		t.Errorf("after heartbeats 7 and 3 the last one is %d", w.HeartbeatSeq)
	}
}

func TestARunInDoubtIsConfirmedBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	w := j.NewWorker(t)
	doubt := func(deadline string) jobrun.Run {
		r := j.Running(t, w, j.Job)
		pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET continuation_state = 'CONFIRMING', continuation_check_started_at = now(),
			lease_expires_at = now() - interval '1 minute', continuation_check_deadline_at = now() + $2::interval WHERE id = $1`, r.ID, deadline)
		return r
	}
	r := doubt("20 seconds")
	got, err := j.Confirm(t.Context(), j.Tenant, r.ID, r.Fence())
	if err != nil || got.Continuation != jobrun.NoDoubt || !got.LeaseExpiresAt.After(time.Now()) ||
		got.Version != r.Version {
		t.Errorf("confirmed: %+v, %v", got, err)
	}
	if _, err := j.Confirm(t.Context(), j.Tenant, r.ID, r.Fence()); err != nil {
		t.Errorf("confirmed again: %v", err)
	}
	late := doubt("-1 seconds")
	if _, err := j.Confirm(t.Context(), j.Tenant, late.ID, late.Fence()); !fault.IsCode(err, jobrun.CodeFenceLost) {
		t.Errorf("after the deadline: %v", err)
	}
	if got := j.GetRun(t, late.ID); got.Continuation != jobrun.Confirming {
		t.Errorf("after the deadline it is %s", got.Continuation)
	}
}

func TestALogIsAppendedOnce(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{false, true} {
		j := pgtest.NewJobs(t)
		if sealed {
			j = pgtest.NewSealedJobs(t, pgtest.Keyring(t, pgtest.KeyOne))
		}
		r := j.Running(t, j.NewWorker(t), j.Job)
		chunk := func(seq int, body string) (int, error) {
			return j.AppendLog(t.Context(), j.Tenant, r.ID, r.Fence(), jobrun.LogChunk{LogPosition: jobrun.LogPosition{Seq: seq},
				Stream: "stdout", Body: []byte(body)})
		}
		for _, tt := range []struct {
			seq  int
			body string
			next int
			code string
		}{
			{0, "one\n", 1, ""}, {1, "", 2, ""}, {0, "one\n", 2, ""}, {0, "other", 0, jobrun.CodeLogGap},
			{5, "five", 0, jobrun.CodeLogGap}, {2, "two", 3, ""}, {3, "five", 4, ""}, {2, "two", 4, ""}, {-1, "", 0, jobrun.CodeInvalid}, {7, string(make([]byte, jobrun.MaxLogChunk+1)), 0, jobrun.CodeInvalid},
		} {
			next, err := chunk(tt.seq, tt.body)
			if tt.code == "" && (err != nil || next != tt.next) || tt.code != "" && !fault.IsCode(err, tt.code) {
				t.Errorf("chunk %d: next %d, %v; want %d, %q", tt.seq, next, err, tt.next, tt.code)
			}
		}
		if got := j.GetRun(t, r.ID).LogBytes; got != 11 {
			t.Errorf("the log has %d bytes, want 11", got)
		}
		if n := j.Count(t, `SELECT count(*) FROM jobs.job_run_logs WHERE body IN ('two', 'five')`); (n == 0) != sealed {
			t.Errorf("%d chunks are readable where sealed is %v", n, sealed)
		}
		j.FinishRuns(t, pgtest.Success(r))
		if next, err := chunk(4, "bye"); err != nil || next != 5 {
			t.Errorf("the last lines: %d, %v", next, err)
		}
		pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET log_bytes = $2 WHERE id = $1`, r.ID, jobrun.MaxLog)
		if _, err := chunk(5, "x"); fault.KindOf(err) != fault.TooLarge {
			t.Errorf("a log that is too large: %v", err)
		}
		pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET log_ref = 'elsewhere' WHERE id = $1`, r.ID)
		if _, err := chunk(8, "x"); !fault.IsCode(err, jobrun.CodeConflict) {
			t.Errorf("a log that is elsewhere: %v", err)
		}
	}
}

func TestAHeartbeatIsStoredOncePerInterval(t *testing.T) {
	t.Parallel()
	j := pgtest.NewJobs(t)
	put := func(state jobrun.WorkerState, more string) uuid.UUID {
		id := putWorker(t, j.DB.SQL(), j.Tenant, state, time.Hour)
		pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.workers SET version = 7`+more+` WHERE id = $1`, id)
		return id
	}
	const silent = `, heartbeat_at = now() - interval '1 hour'`
	fresh, quiet, lost, drains := put(jobrun.WorkerActive, ""), put(jobrun.WorkerActive, silent),
		put(jobrun.WorkerLost, silent), put(jobrun.WorkerLost, silent+`, drain_at = now()`)
	gone, foreign := put(jobrun.WorkerDetached, silent), putWorker(t, j.DB.SQL(), pgtest.NewID(),
		jobrun.WorkerActive, time.Hour)
	pgtest.Execute(t, j.DB.SQL(), `UPDATE jobs.workers SET heartbeat_at = now() - interval '1 hour' WHERE id = $1`, foreign)
	was := map[uuid.UUID]string{}
	row := func(id uuid.UUID) (s string) {
		if err := j.DB.SQL().QueryRowContext(t.Context(), `SELECT concat_ws(' ', state, version, heartbeat_at, lost_at IS NULL) FROM jobs.workers WHERE id = $1`, id).Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, id := range []uuid.UUID{fresh, gone, foreign} {
		was[id] = row(id)
	}
	states, err := j.Alive(t.Context(), j.Tenant, []uuid.UUID{fresh, quiet, lost, drains, gone, foreign, pgtest.NewID()},
		time.Minute)
	want := map[uuid.UUID]jobrun.WorkerState{fresh: jobrun.WorkerActive, quiet: jobrun.WorkerActive,
		lost: jobrun.WorkerActive, drains: jobrun.WorkerDraining}
	if diff := cmp.Diff(want, states); diff != "" || err != nil {
		t.Errorf("the states, %v (-want +got):\n%s", err, diff)
	}
	for id, want := range was {
		if got := row(id); got != want {
			t.Errorf("%s became %s", want, got)
		}
	}
	if n := j.Count(t, `SELECT count(*) FROM jobs.workers WHERE id = ANY ($1::uuid[]) AND heartbeat_at > now() - interval '1 minute' AND lost_at IS NULL
		AND (version, state, id) IN ((7, 'ACTIVE', $2), (8, 'ACTIVE', $3), (8, 'DRAINING', $4))`, pq.Array([]uuid.UUID{quiet, lost, drains}), quiet, lost, drains); n != 3 {
		t.Errorf("%d of 3 workers are as they should: %s, %s, %s", n, row(quiet), row(lost), row(drains))
	}
}
