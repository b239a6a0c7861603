package workerapi_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/fencedb"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// workerEdge is an API server with job runs on PostgreSQL, one definition, and a leader that only
// holds the lease.
type workerEdge struct {
	*apitest.Edge
	raw  *sql.DB // bypasses the stores
	runs *jobdb.Jobs
	jobs *httpapi.Jobs
	work *told
	lead *leaderdb.Elections
	term jobrun.Term
	job  jobrun.Definition
}

// told reports each claim that has reached the store.
type told struct {
	jobrun.Work
	claims chan jobrun.ClaimRequest // sent after the claim; need not be received
}

func (c *told) Claim(ctx context.Context, a jobrun.ClaimRequest) ([]jobrun.Offer, error) {
	offers, err := c.Work.Claim(ctx, a)
	select {
	case c.claims <- a:
	default:
	}
	return offers, err
}

func newWorkerEdge(t *testing.T, change ...func(*httpapi.Config)) *workerEdge {
	t.Helper()
	dsn := testdb.DSN(t)
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	raw, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	settings := jobdb.NewSettings(db)
	jobs := jobdb.NewDB(db, jobrun.Chance{Jitter: rand.Float64, NewID: uuid.New}, nil)
	s := &workerEdge{raw: raw, runs: jobdb.NewJobs(jobs, settings.Current), lead: leaderdb.NewElections(db)}
	s.work = &told{s.runs, make(chan jobrun.ClaimRequest, 1000)}
	s.jobs = &httpapi.Jobs{
		Runs: s.runs, Work: s.work, Workers: jobdb.NewWorkers(db, settings.Current), Fences: fencedb.New(db),
		Elections: s.lead, Settings: settings, Current: settings.Current,
		Admitted: func(woke func(uuid.UUID, string)) {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			jobs.Hub.OnAdmitted(woke)
			go func() { defer close(ended); jobs.Line.Run(ctx) }()
			t.Cleanup(func() { stop(); <-ended })
		},
	}
	s.Edge = apitest.NewEdge(t,
		append([]func(*httpapi.Config){func(c *httpapi.Config) { c.Now, c.Jobs = time.Now, s.jobs }}, change...)...)
	var leads bool
	if s.term, leads, err = s.lead.Acquire(t.Context(), uuid.New(), "test", time.Hour); err != nil || !leads {
		t.Fatal(s.term, leads, err)
	}
	s.job = s.define(apitest.Tenant.ID, "report")
	return s
}

func (s *workerEdge) exec(query string, args ...any) {
	s.T.Helper()
	if _, err := s.raw.ExecContext(s.T.Context(), query, args...); err != nil {
		s.T.Fatal(err)
	}
}

// define stores a definition whose failures are retried once.
func (s *workerEdge) define(tenant uuid.UUID, name string) jobrun.Definition {
	s.T.Helper()
	d := jobrun.Definition{ID: uuid.Must(uuid.NewV7()), TenantID: tenant, Name: name, Version: 1,
		SpecVersion: 1, Enabled: true,
		Spec: jobrun.Spec{Type: jobrun.OnDemand, CommandName: "print",
			Retry: retry.Policy{MaxAttempts: 2, InitialIntervalMS: 60_000}}}
	doc, err := json.Marshal(d.Spec)
	if err != nil {
		s.T.Fatal(err)
	}
	s.exec(`INSERT INTO jobs.job_definitions (id, tenant_id, name, type, command_name, spec, last_materialized_at, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, now(), now(), now())`, d.ID, tenant, name, d.Spec.Type, d.Spec.CommandName, string(doc))
	s.exec(`INSERT INTO jobs.job_definition_versions (definition_id, tenant_id, spec_version, spec, created_at) VALUES ($1, $2, 1, $3, now())`, d.ID, tenant, string(doc))
	return d
}

// run stores a run of d that can be claimed immediately.
func (s *workerEdge) run(d jobrun.Definition, change ...func(*jobrun.Run)) uuid.UUID {
	s.T.Helper()
	settings, err := s.jobs.Current(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	newID := func() uuid.UUID { return uuid.Must(uuid.NewV7()) }
	now := time.Now().UTC().Truncate(time.Microsecond)
	r := jobrun.New(&d, jobrun.Request{Trigger: jobrun.ByHand, Key: jobrun.ManualKey(uuid.NewString()),
		Args: json.RawMessage(`{"n":1}`)}, settings, jobrun.Moment{Now: now, NewID: uuid.New})
	for _, f := range change {
		f(&r)
	}
	if _, _, err := s.runs.Create(s.T.Context(), r,
		operator.By{Actor: "test"}.Did(newID(), d.TenantID, now, operator.JobRun, r.ID.String(), "run", nil)); err != nil {
		s.T.Fatal(err)
	}
	return r.ID
}

// worker registers a worker.
func (s *workerEdge) worker(more string, header ...string) uuid.UUID {
	s.T.Helper()
	r := s.Send("POST", "/api/v1/workers", `{"name":"w"`+more+`}`, header...)
	var w client.WorkerRegistration
	if r.Into(&w); r.Status != 201 || r.Header.Get("Location") != "/api/v1/workers/"+w.WorkerID.String() ||
		w.HeartbeatIntervalMS != 5000 || w.RunLeaseMS != 30_000 {
		s.T.Fatalf("register: %d %v %s", r.Status, r.Header, r.Body)
	}
	return w.WorkerID
}

func workerPath(id uuid.UUID, call string) string {
	return "/api/v1/workers/" + id.String() + "/" + call
}

func runPath(id uuid.UUID, call string) string { return "/api/v1/job-runs/" + id.String() + "/" + call }

// claim claims runs.
func (s *workerEdge) claim(worker uuid.UUID, body string, header ...string) []client.ClaimedRun {
	s.T.Helper()
	r := s.Send("POST", workerPath(worker, "claim"), body, header...)
	var c client.ClaimedRuns
	if r.Into(&c); r.Status != 200 || c.LeaseMS == 0 {
		s.T.Fatalf("claim: %d %s", r.Status, r.Body)
	}
	return c.Runs
}

// one claims the only run.
func (s *workerEdge) one(worker uuid.UUID, more string) client.ClaimedRun {
	s.T.Helper()
	runs := s.claim(worker, `{"slots":10`+more+`}`)
	if len(runs) != 1 {
		s.T.Fatalf("claimed %d runs, want one", len(runs))
	}
	return runs[0]
}

// item returns the item for a run in a batch.
func item(c client.ClaimedRun, more string) string {
	return fmt.Sprintf(`{"run_id":%q,"attempt":%d,"lease_token":%q,"leader_epoch":%d%s}`, c.RunID, c.Attempt, c.LeaseToken, c.LeaderEpoch, more)
}

// fence returns the body of a call for a run, with additional members.
func fence(worker uuid.UUID, c client.ClaimedRun, more string) string {
	return fmt.Sprintf(`{"worker_id":%q,"attempt":%d,"lease_token":%q,"leader_epoch":%d%s}`, worker, c.Attempt, c.LeaseToken, c.LeaderEpoch, more)
}

// call makes a call about a run.
func (s *workerEdge) call(worker uuid.UUID, c client.ClaimedRun, call, more string, header ...string) apitest.Reply {
	s.T.Helper()
	return s.Send("POST", runPath(c.RunID, call), fence(worker, c, more), header...)
}

// state returns the stored state of a run.
func (s *workerEdge) state(id uuid.UUID) (state string) {
	s.T.Helper()
	if err := s.raw.QueryRowContext(s.T.Context(), `SELECT state FROM jobs.job_runs WHERE id = $1`, id).Scan(&state); err != nil {
		s.T.Fatal(err)
	}
	return state
}
