package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestRolesSplitTheWorkBetweenProcesses has one process accept requests and schedule, and
// another drive sagas and execute job runs.
func TestRolesSplitTheWorkBetweenProcesses(t *testing.T) {
	dsn := testdb.DSN(t)
	front := serveRoles(t, dsn, nil, "--roles", "api,scheduler,ingest")
	back := serveRoles(t, dsn, []string{"SKALD_ROLES=engine,worker"})
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

// serveRoles starts the program and returns its URL once it is ready.
func serveRoles(t *testing.T, dsn string, env []string, flags ...string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"serve"}, flags...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), log, log
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"), "SKALD_ENV=test", "SKALD_AUTH_MODE=off",
		"SKALD_NODE_ID="+addr, "SKALD_LISTEN_ADDR="+addr, "SKALD_DATABASE_URL="+dsn)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		hurry := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil || t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Errorf("%v ended with %v:\n%s", flags, err, text)
		}
		hurry.Stop()
	})
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if res, err := http.Get("http://" + addr + "/readyz"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return "http://" + addr
			}
		}
	}
	t.Fatalf("the process with %v is not ready after two minutes", append(env, flags...))
	return ""
}

// ask makes a request and decodes its JSON answer.
func ask(t *testing.T, method, url, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var doc map[string]any
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		t.Fatalf("%s %s: %d, %v", method, url, res.StatusCode, err)
	}
	return res.StatusCode, doc
}

func must(t *testing.T, method, url, body string) map[string]any {
	t.Helper()
	status, doc := ask(t, method, url, body)
	if status/100 != 2 {
		t.Fatalf("%s %s: %d %v", method, url, status, doc)
	}
	return doc
}

// awaitDoc waits until a member of a resource has a value.
func awaitDoc(t *testing.T, url, member, want string) map[string]any {
	t.Helper()
	var doc map[string]any
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if doc = must(t, "GET", url, ""); doc[member] == want {
			return doc
		}
	}
	t.Fatalf("%s: %v, and %s is not %s", url, doc, member, want)
	return nil
}
