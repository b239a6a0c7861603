package app_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/skald-saga/skald/internal/config"
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
