package jobapi_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/bulk/bulkdb"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/fencedb"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/jobrun/queuedb"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/apitest"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

const (
	definitions = "/api/v1/job-definitions"
	jobRuns     = "/api/v1/job-runs"
)

// jobEdge is an API server with job runs on PostgreSQL and a leader of epoch 1. There are no
// sweeps, and a worker exists only if a test registers one.
type jobEdge struct {
	*apitest.Edge
	jobs *httpapi.Jobs
	work *jobdb.Jobs // worker calls, without HTTP
	db   *postgres.DB
	term jobrun.Term
}

func newJobEdge(t *testing.T, change ...func(*httpapi.Config)) *jobEdge {
	t.Helper()
	db := pgtest.Connect(t, testdb.DSN(t))
	settings := jobdb.NewSettings(db)
	base := jobdb.NewDB(db, jobrun.Chance{Jitter: rand.Float64, NewID: uuid.New}, nil)
	runs := jobdb.NewJobs(base, settings.Current)
	masses := bulkdb.NewRunBulks(base, runs)
	leader := leaderdb.NewElections(db)
	term, leads, err := leader.Acquire(t.Context(), uuid.New(), "n", 10*time.Minute)
	if err != nil || !leads {
		t.Fatalf("nobody leads: %v", err)
	}
	e := &jobEdge{db: db, term: term, work: runs, jobs: &httpapi.Jobs{
		Definitions: jobdb.NewDefinitions(base, settings.Current), Runs: runs, Elections: leader, Settings: settings,
		Workers: jobdb.NewWorkers(db, settings.Current), Queues: queuedb.New(base), Fences: fencedb.New(db),
		Bulks:  masses,
		Events: jobdb.NewEvents(base, settings.Current),
	}}
	e.Edge = apitest.NewEdge(t, append([]func(*httpapi.Config){func(c *httpapi.Config) {
		c.Now, c.Limits.MaxWait = time.Now, time.Minute
		c.Jobs = e.jobs
	}}, change...)...)
	return e
}

// define stores a definition with additional members besides its name, type and command.
func (e *jobEdge) define(name, more string) client.JobDefinition {
	e.T.Helper()
	if more != "" {
		more = "," + more
	}
	r := e.Send("POST", definitions, `{"name":"`+name+`","type":"manual","command_name":"report"`+more+`}`)
	var d client.JobDefinition
	if r.Into(&d); r.Status != http.StatusCreated || r.Header.Get("ETag") != `"1"` ||
		r.Header.Get("Location") != definitions+"/"+d.ID.String() {
		e.T.Fatalf("define %s: %d %v %s", name, r.Status, r.Header, r.Body)
	}
	return d
}

// run triggers a run of a definition. The run must be new.
func (e *jobEdge) run(name, body string, header ...string) client.JobRun {
	e.T.Helper()
	r := e.Send("POST", definitions+"/"+url.PathEscape(name)+"/runs", body, header...)
	return r.Run(http.StatusCreated)
}

// claim assigns the tenant's runs of the queue default to a worker, which starts them if start
// is set, and returns the claimed runs.
func (e *jobEdge) claim(slots int, start bool) (worker uuid.UUID, offers []jobrun.Offer) {
	e.T.Helper()
	w := jobrun.WorkerProcess{ID: uuid.Must(uuid.NewV7()), TenantID: apitest.Tenant.ID, Name: "w",
		Queues: []string{jobrun.DefaultQueue}, MaxRuns: 100}
	if err := e.work.Register(e.T.Context(), w); err != nil {
		e.T.Fatal(err)
	}
	offers, err := e.work.Claim(e.T.Context(), jobrun.ClaimRequest{TenantID: apitest.Tenant.ID, WorkerID: w.ID,
		Slots: slots, Start: start})
	if err != nil {
		e.T.Fatal(err)
	}
	return w.ID, offers
}

// finish makes the worker of an offer report a success, or the given failure.
func (e *jobEdge) finish(o *jobrun.Offer, failure *jobrun.Error) {
	e.T.Helper()
	done, err := e.work.Finish(e.T.Context(),
		[]jobrun.Result{{TenantID: apitest.Tenant.ID, RunID: o.ID, Fence: o.Fence(), Error: failure}})
	if err == nil {
		err = done[0].Err
	}
	if err != nil {
		e.T.Fatal(err)
	}
}

// ask returns a number from the database.
func (e *jobEdge) ask(query string, args ...any) (n int) {
	e.T.Helper()
	if err := e.db.SQL().QueryRowContext(context.WithoutCancel(e.T.Context()), query, args...).Scan(&n); err != nil {
		e.T.Fatal(fmt.Errorf("%s: %w", query, err))
	}
	return n
}
