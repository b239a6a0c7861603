package redislease_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/jobrun/redislease"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// jobFixture contains job runs on PostgreSQL, a worker, a leader, and hints in Redis.
type jobFixture struct {
	*world
	jobrun.Work // records notes in Redis
	t           *testing.T
	db          *postgres.DB
	runs        *jobdb.Jobs
	sweeps      *leaderdb.Sweeps
	term        jobrun.Term
	settings    jobrun.Settings
	tenant      uuid.UUID
	job         jobrun.Definition
	worker      uuid.UUID
	seq         int64
}

func newJobFixture(t *testing.T) *jobFixture {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: testdb.DSN(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s := &jobFixture{world: newHints(t), t: t, db: db, settings: jobrun.NewSettings(1, nil), tenant: uuid.New(),
		worker: uuid.New()}
	s.runs = jobdb.NewJobs(jobdb.NewDB(db, jobrun.Chance{Jitter: rand.Float64, NewID: uuid.New}, nil),
		func(context.Context) (jobrun.Settings, error) { return s.settings, nil })
	s.sweeps = leaderdb.NewSweeps(jobdb.NewDB(db, jobrun.Chance{Jitter: rand.Float64, NewID: uuid.New}, nil))
	s.uses(s.world)
	var leads bool
	s.term, leads, err = leaderdb.NewElections(db).Acquire(t.Context(), uuid.New(), "n", time.Hour)
	if err != nil || !leads {
		t.Fatal(leads, err)
	}
	s.job = jobrun.Definition{ID: uuid.New(), TenantID: s.tenant, Name: "d", Version: 1, SpecVersion: 1, Enabled: true,
		Spec: jobrun.Spec{Type: jobrun.OnDemand, CommandName: "c"}}
	doc, err := json.Marshal(s.job.Spec)
	if err != nil {
		t.Fatal(err)
	}
	s.sql(`INSERT INTO jobs.job_definitions (id, tenant_id, name, type, command_name, spec, last_materialized_at, created_at, updated_at)
		VALUES ($1, $2, 'd', $3, 'c', $4, now(), now(), now())`, s.job.ID, s.tenant, s.job.Spec.Type, string(doc))
	s.sql(`INSERT INTO jobs.job_definition_versions (definition_id, tenant_id, spec_version, spec, created_at) VALUES ($1, $2, 1, $3, now())`, s.job.ID, s.tenant, string(doc))
	err = s.Register(t.Context(), jobrun.WorkerProcess{ID: s.worker, TenantID: s.tenant, Name: "w",
		Queues: []string{jobrun.DefaultQueue}, MaxRuns: 100})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// uses makes the sweeps read, and the worker's calls write, through other hints.
func (s *jobFixture) uses(w *world) {
	s.world = w
	s.Work = redislease.Note(s.runs, w.Hints,
		func(context.Context) time.Duration { return s.settings.Seconds(jobrun.RunLease) })
	s.sweeps.UseHints(w.Hints)
}

func (s *jobFixture) sql(statement string, args ...any) {
	s.t.Helper()
	if _, err := s.db.SQL().ExecContext(s.t.Context(), statement, args...); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

// claimed returns a run that the worker holds, started or not.
func (s *jobFixture) claimed(start bool) jobrun.RunFence {
	s.t.Helper()
	moment := jobrun.Moment{Now: time.Now().UTC(), NewID: uuid.New}
	r := jobrun.New(&s.job, jobrun.Request{Trigger: jobrun.ByHand, Key: jobrun.ManualKey(uuid.NewString())},
		s.settings, moment)
	if _, _, err := s.runs.Create(s.t.Context(), r, operator.By{Actor: "t"}.Did(uuid.New(), s.tenant, moment.Now,
		operator.JobRun, r.ID.String(), "run", nil)); err != nil {
		s.t.Fatal(err)
	}
	offers, err := s.Claim(s.t.Context(), jobrun.ClaimRequest{TenantID: s.tenant, WorkerID: s.worker,
		Slots: 1, Start: start})
	if err != nil || len(offers) != 1 {
		s.t.Fatal(len(offers), err)
	}
	return jobrun.RunFence{RunID: offers[0].ID, Fence: offers[0].Fence()}
}

func (s *jobFixture) beat(ctx context.Context, runs ...jobrun.RunFence) error {
	s.seq++
	var beats []jobrun.Beat
	for _, r := range runs {
		beats = append(beats, jobrun.Beat{RunID: r.RunID, Fence: r.Fence})
	}
	_, _, err := s.Heartbeat(ctx, s.tenant, s.worker, s.seq, 0, beats)
	return err
}

// silent makes the lease of a run in the database end the given time ago.
func (s *jobFixture) silent(r jobrun.RunFence, ago time.Duration) {
	s.t.Helper()
	s.sql(`UPDATE jobs.job_runs SET lease_expires_at = clock_timestamp() - $2 * interval '1 microsecond' WHERE id = $1`, r.RunID, ago.Microseconds())
}

// doubted executes a sweep, and expects it to put the given number of runs in doubt.
func (s *jobFixture) doubted(want int, what string) {
	s.t.Helper()
	got, err := s.sweeps.Doubt(patience.Context(s.t), s.term, s.settings, 100)
	if err != nil || got.Moved != want {
		s.t.Errorf("%s: %d runs are doubted, %v; want %d", what, got.Moved, err, want)
	}
}

// TestWhoHasARunIsNotedFromClaimToEnd checks that Redis repeats what the database says.
func TestWhoHasARunIsNotedFromClaimToEnd(t *testing.T) {
	t.Parallel()
	s := newJobFixture(t)
	for name, end := range map[string]func(r jobrun.RunFence) error{
		"finished": func(r jobrun.RunFence) error {
			done, err := s.Finish(t.Context(), []jobrun.Result{{TenantID: s.tenant, RunID: r.RunID, Fence: r.Fence}})
			if err == nil {
				err = done[0].Err
			}
			return err
		},
		"released": func(r jobrun.RunFence) error {
			_, err := s.Work.Release(t.Context(), s.tenant, r.RunID, r.Fence, jobrun.Released{Reason: "deploy"})
			s.sql(`UPDATE jobs.job_runs SET admitted_at = NULL WHERE id = $1`, r.RunID) // it must not be claimed again here
			return err
		},
		"canceled": func(r jobrun.RunFence) error {
			s.sql(`UPDATE jobs.job_runs SET cancel_requested_at = now() WHERE id = $1`, r.RunID)
			_, err := s.AckCancel(t.Context(), s.tenant, r.RunID, r.Fence)
			return err
		},
	} {
		r := s.claimed(false)
		s.settles(t, true, r)
		s.do(t, "FLUSHALL")
		if done, err := s.Start(t.Context(), s.tenant, []jobrun.RunFence{r}); err != nil || done[0].Err != nil {
			t.Fatal(err)
		}
		s.settles(t, true, r)
		s.do(t, "FLUSHALL")
		if err := s.beat(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		s.settles(t, true, r)
		s.do(t, "FLUSHALL")
		if _, err := s.Progress(t.Context(), s.tenant, jobrun.Beat{RunID: r.RunID, Fence: r.Fence}); err != nil {
			t.Fatal(err)
		}
		s.settles(t, true, r)
		zombie := r
		zombie.Fence.LeaseToken = uuid.New()
		if err := s.beat(t.Context(), zombie); err != nil || s.alive(t, zombie)[0] || !s.alive(t, r)[0] {
			t.Errorf("%s: a zombie's heartbeat is noted (%v)", name, err)
		}
		if err := end(r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s.settles(t, false, r)
	}
}

// TestHeartbeatsSpareRunsWhenTheDatabaseWasAway simulates an outage in which every lease expired in
// the database while the workers continued. One of the two workers has died in the meantime.
func TestHeartbeatsSpareRunsWhenTheDatabaseWasAway(t *testing.T) {
	t.Parallel()
	s := newJobFixture(t)
	lives, died := s.claimed(true), s.claimed(true)
	s.settles(t, true, died)
	s.do(t, "FLUSHALL") // simulates that time has passed
	away, err := postgres.Open(t.Context(), postgres.Config{DSN: testdb.DSN(t)})
	if err != nil {
		t.Fatal(err)
	}
	away.Close()
	there := s.Work
	s.Work = redislease.Note(jobdb.NewJobs(jobdb.NewDB(away, jobrun.Chance{Jitter: rand.Float64, NewID: uuid.New}, nil),
		func(context.Context) (jobrun.Settings, error) { return s.settings, nil }), s.Hints,
		func(context.Context) time.Duration { return s.settings.Seconds(jobrun.RunLease) })
	if err := s.beat(t.Context(), lives); err == nil {
		t.Fatal("the database answers")
	}
	s.Work = there
	s.settles(t, true, lives)
	s.silent(lives, 5*time.Second)
	s.silent(died, 5*time.Second)
	s.doubted(1, "of two")
	if r, err := s.runs.Run(t.Context(), s.tenant, lives.RunID); err != nil || r.Continuation != jobrun.NoDoubt {
		t.Errorf("the one that lives: %+v, %v", r.Continuation, err)
	}
	if err := s.beat(t.Context(), lives); err != nil {
		t.Fatal(err)
	}
	s.doubted(0, "after its next heartbeat")
}

// TestRedisDecidesNothing checks that, whatever Redis does or returns, runs are put in doubt as
// they are without Redis, at most one lease later.
func TestRedisDecidesNothing(t *testing.T) {
	t.Parallel()
	s := newJobFixture(t)
	s.settings = jobrun.NewSettings(1, map[string]float64{jobrun.RunLease: 60})
	brief := newWorldWithin(t, s.server, "redis://"+s.addr, 0)
	for _, tt := range []struct {
		what string
		do   func(key string)
		ago  time.Duration
		want int
	}{
		{"a note that is true", func(string) {}, 30 * time.Second, 0},
		{"a note that stays for ever, as after a jump of its clock", func(key string) { s.do(t, "PERSIST", key) }, 61 * time.Second, 1},
		{"another token", func(key string) { s.do(t, "SET", key, "1 "+uuid.NewString()+" "+uuid.NewString()) }, time.Second, 1},
		{"nonsense", func(key string) { s.do(t, "SET", key, "alive") }, time.Second, 1},
		{"another type", func(key string) { s.do(t, "DEL", key); s.do(t, "RPUSH", key, "x") }, time.Second, 1},
		{"a flush", func(string) { s.do(t, "FLUSHALL") }, time.Second, 1},
		{"a server that sleeps", func(string) { s.uses(brief); s.signal(syscall.SIGSTOP) }, time.Second, 1},
		{"a server that is gone", func(string) { s.signal(syscall.SIGCONT); s.kill() }, time.Second, 1},
	} {
		r := s.claimed(true)
		if tt.what != "a server that is gone" { // still stopped by the previous case
			s.settles(t, true, r)
		}
		s.silent(r, tt.ago)
		tt.do("scheduler:jobrun:lease:" + r.RunID.String())
		s.doubted(tt.want, tt.what)
		done, err := s.Finish(patience.Context(t), []jobrun.Result{{TenantID: s.tenant, RunID: r.RunID, Fence: r.Fence}})
		if err != nil || done[0].Err != nil || done[0].Run.State != jobrun.Succeeded {
			t.Errorf("%s: the worker cannot finish: %v, %v", tt.what, err, done)
		}
	}
}
