package leaderdb_test

import (
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// sweeping is a store of job runs with the test as the leader.
type sweeping struct {
	pgtest.Jobs
	*leaderdb.Sweeps
	term jobrun.Term
	see  *sql.DB
	set  jobrun.Settings
}

func newSweeping(t *testing.T) sweeping {
	t.Helper()
	j := pgtest.NewJobs(t)
	s := sweeping{Jobs: j, Sweeps: leaderdb.NewSweeps(j.Base), see: pgtest.Observer(t, j.Dsn),
		set: jobrun.NewSettings(1, nil)}
	pgtest.Expire(t, s.see)
	s.term = pgtest.Lead(t, leaderdb.NewElections(j.DB), time.Hour)
	return s
}

// worker stores a worker that sent its last heartbeat the given time ago.
func (s sweeping) worker(t *testing.T, state jobrun.WorkerState, silence time.Duration) uuid.UUID {
	t.Helper()
	id := pgtest.NewID()
	pgtest.Execute(t, s.see, `INSERT INTO jobs.workers (id, tenant_id, state, name, queues, max_runs, registered_at, heartbeat_at, lost_at)
		VALUES ($1, $2, $3::text, 'w', '{default}', 10, now(), now() - $4 * interval '1 microsecond', CASE WHEN $3::text = 'LOST' THEN now() - $4 * interval '1 microsecond' END)`,
		id, s.Tenant, state, silence.Microseconds())
	return id
}

// assign gives a run to a worker, as a claim does, with a lease of the given length.
func (s sweeping) assign(t *testing.T, id uuid.UUID, lease time.Duration) {
	t.Helper()
	pgtest.Execute(t, s.see, `UPDATE jobs.job_runs SET state = 'ASSIGNED', version = version + 1, attempt = attempt + 1, assigned_worker_id = gen_random_uuid(), assigned_at = now(),
		lease_token = gen_random_uuid(), lease_expires_at = now() + $2 * interval '1 microsecond', leader_epoch = $3, fencing_seq = nextval('jobs.fencing') WHERE id = $1`,
		id, lease.Microseconds(), s.term.Epoch)
}

// start changes a run to have been started the given time ago.
func (s sweeping) start(t *testing.T, id uuid.UUID, lease, ago time.Duration) {
	t.Helper()
	s.assign(t, id, lease)
	pgtest.Execute(t, s.see, `UPDATE jobs.job_runs SET state = 'RUNNING', version = version + 1, started_at = now() - $2 * interval '1 microsecond' WHERE id = $1`, id, ago.Microseconds())
}

// put changes a column of a run.
func (s sweeping) put(t *testing.T, id uuid.UUID, assignment string) {
	t.Helper()
	pgtest.Execute(t, s.see, `UPDATE jobs.job_runs SET `+assignment+` WHERE id = $1`, id)
}

// moves expects a sweep to change the given number of rows.
func moves(t *testing.T, want int) func(jobrun.Swept, error) {
	t.Helper()
	return func(got jobrun.Swept, err error) {
		t.Helper()
		if err != nil || got.Moved != want {
			t.Errorf("moved %d, %v; want %d", got.Moved, err, want)
		}
	}
}

// told returns the kinds of the events of a run.
func (s sweeping) told(t *testing.T, id uuid.UUID) string {
	t.Helper()
	return pgtest.Ask[string](t, s.see, `SELECT coalesce(string_agg(kind || ':' || epoch, ' ' ORDER BY id), '') FROM jobs.job_run_events WHERE run_id = $1`, id)
}

// S8: a live worker does not keep an assigned run that it never starts.
func TestARunThatIsNotStartedInTimeIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	r := s.CreateAll(t, s.NewRun(s.Job), s.NewRun(s.Job), s.NewRun(s.Job))
	s.assign(t, r[0].ID, -time.Second)
	s.assign(t, r[1].ID, time.Minute)
	s.start(t, r[2].ID, -time.Second, 0)
	before := s.GetRun(t, r[0].ID)
	moves(t, 1)(s.Orphan(t.Context(), s.term, s.set, 10))
	moves(t, 0)(s.Orphan(t.Context(), s.term, s.set, 10))
	got := s.GetRun(t, r[0].ID)
	want := got
	want.State, want.LossesUsed, want.AdmittedAt = jobrun.Orphaned, 1, nil
	want.Version, want.LeaseToken = before.Version+1, before.LeaseToken
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the orphan (-want +got):\n%s", diff)
	}
	if wait := got.AvailableAt.Sub(got.UpdatedAt); wait < 900*time.Millisecond || wait > 1100*time.Millisecond {
		t.Errorf("it waits %s", wait)
	}
	attempts := s.Count(t, `SELECT count(*) FROM jobs.job_run_attempts WHERE run_id = $1 AND attempt = 1 AND outcome = 'ORPHANED' AND lease_token = $2 AND started_at IS NULL`,
		got.ID, before.LeaseToken)
	if attempts != 1 {
		t.Errorf("%d attempts", attempts)
	}
	if told := s.told(t, got.ID); told != "orphaned:2" {
		t.Error(told)
	}
	moves(t, 0)(s.Admit(t.Context(), s.term, s.set, 10)) // its backoff is not over yet
	s.put(t, got.ID, `available_at = now()`)
	moves(t, 1)(s.Admit(t.Context(), s.term, s.set, 10))
	if got = s.GetRun(t, got.ID); got.AdmittedAt == nil || got.State != jobrun.Orphaned {
		t.Errorf("%+v", got)
	}
	s.assign(t, got.ID, time.Minute) // the next attempt
	wait := jobrun.NewSettings(1, map[string]float64{jobrun.ReassignAfter: 60})
	s.put(t, got.ID, `lease_expires_at = now() - interval '30 s'`)
	moves(t, 0)(s.Orphan(t.Context(), s.term, wait, 10))
}

// S2, F52, J7: a dead worker keeps its run until the deadline that the leader has set, and no
// longer. Then the run's loss budget is exhausted (S7).
func TestARunOfADeadWorkerIsDoubtedThenGivenUpThenLost(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	d := s.Define(t, func(d *jobrun.Definition) { d.Spec.MaxLosses = 2; d.Spec.Retry = retry.Policy{MaxAttempts: 5} })
	r := s.CreateAll(t, s.NewRun(d))[0]
	for loss := 1; loss <= 2; loss++ {
		s.start(t, r.ID, -time.Second, time.Minute)
		moves(t, 1)(s.Doubt(t.Context(), s.term, s.set, 10))
		got := s.GetRun(t, r.ID)
		if got.State != jobrun.Running || got.Continuation != jobrun.Confirming ||
			got.ConfirmDeadlineAt.Sub(*got.ConfirmStartedAt).Round(time.Millisecond) != 30*time.Second {
			t.Fatalf("%+v", got)
		}
		moves(t, 0)(s.Doubt(t.Context(), s.term, s.set, 10))
		moves(t, 0)(s.Orphan(t.Context(), s.term, s.set, 10)) // J-35: not before the deadline
		s.put(t, r.ID, `continuation_check_deadline_at = now()`)
		moves(t, 1)(s.Orphan(t.Context(), s.term, s.set, 10))
		if got = s.GetRun(t, r.ID); got.State != jobrun.Orphaned || got.LossesUsed != loss ||
			got.Continuation != jobrun.NoDoubt || got.ConfirmDeadlineAt != nil {
			t.Fatalf("%+v", got)
		}
		s.put(t, r.ID, `available_at = now()`)
		if loss < 2 {
			moves(t, 0)(s.Lose(t.Context(), s.term, s.set, 10))
			moves(t, 1)(s.Admit(t.Context(), s.term, s.set, 10))
		}
	}
	moves(t, 0)(s.Admit(t.Context(), s.term, s.set, 10)) // it is never claimed again
	moves(t, 1)(s.Lose(t.Context(), s.term, s.set, 10))
	got := s.GetRun(t, r.ID)
	if got.State != jobrun.Failed || got.Error == nil || got.Error.Code != jobrun.ErrLost || got.FinishedAt == nil {
		t.Errorf("%+v", got)
	}
	if told := s.told(t, r.ID); told != "confirming:2 orphaned:2 confirming:2 orphaned:2 failed:2" {
		t.Error(told)
	}
	if n := s.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE retry_of_run_id IS NOT NULL`); n != 0 {
		t.Error("a run that kills its workers was retried")
	}
}

func TestARunPastItsTimeoutIsTimedOutAndRetried(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	d := s.Define(t, func(d *jobrun.Definition) { d.Spec.TimeoutMS = 60_000; d.Spec.Retry = retry.Policy{MaxAttempts: 2} })
	r := s.CreateAll(t, s.NewRun(d), s.NewRun(d), s.NewRun(s.Job))
	s.start(t, r[0].ID, time.Minute, 66*time.Second)
	s.start(t, r[1].ID, time.Minute, 64*time.Second) // within the grace period
	s.start(t, r[2].ID, time.Minute, time.Hour)      // no timeout
	moves(t, 1)(s.TimeOut(t.Context(), s.term, s.set, 10))
	got := s.GetRun(t, r[0].ID)
	if got.State != jobrun.TimedOut || got.Error.Code != jobrun.ErrTimedOut {
		t.Errorf("%+v", got)
	}
	again := s.GetRun(t, pgtest.Ask[uuid.UUID](t, s.see, `SELECT id FROM jobs.job_runs WHERE retry_of_run_id = $1`, got.ID))
	if again.State != jobrun.Pending || again.Trigger != jobrun.ByRetry || again.FailuresUsed != 1 ||
		again.RootRunID != got.ID {
		t.Errorf("%+v", again)
	}
	if told := s.told(t, got.ID); told != "timed_out:2 retry_created:0" {
		t.Error(told)
	}
}

// S9: if a worker does not acknowledge a cancel, the leader does not wait indefinitely.
func TestACancelThatIsNotAcknowledgedEndsAfterItsGrace(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	r := s.CreateAll(t, s.NewRun(s.Job), s.NewRun(s.Job), s.NewRun(s.Job))
	for i, ago := range []string{"31 s", "29 s", "1 s"} {
		s.start(t, r[i].ID, time.Minute, 0)
		s.put(t, r[i].ID, `cancel_requested_at = now() - interval '`+ago+`', cancel_reason = 'wrong day'`)
	}
	s.put(t, r[2].ID, `state = 'ORPHANED', admitted_at = NULL, version = version + 1`)
	moves(t, 0)(s.Admit(t.Context(), s.term, s.set, 10))
	moves(t, 2)(s.EndCanceled(t.Context(), s.term, s.set, 10))
	for i, want := range []jobrun.State{jobrun.Canceled, jobrun.Running, jobrun.Canceled} {
		if got := s.GetRun(t, r[i].ID); got.State != want {
			t.Errorf("run %d is %s, want %s", i, got.State, want)
		}
	}
	if why := pgtest.Ask[string](t, s.see, `SELECT reason FROM jobs.job_run_events WHERE run_id = $1`, r[0].ID); !strings.Contains(why, "wrong day") {
		t.Error(why)
	}
}

func TestSilentWorkersAreLostThenDetached(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	fresh := s.worker(t, jobrun.WorkerActive, 14*time.Second)
	silent := s.worker(t, jobrun.WorkerActive, 16*time.Second)
	draining := s.worker(t, jobrun.WorkerDraining, time.Hour)
	lost := s.worker(t, jobrun.WorkerLost, 9*time.Second)
	gone := s.worker(t, jobrun.WorkerLost, 11*time.Second)
	moves(t, 3)(s.WatchWorkers(t.Context(), s.term, s.set, 10))
	moves(t, 0)(s.WatchWorkers(t.Context(), s.term, s.set, 10))
	got := map[uuid.UUID]jobrun.WorkerState{}
	for _, id := range []uuid.UUID{fresh, silent, draining, lost, gone} {
		got[id] = pgtest.Ask[jobrun.WorkerState](t, s.see, `SELECT state FROM jobs.workers WHERE id = $1`, id)
	}
	want := map[uuid.UUID]jobrun.WorkerState{
		fresh: jobrun.WorkerActive, silent: jobrun.WorkerLost, draining: jobrun.WorkerLost, lost: jobrun.WorkerLost,
		gone: jobrun.WorkerDetached,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := s.Count(t, `SELECT count(*) FROM jobs.workers WHERE state = 'LOST' AND lost_at IS NULL OR state = 'DETACHED' AND detached_at IS NULL`); n != 0 {
		t.Errorf("%d workers without the time", n)
	}
}

// J5, S10, F43: a sweep after the leader's term changes nothing.
func TestALeaderWhoseTermIsOverChangesNothing(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	r := s.CreateAll(t, s.NewRun(s.Job))
	s.assign(t, r[0].ID, -time.Second)
	s.worker(t, jobrun.WorkerActive, time.Hour)
	pgtest.Expire(t, s.see)
	old := s.term
	for _, over := range []string{"its lease has ended", "somebody else leads"} {
		for name, sweep := range map[string]func() (jobrun.Swept, error){
			"orphan": func() (jobrun.Swept, error) { return s.Orphan(t.Context(), old, s.set, 10) },
			"watch":  func() (jobrun.Swept, error) { return s.WatchWorkers(t.Context(), old, s.set, 10) },
			"slots": func() (jobrun.Swept, error) {
				n, err := s.Materialize(t.Context(), old, nil, nil)
				return jobrun.Swept{Moved: n}, err
			},
			"swept": func() (jobrun.Swept, error) { return jobrun.Swept{}, s.Swept(t.Context(), old) },
		} {
			got, err := sweep()
			if f := fault.As(err); f == nil || f.Code != jobrun.CodeNoLeader || got.Moved != 0 {
				t.Errorf("%s, %s: %+v, %v", over, name, got, err)
			}
		}
		if over == "its lease has ended" {
			s.term = pgtest.Lead(t, leaderdb.NewElections(s.DB), time.Hour)
		}
	}
	moves(t, 1)(s.Orphan(t.Context(), s.term, s.set, 10))
}

// Two concurrent rounds, as of a leader that was started twice in one term, change each run once.
func TestRoundsAtOnceMoveEachRunOnce(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	const n = 60
	for range n {
		s.assign(t, s.CreateAll(t, s.NewRun(s.Job))[0].ID, -time.Second)
	}
	var mu sync.Mutex
	total := 0
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				got, err := s.Orphan(t.Context(), s.term, s.set, 7)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				total += got.Moved
				done := total == n
				mu.Unlock()
				if done || s.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE state = 'ASSIGNED'`) == 0 {
					return
				}
			}
		})
	}
	all.Wait()
	if attempts := s.Count(t, `SELECT count(*) FROM jobs.job_run_attempts`); total != n || attempts != n {
		t.Errorf("moved %d, %d attempts", total, attempts)
	}
}
