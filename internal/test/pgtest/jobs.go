package pgtest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/bulk/bulkdb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/secret/envelope"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Jobs is a job run store, a tenant with one definition, and a leader.
type Jobs struct {
	*jobdb.Jobs
	DB     *postgres.DB
	Base   *jobdb.DB
	Dsn    string // with all privileges
	Tenant uuid.UUID
	Job    jobrun.Definition
}

// Defaults returns the default settings.
func Defaults(context.Context) (jobrun.Settings, error) { return jobrun.NewSettings(1, nil), nil }

// JobChance is the source of randomness of the job run stores.
var JobChance = jobrun.Chance{Jitter: Chance.Jitter, NewID: NewID}

// NewJobs opens a store as in production: with a login that has no privileges of its own.
func NewJobs(t *testing.T) Jobs { t.Helper(); return NewSealedJobs(t, nil) }

func NewSealedJobs(t *testing.T, keys *envelope.Keyring) Jobs {
	t.Helper()
	dsn := testdb.DSN(t)
	db := ConnectWith(t, PlainLogin(t, dsn), keys)
	base := jobdb.NewDB(db, JobChance, nil)
	j := Jobs{jobdb.NewJobs(base, Defaults), db, base, dsn, NewID(), jobrun.Definition{}}
	j.Lead(t, 1)
	j.Job = j.Define(t, nil)
	return j
}

func (j Jobs) Term(t *testing.T) jobrun.Term {
	t.Helper()
	id := Ask[string](t, j.DB.SQL(), `SELECT leader_id::text FROM jobs.leader`)
	return jobrun.Term{LeaderID: uuid.MustParse(id), Epoch: 1}
}

// Backfilled stores a backfill that covers a number of hours.
func (j Jobs) Backfilled(t *testing.T, m *bulkdb.RunBulks, hours, active int) jobrun.Backfill {
	t.Helper()
	d := j.Define(t, func(d *jobrun.Definition) {
		d.Spec.Type, d.Spec.Schedule = jobrun.OnTime, &schedule.Spec{Type: schedule.HourlyAtMinute, Value: "0"}
	})
	to := Now().Truncate(time.Hour)
	b := jobrun.Backfill{
		Head: bulk.Head{ID: NewID(), TenantID: j.Tenant, Version: 1, State: bulk.Running,
			CreatedAt: Now()},
		DefinitionID: d.ID,
		From:         to.Add(-time.Duration(hours) * time.Hour),
		To:           to,
		Reprocess:    jobrun.ReprocessNone,
		MaxActive:    active,
	}
	by := operator.By{Actor: "ada"}.Did(NewID(), j.Tenant, Now(), operator.JobBackfill, b.ID.String(), "create", nil)
	if _, created, err := m.CreateBackfill(t.Context(), b, by); err != nil || !created {
		t.Fatal(created, err)
	}
	return b
}

// ClaimAtOnce claims for several workers in one call, each from the default queue.
func (j Jobs) ClaimAtOnce(t *testing.T, asks ...jobrun.ClaimRequest) [][]jobrun.Offer {
	t.Helper()
	for i := range asks {
		asks[i].TenantID, asks[i].Queues = j.Tenant, []string{jobrun.DefaultQueue}
	}
	got, err := j.ClaimEach(t.Context(), asks)
	if err != nil || len(got) != len(asks) {
		t.Fatalf("%d answers to %d claims: %v", len(got), len(asks), err)
	}
	return got
}

// CallsOf returns all calls that carry a fencing token, with r's token.
func (j Jobs) CallsOf(t *testing.T, r jobrun.Run) map[jobrun.Call]func() error {
	t.Helper()
	f := r.Fence()
	one := func(done []jobrun.Done, err error) error {
		if err != nil {
			return err
		}
		return done[0].Err
	}
	return map[jobrun.Call]func() error{
		jobrun.CallStart: func() error {
			return one(j.Start(t.Context(), r.TenantID, []jobrun.RunFence{{RunID: r.ID, Fence: f}}))
		},
		jobrun.CallProgress: func() error {
			_, err := j.Progress(t.Context(), r.TenantID,
				jobrun.Beat{RunID: r.ID, Fence: f, Progress: &jobrun.Progress{Message: "zombie"}})
			return err
		},
		jobrun.CallLogs: func() error {
			_, err := j.AppendLog(t.Context(), r.TenantID, r.ID, f, jobrun.LogChunk{LogPosition: jobrun.LogPosition{Seq: 0},
				Body: []byte("zombie")})
			return err
		},
		jobrun.CallComplete: func() error { return one(j.Finish(t.Context(), []jobrun.Result{Success(r)})) },
		jobrun.CallFail:     func() error { return one(j.Finish(t.Context(), []jobrun.Result{Failure(r, true)})) },
		jobrun.CallRelease: func() error {
			_, err := j.Release(t.Context(), r.TenantID, r.ID, f, jobrun.Released{})
			return err
		},
		jobrun.CallCancel:  func() error { _, err := j.AckCancel(t.Context(), r.TenantID, r.ID, f); return err },
		jobrun.CallConfirm: func() error { _, err := j.Confirm(t.Context(), r.TenantID, r.ID, f); return err },
	}
}

func (j Jobs) Beat(t *testing.T, w uuid.UUID, seq int64, beats ...jobrun.Beat) (jobrun.WorkerProcess, []jobrun.Lease) {
	t.Helper()
	worker, leases, err := j.Heartbeat(t.Context(), j.Tenant, w, seq, 0.5, beats)
	if err != nil {
		t.Fatal(err)
	}
	return worker, leases
}

// Writes appends chunks to a run's log, numbered from seq.
func (j Jobs) Writes(t *testing.T, r jobrun.Run, seq int, chunks ...string) {
	t.Helper()
	for i, c := range chunks {
		if _, err := j.AppendLog(t.Context(), j.Tenant, r.ID, r.Fence(),
			jobrun.LogChunk{LogPosition: jobrun.LogPosition{Seq: seq + i}, Stream: "stdout", Body: []byte(c)}); err != nil {
			t.Fatal(err)
		}
	}
}

func (j Jobs) Chunks(t *testing.T, run uuid.UUID) int {
	t.Helper()
	return j.Count(t, `SELECT count(*) FROM jobs.job_run_logs WHERE run_id = $1`, run)
}

// Lead makes the test the leader for an hour.
func (j Jobs) Lead(t *testing.T, epoch int64) {
	t.Helper()
	Execute(t, j.DB.SQL(), `INSERT INTO jobs.leader (name, leader_id, node, epoch, acquired_at, expires_at)
		VALUES ('default', gen_random_uuid(), 'n', $1, now(), now() + interval '1 hour')
		ON CONFLICT (name) DO UPDATE SET epoch = $1, expires_at = now() + interval '1 hour'`, epoch)
}

// Define stores a definition that was modified by change.
func (j Jobs) Define(t *testing.T, change func(*jobrun.Definition)) jobrun.Definition {
	t.Helper()
	d := jobrun.Definition{ID: NewID(), TenantID: j.Tenant, Version: 1, SpecVersion: 1, Enabled: true,
		Spec: jobrun.Spec{Type: jobrun.OnDemand, CommandName: "report",
			Retry: retry.Policy{MaxAttempts: 3, InitialIntervalMS: 1000}}}
	d.Name = "job-" + d.ID.String()
	if change != nil {
		change(&d)
	}
	doc, err := json.Marshal(d.Spec)
	if err != nil {
		t.Fatal(err)
	}
	Execute(t, j.DB.SQL(), `INSERT INTO jobs.job_definitions (id, tenant_id, name, type, command_name, spec, last_materialized_at, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, now(), now(), now())`, d.ID, d.TenantID, d.Name, d.Spec.Type, d.Spec.CommandName, string(doc))
	Execute(t, j.DB.SQL(), `INSERT INTO jobs.job_definition_versions (definition_id, tenant_id, spec_version, spec, created_at)
		VALUES ($1, $2, 1, $3, now())`, d.ID, d.TenantID, string(doc))
	return d
}

// Every returns the spec of a job that runs at an interval.
func Every(interval string) jobrun.Spec {
	return jobrun.Spec{Type: jobrun.OnTime, CommandName: "report",
		Schedule: &schedule.Spec{Type: schedule.Interval, Value: interval}}.Complete()
}

// NewRun returns a new run of d that can be claimed immediately.
func (j Jobs) NewRun(d jobrun.Definition, change ...func(*jobrun.Request)) jobrun.Run {
	a := jobrun.Request{Trigger: jobrun.ByHand, Key: jobrun.ManualKey(NewID().String())}
	for _, c := range change {
		c(&a)
	}
	s, _ := Defaults(context.Background())
	return jobrun.New(&d, a, s, jobrun.Moment{Now: Now(), NewID: NewID})
}

func (j Jobs) Action(r jobrun.Run) operator.Action {
	by := operator.By{Actor: "ada", Reason: "because", RequestID: "r-1"}
	return by.Did(NewID(), j.Tenant, Now(), operator.JobRun, r.ID.String(), "run", nil)
}

// CreateAll stores runs, and returns them as stored.
func (j Jobs) CreateAll(t *testing.T, runs ...jobrun.Run) []jobrun.Run {
	t.Helper()
	out := make([]jobrun.Run, len(runs))
	for i, r := range runs {
		stored, created, err := j.Create(t.Context(), r, j.Action(r))
		if err != nil || !created {
			t.Fatalf("create: %v, %v", created, err)
		}
		out[i] = stored
	}
	return out
}

func (j Jobs) GetRun(t *testing.T, id uuid.UUID) jobrun.Run {
	t.Helper()
	r, err := j.Run(t.Context(), j.Tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Count returns a number from the database.
func (j Jobs) Count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := j.DB.SQL().QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// NewWorker registers a worker that can run everything in the default queue.
func (j Jobs) NewWorker(t *testing.T, change ...func(*jobrun.WorkerProcess)) uuid.UUID {
	t.Helper()
	w := jobrun.WorkerProcess{ID: NewID(), TenantID: j.Tenant, Name: "w", Queues: []string{jobrun.DefaultQueue},
		MaxRuns: 1000, Principal: "p"}
	for _, c := range change {
		c(&w)
	}
	if err := j.Register(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	return w.ID
}

// ClaimRuns claims as many runs for a worker as it can get.
func (j Jobs) ClaimRuns(t *testing.T, worker uuid.UUID, change ...func(*jobrun.ClaimRequest)) []jobrun.Offer {
	t.Helper()
	a := jobrun.ClaimRequest{TenantID: j.Tenant, WorkerID: worker, Slots: 100}
	for _, c := range change {
		c(&a)
	}
	offers, err := j.Claim(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return offers
}

func (j Jobs) StartRuns(t *testing.T, runs ...jobrun.Run) []jobrun.Done {
	t.Helper()
	var fences []jobrun.RunFence
	for i := range runs {
		fences = append(fences, jobrun.RunFence{RunID: runs[i].ID, Fence: runs[i].Fence()})
	}
	done, err := j.Start(t.Context(), j.Tenant, fences)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// Running returns a run that a worker has started.
func (j Jobs) Running(t *testing.T, worker uuid.UUID, d jobrun.Definition, change ...func(*jobrun.Request)) jobrun.Run {
	t.Helper()
	r := j.CreateAll(t, j.NewRun(d, change...))[0]
	for _, o := range j.ClaimRuns(t, worker, func(a *jobrun.ClaimRequest) { a.Start = true }) {
		if o.ID == r.ID {
			return o.Run
		}
	}
	t.Fatalf("run %s was not available", r.ID)
	return r
}

func (j Jobs) FinishRuns(t *testing.T, results ...jobrun.Result) []jobrun.Done {
	t.Helper()
	done, err := j.Finish(t.Context(), results)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func (j Jobs) CountEvents(t *testing.T, run uuid.UUID, kind jobrun.EventKind) int {
	t.Helper()
	return j.Count(t, `SELECT count(*) FROM jobs.job_run_events WHERE run_id = $1 AND kind = $2`, run, kind)
}

// AdmitRun admits a run, as the leader does once the run is due.
func (j Jobs) AdmitRun(t *testing.T, run uuid.UUID) {
	t.Helper()
	Execute(t, j.DB.SQL(), `UPDATE jobs.job_runs SET available_at = now(), admitted_at = now(), version = version + 1 WHERE id = $1`, run)
}

// Lead elects a leader whose lease lasts for ttl.
func Lead(t testing.TB, e *leaderdb.Elections, ttl time.Duration) jobrun.Term {
	t.Helper()
	term, leads, err := e.Acquire(t.Context(), uuid.New(), "node", ttl)
	if err != nil || !leads {
		t.Fatalf("leads %v, %v", leads, err)
	}
	return term
}

// Expire ends the current leader's lease as if its time were up.
func Expire(t testing.TB, db *sql.DB) {
	t.Helper()
	Execute(t, db, `UPDATE jobs.leader SET expires_at = clock_timestamp()`)
}

func Failure(r jobrun.Run, retryable bool) jobrun.Result {
	return jobrun.Result{TenantID: r.TenantID, RunID: r.ID, Fence: r.Fence(), ExitCode: new(3),
		Error: &jobrun.Error{Code: "E_DISK", Message: "the disk is full", Retryable: retryable}}
}

func Success(r jobrun.Run) jobrun.Result {
	return jobrun.Result{TenantID: r.TenantID, RunID: r.ID, Fence: r.Fence(), Value: json.RawMessage(`{"n": 1}`),
		ExitCode:  new(0),
		Resources: jobrun.Resources{CPUSecondsTotal: new(1.5), PeakRSSBytes: new(int64(1 << 20))}}
}

// manyRuns is the number of runs that plans are tested with: nine in ten have SUCCEEDED, and a
// fifth belongs to another tenant.
const manyRuns = 60_000

func ManyMixedRuns(t *testing.T, j Jobs) (rare uuid.UUID) {
	t.Helper()
	rare = NewID()
	j.CreateAll(t, j.NewRun(j.Job)) // a valid row to copy
	Execute(t, j.DB.SQL(), fmt.Sprintf(`
		INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version, command_name, version, state, trigger, scheduled_for, available_at,
		       queue, labels, idempotency_key, concurrency_key, concurrency_policy, attempt, assigned_worker_id, assigned_at, lease_token, lease_expires_at, leader_epoch, started_at,
		       finished_at, error_code, root_run_id, retry_number, saga_id, backfill_id, correlation_id, created_at, updated_at)
		SELECT gen_random_uuid(), CASE WHEN n %% 5 = 0 THEN 'c0000000-0000-4000-8000-000000000000'::uuid ELSE $1::uuid END, md5((n %% 50)::text)::uuid, 'job', 1, 'x', 3,
		       s.state, CASE WHEN n %% 3 = 0 THEN 'MANUAL' ELSE 'EVENT' END, at, at, CASE WHEN n %% 2000 = 1 THEN 'rare' ELSE 'default' END,
		       CASE WHEN n %% 5000 = 1 THEN '{few=1}'::text[] WHEN n %% 4 = 0 THEN '{team=red}' ELSE '{}' END, 'k' || n,
		       CASE WHEN n %% 500 = 7 THEN 'key' || n END, 'allow', 1, md5((n %% 200)::text)::uuid, at, gen_random_uuid(), at, 1,
		       at + CASE WHEN n %% 3000 = 2 THEN interval '1 hour' ELSE interval '1 second' END,
		       CASE WHEN s.state IN ('PENDING', 'ASSIGNED', 'RUNNING', 'ORPHANED') THEN NULL ELSE at + interval '2 seconds' END,
		       CASE WHEN s.state = 'FAILED' THEN 'E' || n %% 100 END,
		       CASE WHEN n %% 9000 = 4 THEN $2::uuid ELSE gen_random_uuid() END, CASE WHEN n %% 9000 = 4 THEN 1 ELSE 0 END, CASE WHEN n %% 1000 = 3 THEN md5('saga' || n)::uuid END,
		       CASE WHEN n %% 1000 < 5 THEN md5('backfill')::uuid END, CASE WHEN n %% 10 = 0 THEN 'c' || n END, at, at
		  FROM generate_series(1, %d) AS n,
		  LATERAL (SELECT now() - n * interval '1 minute' AS at, CASE WHEN n %% 1000 = 11 THEN 'PENDING' WHEN n %% 1000 = 12 THEN 'RUNNING' WHEN n %% 1000 = 13 THEN 'ORPHANED'
		           WHEN n %% 20 = 9 THEN 'FAILED' WHEN n %% 300 = 19 THEN 'CANCELED' ELSE 'SUCCEEDED' END AS state) AS s`, manyRuns), j.Tenant, rare)
	Execute(t, Observer(t, j.Dsn), `VACUUM (ANALYZE) jobs.job_runs`)
	return rare
}
