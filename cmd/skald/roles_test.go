package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestRolesSplitTheWorkBetweenProcesses lets one process accept requests and schedule, and another
// drive sagas and execute job runs.
func TestRolesSplitTheWorkBetweenProcesses(t *testing.T) {
	dsn := testdb.DSN(t)
	off := "SKALD_AUTH_MODE=off"
	front, _ := serve(t, dsn, []string{off}, "--roles", "api,scheduler,ingest")
	back, _ := serve(t, dsn, []string{off, "SKALD_ROLES=engine,worker"})
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	}))
	defer participant.Close()

	if status, doc := ask(t, "GET", back+"/api/v1/sagas", ""); status != 404 || doc["code"] != "REQ_NOT_FOUND" {
		t.Errorf("a process without the role api answers %d %v", status, doc)
	}
	must(t, "POST", front+"/api/v1/workflows", `{"name":"one","steps":[{"name":"a","action":{"http":{"url":"`+participant.URL+`"}},"compensation":"none"}]}`)
	saga := must(t, "POST", front+"/api/v1/sagas", `{"workflow_name":"one"}`)["saga_id"].(string)
	run := must(t, "POST", front+"/api/v1/job-definitions/system.invariants/runs", `{}`)["id"].(string)
	awaitDoc(t, front+"/api/v1/sagas/"+saga, "lifecycle", "completed")
	done := awaitDoc(t, front+"/api/v1/job-runs/"+run, "state", "SUCCEEDED")
	workers := must(t, "GET", front+"/api/v1/workers", "")["workers"].([]any)
	if len(workers) != 1 || "http://"+workers[0].(map[string]any)["node"].(string) != back ||
		workers[0].(map[string]any)["worker_id"] != done["assigned_worker_id"] {
		t.Errorf("the run %v was executed by one of %v; only %s has the role", done, workers, back)
	}
	leader := must(t, "GET", front+"/api/v1/scheduler/leader", "")
	if text := fmt.Sprint(leader); !strings.Contains(text, strings.TrimPrefix(front, "http://")) ||
		strings.Contains(text, strings.TrimPrefix(back, "http://")) {
		t.Errorf("the leader, and who may follow: %v", leader)
	}
}

func TestAnUnknownRoleIsRefused(t *testing.T) {
	t.Parallel()
	out, code := run(t, nil, "serve", "--roles", "api,cook")
	if code == 0 || !strings.Contains(out, "api, engine, scheduler, worker, ingest") {
		t.Errorf("%d: %s", code, out)
	}
}
