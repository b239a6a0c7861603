package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/worker"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// workerNode is a node with a worker that uses the library.
type workerNode struct {
	*node
	t   *testing.T
	dsn string
	db  *postgres.DB
	w   *worker.Worker
	cfg worker.Config
}

// newWorkerNode starts a node, with a leader elected by the test, and a definition
// "report" of the command "print". Its leases are short.
func newWorkerNode(t *testing.T, change ...func(*worker.Config)) *workerNode {
	t.Helper()
	return workerNodeOf(t, "4", change...)
}

// workerNodeOf is newWorkerNode with leases of the given number of seconds, null for the
// default.
func workerNodeOf(t *testing.T, lease string, change ...func(*worker.Config)) *workerNode {
	t.Helper()
	dsn := testdb.DSN(t)
	y := &workerNode{node: start(t, dsn, "node", stopAtOnce), t: t, dsn: dsn}
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	y.db = db
	if _, _, err := leaderdb.NewElections(db).Acquire(t.Context(), uuid.New(), "test", time.Hour); err != nil {
		t.Fatal(err)
	}
	return y.prepared(lease, change...)
}

// leadingNode is workerNodeOf with a node that is the leader itself.
func leadingNode(t *testing.T, lease string, change ...func(*worker.Config)) *workerNode {
	t.Helper()
	dsn := testdb.DSN(t)
	y := &workerNode{node: start(t, dsn, "node", stopAtOnce), t: t, dsn: dsn}
	return y.prepared(lease, change...)
}

// prepared is y with its settings, its definition and a worker.
func (y *workerNode) prepared(lease string, change ...func(*worker.Config)) *workerNode {
	t := y.t
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(y.logs)
		}
	})
	y.must("PATCH", "/api/v1/settings", `{"values":{"heartbeat_interval_seconds":0.5,"run_lease_seconds":`+lease+`}}`, 200)
	y.must("POST", "/api/v1/job-definitions", `{"name":"report","type":"manual","command_name":"print"}`, 201)
	y.cfg = worker.Config{URL: y.url, Poll: 2 * time.Second}
	for _, f := range change {
		f(&y.cfg)
	}
	var err error
	if y.w, err = worker.New(y.cfg); err != nil {
		t.Fatal(err)
	}
	return y
}

// stopAtOnce lets a node stop without waiting for requests, and gives it no worker of its own.
func stopAtOnce(cfg *config.Config) {
	cfg.Server.ShutdownTimeout = 2 * time.Second
	cfg.Jobs.Worker = false
}

func (y *workerNode) must(method, path, body string, status int) map[string]any {
	y.t.Helper()
	got, doc := call(y.t, method, y.url+path, body)
	if got != status {
		y.t.Fatalf("%s %s: %d %v", method, path, got, doc)
	}
	return doc
}

// run requests a run and returns its id.
func (y *workerNode) run(args string) string {
	y.t.Helper()
	return y.must("POST", "/api/v1/job-definitions/report/runs", `{"args":`+args+`}`, 201)["id"].(string)
}

// work runs the worker until the returned function is called, which waits for it.
func (y *workerNode) work() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- y.w.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := patience.Receive(y.t, "the worker ends", ended); err != nil {
			y.t.Errorf("the worker ended with %v", err)
		}
	}
	y.t.Cleanup(stop)
	return stop
}

// becomes waits until a run is in the given state.
func (y *workerNode) becomes(id, state string) map[string]any {
	y.t.Helper()
	var doc map[string]any
	patience.Until(y.t, "the run is "+state, func() bool {
		_, doc = call(y.t, "GET", y.url+"/api/v1/job-runs/"+id, "")
		return doc["state"] == state
	})
	return doc
}

func TestTheWorkerLibraryExecutesRuns(t *testing.T) {
	t.Parallel()
	y := newWorkerNode(t)
	y.w.Handle("print", func(_ context.Context, r *worker.Run) (any, error) {
		var in struct{ N int }
		if err := r.Decode(&in); err != nil {
			return nil, err
		}
		fmt.Fprintf(r.Stdout(), "number %d\n", in.N)
		switch in.N {
		case 1:
			return nil, &worker.Failure{Code: "ODD", Message: "odd", Permanent: true, ExitCode: new(3)}
		case 2:
			panic("two")
		case 3:
			return make(chan int), nil
		}
		r.Progress(50, "half")
		r.EmitEvent("printed", in)
		return map[string]int{"twice": 2 * in.N}, nil
	})
	y.work()
	var ids []string
	for i := range 20 {
		ids = append(ids, y.run(fmt.Sprintf(`{"n":%d}`, i)))
	}
	for i, id := range ids {
		want, code := "SUCCEEDED", any(nil)
		if i >= 1 && i <= 3 {
			want, code = "FAILED", []any{nil, "ODD", "PANIC", "RESULT_NOT_JSON"}[i]
		}
		doc := y.becomes(id, want)
		if e, _ := doc["error"].(map[string]any); e["code"] != code {
			t.Errorf("run %d: %v", i, doc)
		}
		if i > 3 && doc["result"].(map[string]any)["twice"] != float64(2*i) {
			t.Errorf("run %d: result %v", i, doc["result"])
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, y.url+"/api/v1/job-runs/"+ids[7]+"/logs", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/plain")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != "number 7\n" {
		t.Errorf("its log: %q, %v", text, err)
	}
}

func TestARunOutlivesTheServer(t *testing.T) {
	t.Parallel()
	y := newWorkerNode(t)
	began, goOn := make(chan struct{}, 1), make(chan struct{})
	y.w.Handle("print", func(ctx context.Context, _ *worker.Run) (any, error) {
		began <- struct{}{}
		<-goOn
		return 42, context.Cause(ctx)
	})
	y.work()
	id := y.run("1")
	patience.Receive(t, "the handler", began)
	if err := y.stop(); err != nil {
		t.Fatal(err)
	}
	close(goOn) // its result comes while no server is listening
	y.node = start(
		t,
		y.dsn,
		"yard2",
		func(cfg *config.Config) { cfg.Server.ListenAddr = strings.TrimPrefix(y.url, "http://") },
	)
	if doc := y.becomes(id, "SUCCEEDED"); doc["result"] != float64(42) || doc["attempt"] != float64(1) {
		t.Errorf("%v", doc)
	}
}

func TestALeaseThatEndsStopsTheHandler(t *testing.T) {
	t.Parallel()
	y := newWorkerNode(t, func(c *worker.Config) { c.ReportFor = 100 * time.Millisecond })
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	y.w.Handle("print", func(ctx context.Context, _ *worker.Run) (any, error) {
		began <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	y.work()
	y.run("1")
	patience.Receive(t, "the handler", began)
	if err := y.stop(); err != nil {
		t.Fatal(err)
	}
	if err := patience.Receive(t, "the end of the lease", ended); !errors.Is(err, worker.ErrLeaseOver) {
		t.Errorf("the handler was stopped by %v", err)
	}
}

// detached makes the worker start a run, and detaches it. It returns the ids of the worker and
// the run.
func (y *workerNode) detached(began <-chan struct{}) (id, run string) {
	y.t.Helper()
	run = y.run("1")
	patience.Receive(y.t, "the handler", began)
	id = y.active()[0]
	y.must("POST", "/api/v1/workers/"+id+"/detach", `{"reason":"test"}`, 200)
	return id, run
}

// active returns the ids of the active workers.
func (y *workerNode) active() (ids []string) {
	y.t.Helper()
	for _, w := range y.must("GET", "/api/v1/workers?state=ACTIVE", "", 200)["workers"].([]any) {
		ids = append(ids, w.(map[string]any)["worker_id"].(string))
	}
	return ids
}

func TestADetachedWorkerFinishesWhatItHasAndRegistersAnew(t *testing.T) {
	t.Parallel()
	y := workerNodeOf(t, "null")
	began, goOn := make(chan struct{}, 10), make(chan struct{})
	y.w.Handle("print", func(ctx context.Context, r *worker.Run) (any, error) {
		began <- struct{}{}
		if string(r.Args) == "1" {
			select {
			case <-goOn:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return nil, nil
	})
	y.work()
	id, run := y.detached(began)
	next := y.run("2") // which the detached worker must not claim, although it has free slots
	patience.Until(t, "the worker confirms its run", func() bool {
		return y.must("GET", "/api/v1/job-runs/"+run, "", 200)["continuation_state"] == "NONE"
	})
	if doc := y.must("GET", "/api/v1/job-runs/"+next, "", 200); doc["state"] != "PENDING" {
		t.Errorf("a worker that drains took another run: %v", doc)
	}
	close(goOn)
	if doc := y.becomes(run, "SUCCEEDED"); doc["attempt"] != float64(1) {
		t.Errorf("the run of the detached worker: %v", doc)
	}
	y.becomes(next, "SUCCEEDED")
	if now := y.active(); len(now) != 1 || now[0] == id {
		t.Errorf("active workers: %v; detached: %s", now, id)
	}
}

func TestADetachedWorkerGivesBackWhatItCannotFinish(t *testing.T) {
	t.Parallel()
	y := workerNodeOf(t, "null", func(c *worker.Config) { c.Drain = -1 })
	began, ended := make(chan struct{}, 10), make(chan error, 10)
	y.w.Handle("print", func(ctx context.Context, r *worker.Run) (any, error) {
		began <- struct{}{}
		if r.Attempt > 1 {
			return nil, nil
		}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	y.work()
	id, run := y.detached(began)
	if err := patience.Receive(t, "the end of the handler", ended); !errors.Is(err, worker.ErrStopping) {
		t.Errorf("the handler was stopped by %v", err)
	}
	if doc := y.becomes(run, "SUCCEEDED"); doc["attempt"] != float64(2) || doc["losses_used"] != float64(0) ||
		doc["assigned_worker_id"] == id {
		t.Errorf("the run that was given back: %v", doc)
	}
}

func TestAnOlderEpochIsRefused(t *testing.T) {
	t.Parallel()
	y := newWorkerNode(t)
	var begun sync.Map // the runs whose handler was called
	y.w.Handle("print", func(_ context.Context, r *worker.Run) (any, error) {
		begun.Store(r.ID, true)
		return nil, nil
	})
	y.work()
	epoch := func(n int) {
		t.Helper()
		if _, err := y.db.SQL().ExecContext(t.Context(), `UPDATE jobs.leader SET epoch = $1`, n); err != nil {
			t.Fatal(err)
		}
	}
	epoch(7)
	y.becomes(y.run("1"), "SUCCEEDED")
	epoch(3) // as a server that writes into an abandoned copy of the database would report
	stale := y.run("2")
	y.becomes(stale, "ORPHANED")
	attempts := y.must("GET", "/api/v1/job-runs/"+stale+"/attempts", "", 200)["attempts"].([]any)
	if a := attempts[0].(map[string]any); !strings.Contains(fmt.Sprint(a["reason"]), "epoch") {
		t.Errorf("a run of an older epoch: %v", a)
	}
	if _, called := begun.Load(stale); called {
		t.Error("the handler was called for a run of an older epoch")
	}
	epoch(8)
	y.becomes(y.run("3"), "SUCCEEDED")
}

func TestACancelReachesTheHandler(t *testing.T) {
	t.Parallel()
	y := newWorkerNode(t)
	began := make(chan struct{}, 1)
	y.w.Handle("print", func(ctx context.Context, _ *worker.Run) (any, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	y.work()
	id := y.run("1")
	patience.Receive(t, "the handler", began)
	y.must("POST", "/api/v1/job-runs/"+id+"/cancel", `{"reason":"enough"}`, 202)
	y.becomes(id, "CANCELED")
}

func TestAWorkerThatStopsGivesItsRunsBack(t *testing.T) {
	t.Parallel()
	y := newWorkerNode(t, func(c *worker.Config) { c.Drain = -1 })
	began := make(chan struct{}, 1)
	y.w.Handle("print", func(ctx context.Context, _ *worker.Run) (any, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	stop := y.work()
	id := y.run("1")
	patience.Receive(t, "the handler", began)
	stop()
	if doc := y.becomes(id, "ORPHANED"); doc["losses_used"] != nil && doc["losses_used"] != float64(0) {
		t.Errorf("giving it back counts as a loss: %v", doc)
	}
}
