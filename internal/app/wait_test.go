package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestAnotherNodesWaiterIsAnswered waits at one node for sagas that another drives: told by
// it, after the connection that listens was cut, and after the driving node has stopped.
func TestAnotherNodesWaiterIsAnswered(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/one" {
			<-release
		}
		io.WriteString(w, `{}`)
	}))
	defer participant.Close()
	dsn := testdb.DSN(t)
	a, b := start(t, dsn, "a"), start(t, dsn, "b")
	call(t, "POST", a.url+"/api/v1/workflows", strings.ReplaceAll(twoSteps, "URL", participant.URL))
	stopped := make(chan error, 1)
	for _, tt := range []struct {
		name      string
		meanwhile func()
	}{
		{"nothing else happens", func() { release <- struct{}{} }},
		{"the listening connections are cut", func() {
			execute(t, dsn, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND query ILIKE 'LISTEN%'`)
			release <- struct{}{}
		}},
		{"the driving node stops", func() {
			go func() { stopped <- a.stop() }()
			for !strings.Contains(a.logs.String(), `"stopping"`) {
				time.Sleep(time.Millisecond) // only the log shows it from outside
			}
			release <- struct{}{}
			if err := <-stopped; err != nil {
				t.Errorf("stop: %v", err)
			}
		}},
	} {
		_, doc := call(t, "POST", a.url+"/api/v1/sagas", `{"workflow_name": "pair"}`)
		id := doc["saga_id"].(string)
		answer := make(chan map[string]any, 1)
		go func() {
			_, doc := call(t, "GET", b.url+"/api/v1/sagas/"+id+"?wait=30s", "")
			answer <- doc
		}()
		for waitingAt(t, b) != "1" {
			time.Sleep(time.Millisecond) // only the metric shows it from outside
		}
		tt.meanwhile()
		if doc := <-answer; doc["status"] != "COMPLETED" || len(doc["step_logs"].([]any)) != 2 {
			t.Errorf("%s: the waiter was told %v", tt.name, doc)
		}
		if n := waitingAt(t, b); n != "0" {
			t.Errorf("%s: %s requests wait still", tt.name, n)
		}
	}
}

var waitingRequests = regexp.MustCompile(`(?m)^skald_waiting_requests (\d+)$`)

// waitingAt is the metric of the requests that wait at a node.
func waitingAt(t *testing.T, n *node) string {
	t.Helper()
	found := waitingRequests.FindStringSubmatch(metrics(t, n))
	if found == nil {
		t.Fatal("no metric of requests that wait")
	}
	return found[1]
}
