package app_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestANodeRunsProgramsWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	n := start(t, testdb.DSN(t), "own", func(cfg *config.Config) {
		cfg.Jobs.WorkerQueues, cfg.Jobs.WorkerShell, cfg.Jobs.WorkerShellAllow = []string{
			"system",
			"default",
		}, true, []string{
			"/bin/sh",
		}
	})
	y := &workerNode{node: n, t: t}
	run := func(name, script string) string {
		t.Helper()
		y.must(
			"POST",
			"/api/v1/job-definitions",
			`{"name":"`+name+`","type":"manual","command_name":"shell","default_args":{"script":"`+script+`"}}`,
			201,
		)
		return y.must("POST", "/api/v1/job-definitions/"+name+"/runs", `{"args":{"who":"you"}}`, 201)["id"].(string)
	}
	good, bad, long := run("good", `echo hello $SKALD_ARG_WHO $SKALD_ATTEMPT; cat`), run("bad", "exit 7"), run("long", "sleep 600")
	doc := y.becomes(good, "SUCCEEDED")
	if doc["exit_code"] != float64(0) {
		t.Errorf("%v", doc)
	}
	if doc := y.becomes(bad, "FAILED"); doc["exit_code"] != float64(7) {
		t.Errorf("%v", doc)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, y.url+"/api/v1/job-runs/"+good+"/logs", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/plain")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != "hello you 1\n{\"who\":\"you\"}\n" {
		t.Errorf("its log: %q, %v", text, err)
	}
	y.becomes(long, "RUNNING")
	y.must("POST", "/api/v1/job-runs/"+long+"/cancel", "", 202)
	y.becomes(long, "CANCELED")
}

// A detached worker of a node behaves like the worker library: it confirms and finishes the runs
// that it has, and registers under a new id.
func TestANodesDetachedWorkerFinishesWhatItHas(t *testing.T) {
	t.Parallel()
	dir, dsn := t.TempDir(), testdb.DSN(t)
	n := start(t, dsn, "own", func(cfg *config.Config) {
		cfg.Jobs.WorkerQueues, cfg.Jobs.WorkerShell = []string{"default"}, true
		cfg.Jobs.WorkerShellAllow = []string{"/bin/sh"}
	})
	y := &workerNode{node: n, t: t}
	y.must("PATCH", "/api/v1/settings", `{"values":{"heartbeat_interval_seconds":0.5,"run_lease_seconds":600}}`, 200)
	script := `: > ` + dir + `/began; until [ -e ` + dir + `/go ]; do sleep 0.1; done`
	y.must("POST", "/api/v1/job-definitions",
		`{"name":"slow","type":"manual","command_name":"shell","default_args":{"script":"`+script+`"}}`, 201)
	run := y.must("POST", "/api/v1/job-definitions/slow/runs", "", 201)["id"].(string)
	patience.Until(t, "the script runs", func() bool {
		_, err := os.Stat(dir + "/began")
		return err == nil
	})
	id := y.active()[0]
	y.must("POST", "/api/v1/workers/"+id+"/detach", `{"reason":"test"}`, 200)
	patience.Until(t, "the worker confirms its run", func() bool {
		return y.must("GET", "/api/v1/job-runs/"+run, "", 200)["continuation_state"] == "NONE"
	})
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if doc := y.becomes(run, "SUCCEEDED"); doc["attempt"] != float64(1) || doc["assigned_worker_id"] != id {
		t.Errorf("the run of the detached worker: %v", doc)
	}
	patience.Until(t, "the worker is there again", func() bool {
		now := y.active()
		return len(now) == 1 && now[0] != id
	})
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var left int
	err = db.SQL().QueryRowContext(t.Context(), `SELECT count(*) FROM jobs.workers WHERE state <> 'DETACHED'`).Scan(&left)
	if err != nil || left > 0 {
		t.Errorf("of a node that has stopped %d workers are left; %v", left, err)
	}
}

// A node does not begin a run if the database says that an older leader assigned it.
func TestANodesWorkerRefusesAnOlderEpoch(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	n := start(t, dsn, "own", func(cfg *config.Config) {
		cfg.Jobs.Scheduler = false // the test is the leader
		cfg.Jobs.WorkerQueues, cfg.Jobs.WorkerShell = []string{"default"}, true
		cfg.Jobs.WorkerShellAllow = []string{"/bin/sh"}
	})
	y := &workerNode{node: n, t: t}
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, _, err := leaderdb.NewElections(db).Acquire(t.Context(), uuid.New(), "test", time.Hour); err != nil {
		t.Fatal(err)
	}
	y.must("POST", "/api/v1/job-definitions",
		`{"name":"report","type":"manual","command_name":"shell","default_args":{"script":"true"}}`, 201)
	epoch := func(n int) {
		t.Helper()
		if _, err := db.SQL().ExecContext(t.Context(), `UPDATE jobs.leader SET epoch = $1`, n); err != nil {
			t.Fatal(err)
		}
	}
	epoch(7)
	y.becomes(y.run("{}"), "SUCCEEDED")
	epoch(3)
	stale := y.run("{}")
	y.becomes(stale, "ORPHANED")
	attempts := y.must("GET", "/api/v1/job-runs/"+stale+"/attempts", "", 200)["attempts"].([]any)
	if a := attempts[0].(map[string]any); a["started_at"] != nil || !strings.Contains(fmt.Sprint(a["reason"]), "epoch") {
		t.Errorf("a run of an older epoch: %v", a)
	}
	epoch(8)
	y.becomes(y.run("{}"), "SUCCEEDED")
}
