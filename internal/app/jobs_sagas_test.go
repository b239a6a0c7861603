package app_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// withJobs reserves over HTTP, settles with a job that another job compensates, and notifies.
const withJobs = `{"name": "settled", "steps": [
	{"name": "reserve", "action": {"http": {"url": "URL/reserve"}}, "compensation": {"http": {"url": "URL/undo"}}},
	{"name": "settle", "type": "job", "job": "settle", "args": {"order": "${payload.order}"}, "compensation": {"job": "unsettle"}},
	{"name": "notify", "action": {"http": {"url": "URL/notify"}}, "compensation": "none"}]}`

// settling is a database with that workflow, a leader that does nothing, and a worker
// controlled by the test.
type settling struct {
	t      *testing.T
	dsn    string
	db     *sql.DB
	jobs   *jobdb.Jobs
	tenant uuid.UUID
	worker uuid.UUID
}

func newSettling(t *testing.T) (*settling, *node) {
	t.Helper()
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); r.URL.Path == "/notify" && strings.Contains(string(body), "refuse") {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	t.Cleanup(participant.Close)
	s := &settling{t: t, dsn: testdb.DSN(t), worker: uuid.New()}
	n := s.node("a")
	for _, name := range []string{"settle", "unsettle"} {
		if status, doc := call(t, "POST", n.url+"/api/v1/job-definitions", `{"name":"`+name+`","type":"manual","command_name":"`+name+`","retry":{"max_attempts":1}}`); status != 201 {
			t.Fatalf("define: %d %v", status, doc)
		}
	}
	if status, doc := call(t, "POST", n.url+"/api/v1/workflows",
		strings.ReplaceAll(withJobs, "URL", participant.URL)); status != 201 {
		t.Fatalf("register: %d %v", status, doc)
	}
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: s.dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	jobs := jobdb.NewDB(db, jobrun.Chance{Jitter: rand.Float64, NewID: uuid.New}, nil)
	sagadb.NewSagasWith(jobs) // is notified when runs end
	s.db, s.jobs = db.SQL(), jobdb.NewJobs(jobs, jobdb.NewSettings(db).Current)
	if _, err := s.db.ExecContext(t.Context(), `INSERT INTO jobs.leader AS l (name, leader_id, node, epoch, acquired_at, expires_at)
		VALUES ('default', gen_random_uuid(), 'n', 1, now(), now() + interval '1 hour') ON CONFLICT (name) DO NOTHING`); err != nil {
		t.Fatal(err)
	}
	if err := s.db.QueryRowContext(t.Context(), `SELECT tenant_id FROM jobs.job_definitions LIMIT 1`).Scan(&s.tenant); err != nil {
		t.Fatal(err)
	}
	if err := s.jobs.Register(t.Context(), jobrun.WorkerProcess{ID: s.worker, TenantID: s.tenant, Name: "w",
		Queues: []string{"default"}, MaxRuns: 10}); err != nil {
		t.Fatal(err)
	}
	return s, n
}

func (s *settling) node(name string) *node {
	s.t.Helper()
	return start(s.t, s.dsn, name, func(c *config.Config) { c.Egress.AllowLoopback = true })
}

// begin starts a saga and waits until its run can be claimed by the worker.
func (s *settling) begin(n *node, more string) (id string, run jobrun.Offer) {
	s.t.Helper()
	status, doc := call(s.t, "POST", n.url+"/api/v1/sagas", `{"workflow_name":"settled","payload":{"order":7}`+more+`}`)
	if status != 202 && status != 201 {
		s.t.Fatalf("begin: %d %v", status, doc)
	}
	return doc["saga_id"].(string), s.claim("settle")
}

// claim waits for a run of a command and starts it.
func (s *settling) claim(command string) jobrun.Offer {
	s.t.Helper()
	var offers []jobrun.Offer
	patience.Until(s.t, "a run of "+command, func() bool {
		_, _, err := s.jobs.Heartbeat(s.t.Context(), s.tenant, s.worker, time.Now().UnixNano(), 0, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		offers, err = s.jobs.Claim(
			s.t.Context(),
			jobrun.ClaimRequest{TenantID: s.tenant, WorkerID: s.worker, Slots: 1, Start: true},
		)
		if err != nil {
			s.t.Fatal(err)
		}
		return len(offers) == 1
	})
	if offers[0].CommandName != command {
		s.t.Fatalf("a run of %s; want %s", offers[0].CommandName, command)
	}
	return offers[0]
}

// finish reports the end of a run.
func (s *settling) finish(r jobrun.Offer, value string, failure *jobrun.Error) {
	s.t.Helper()
	done, err := s.jobs.Finish(
		s.t.Context(),
		[]jobrun.Result{{TenantID: s.tenant, RunID: r.ID, Fence: r.Fence(), Value: json.RawMessage(value), Error: failure}},
	)
	if err != nil || done[0].Err != nil {
		s.t.Fatal(done, err)
	}
}

// ends waits until a saga is in a state.
func (s *settling) ends(n *node, id, state string) map[string]any {
	s.t.Helper()
	var doc map[string]any
	patience.Until(s.t, "the saga is "+state, func() bool {
		_, doc = call(s.t, "GET", n.url+"/api/v1/sagas/"+id, "")
		return doc["state"] == state
	})
	return doc
}

func TestASagaGoesThroughAJob(t *testing.T) {
	t.Parallel()
	s, n := newSettling(t)
	id, run := s.begin(n, "")
	if string(run.Args) != `{"order":7}` && string(run.Args) != `{"order": 7}` {
		t.Errorf("the run gets %s", run.Args)
	}
	if _, doc := call(t, "GET", n.url+"/api/v1/sagas/"+id+"/explain", ""); !strings.Contains(
		fmt.Sprint(doc["summary"]),
		run.ID.String(),
	) {
		t.Errorf("what it waits for: %v", doc)
	}
	s.finish(run, `{"settled":true}`, nil)
	doc := s.ends(n, id, "completed")
	if !strings.Contains(fmt.Sprint(doc), "settled:true") {
		t.Errorf("the saga is %v", doc)
	}
}

func TestAJobThatFailsIsUndoneBackwards(t *testing.T) {
	t.Parallel()
	s, n := newSettling(t)
	id, run := s.begin(n, "")
	s.finish(run, "", &jobrun.Error{Code: "NO", Message: "no funds"})
	if doc := s.ends(n, id, "compensated"); doc["clean"] != true {
		t.Errorf("the saga is %v", doc)
	}
	// A saga whose last step is refused compensates its job with another job.
	status, doc := call(t, "POST", n.url+"/api/v1/sagas", `{"workflow_name":"settled","payload":{"order":"refuse"}}`)
	if status != 202 && status != 201 {
		t.Fatalf("%d %v", status, doc)
	}
	s.finish(s.claim("settle"), `{}`, nil)
	s.finish(s.claim("unsettle"), `{}`, nil)
	if doc := s.ends(n, doc["saga_id"].(string), "compensated"); doc["clean"] != true {
		t.Errorf("the saga is %v", doc)
	}
}

func TestACancelReachesTheRun(t *testing.T) {
	t.Parallel()
	s, n := newSettling(t)
	id, run := s.begin(n, "")
	if status, doc := call(t, "POST", n.url+"/api/v1/sagas/"+id+"/cancel", `{"reason":"changed my mind"}`); status > 202 {
		t.Fatalf("%d %v", status, doc)
	}
	s.asked(run)
	if _, err := s.jobs.AckCancel(t.Context(), s.tenant, run.ID, run.Fence()); err != nil {
		t.Fatal(err)
	}
	s.finish(s.claim("unsettle"), `{}`, nil) // it may have had an effect
	s.ends(n, id, "cancelled")
}

// asked waits until the cancellation of a run is requested.
func (s *settling) asked(run jobrun.Offer) {
	s.t.Helper()
	patience.Until(s.t, "a cancel of the run is requested", func() bool {
		r, err := s.jobs.Run(s.t.Context(), s.tenant, run.ID)
		if err != nil {
			s.t.Fatal(err)
		}
		return r.CancelRequestedAt != nil
	})
}

func TestADeadlineReachesTheRunAndALateSuccessIsUndone(t *testing.T) {
	t.Parallel()
	s, n := newSettling(t)
	id, run := s.begin(n, `,"timeout_ms":1500`)
	s.asked(run)
	s.finish(run, `{}`, nil)
	s.finish(s.claim("unsettle"), `{}`, nil)
	s.ends(n, id, "timed_out")
}

func TestARunThatEndsWhileNoNodeRunsAdvancesItsSaga(t *testing.T) {
	t.Parallel()
	s, n := newSettling(t)
	id, run := s.begin(n, "")
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	s.finish(run, `{"n":1}`, nil)
	var step int
	if err := s.db.QueryRowContext(t.Context(), `SELECT current_step FROM saga.saga_states WHERE id = $1`, id).Scan(&step); err != nil ||
		step != 2 {
		t.Fatalf("the saga is at step %d: %v; the end of the run has brought it on", step, err)
	}
	s.ends(s.node("b"), id, "completed")
}

func TestInMemoryThereAreNoJobs(t *testing.T) {
	t.Parallel()
	n := start(t, "", "m", func(c *config.Config) { c.Store = config.Memory })
	status, doc := call(t, "POST", n.url+"/api/v1/workflows", strings.ReplaceAll(withJobs, "URL", "http://127.0.0.1:1"))
	if status != http.StatusServiceUnavailable || doc["code"] != "JOB_UNAVAILABLE" {
		t.Errorf("%d %v", status, doc)
	}
}

func TestATimelineShowsSagaStepsRunsAndLettersInOneList(t *testing.T) {
	t.Parallel()
	s, n := newSettling(t)
	id, run := s.begin(n, `,"correlation_id":"affair-1"`)
	s.finish(run, "", &jobrun.Error{Code: "NO", Message: "no funds"})
	s.ends(n, id, "compensated")
	var kinds []string
	var last string
	cursor := ""
	for {
		status, doc := call(t, "GET", n.url+"/api/v1/timeline?correlation_id=affair-1&page_size=3"+cursor, "")
		if status != http.StatusOK || fmt.Sprint(doc["omitted"]) != "[]" {
			t.Fatalf("%d %v", status, doc)
		}
		for _, e := range doc["entries"].([]any) {
			entry := e.(map[string]any)
			at := entry["at"].(string)
			if when, err := time.Parse(time.RFC3339Nano, at); err != nil || last != "" && when.Before(parsed(t, last)) {
				t.Errorf("%v comes after %s", entry, last)
			}
			last = at
			kinds = append(kinds, fmt.Sprintf("%v %v %v", entry["kind"], entry["name"], entry["state"]))
		}
		next, more := doc["next_cursor"].(string)
		if !more {
			break
		}
		cursor = "&cursor=" + next
	}
	all := strings.Join(kinds, ", ")
	for _, want := range []string{
		"saga settled compensated", "step settle FAILED", "job_run settle FAILED", "job_attempt settle FAILED",
		"job_run_end settle FAILED", "dead_letter job.settle PENDING", "saga_end settled compensated",
	} {
		if strings.Count(all, want) != 1 {
			t.Errorf("%q is not there once: %s", want, all)
		}
	}
	if len(kinds) != 9 { // and the compensation of the first step
		t.Errorf("%d entries: %s", len(kinds), all)
	}
	if _, doc := call(t, "GET", n.url+"/api/v1/timeline?correlation_id=another", ""); len(doc["entries"].([]any)) != 0 {
		t.Errorf("another affair: %v", doc)
	}
}

func parsed(t *testing.T, at string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		t.Fatal(err)
	}
	return when
}
