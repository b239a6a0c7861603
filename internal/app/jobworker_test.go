package app_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/testdb"
)

func TestANodeRunsProgramsWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	n := start(t, testdb.DSN(t), "own", func(cfg *config.Config) {
		cfg.Jobs.WorkerQueues, cfg.Jobs.WorkerShell, cfg.Jobs.WorkerShellAllow = []string{"system", "default"}, true, []string{"/bin/sh"}
	})
	y := &yard{node: n, t: t}
	y.must("POST", "/api/v1/job-definitions", `{"name":"hello","type":"manual","command_name":"shell"}`, 201)
	run := func(args string) string {
		t.Helper()
		return y.must("POST", "/api/v1/job-definitions/hello/runs", `{"args":`+args+`}`, 201)["id"].(string)
	}
	good, bad, long := run(`{"script":"echo hello $SKALD_ATTEMPT"}`), run(`{"script":"exit 7"}`), run(`{"script":"sleep 600"}`)
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
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != "hello 1\n" {
		t.Errorf("its log: %q, %v", text, err)
	}
	y.becomes(long, "RUNNING")
	y.must("POST", "/api/v1/job-runs/"+long+"/cancel", "", 202)
	y.becomes(long, "CANCELED")
}
