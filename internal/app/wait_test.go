package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
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
			// Only the log shows it from outside.
			patience.Until(t, "the node stops", func() bool { return strings.Contains(a.logs.String(), `"stopping"`) })
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
			_, doc := call(t, "GET", b.url+"/api/v1/sagas/"+id+"?wait=4m", "")
			answer <- doc
		}()
		// Only the metric shows it from outside.
		patience.Until(t, "the request waits", func() bool { return waitingAt(t, b) == "1" })
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

// waitingAt returns the metric of the requests that wait at a node.
func waitingAt(t *testing.T, n *node) string {
	t.Helper()
	found := waitingRequests.FindStringSubmatch(metrics(t, n))
	if found == nil {
		t.Fatal("no metric of requests that wait")
	}
	return found[1]
}

// TestRerunsAndRedrivesAnswerWhenTheyHaveEnded waits by Prefer at a node that neither leads nor
// drives what it waits for, and is notified by the other one.
func TestRerunsAndRedrivesAnswerWhenTheyHaveEnded(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	a := start(t, dsn, "a", func(c *config.Config) { c.Egress.AllowLoopback = true })
	b := start(t, dsn, "b", func(c *config.Config) { c.Jobs.Scheduler = false })
	release := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer target.Close()
	var worker string
	claimed := func() (id, fence string) {
		var runs []any
		patience.Until(t, "a run is claimed", func() bool {
			_, doc := call(t, "POST", a.url+"/api/v1/workers/"+worker+"/claim", `{"slots":1,"wait_ms":1000,"start":true}`)
			runs, _ = doc["runs"].([]any)
			return len(runs) == 1
		})
		r := runs[0].(map[string]any)
		return r["run_id"].(string), fmt.Sprintf(`{"worker_id":%q,"attempt":%v,"lease_token":%q,"leader_epoch":%v}`,
			worker, r["attempt"], r["lease_token"], r["leader_epoch"])
	}
	complete := func(id, fence string) {
		if status, doc := call(t, "POST", a.url+"/api/v1/job-runs/"+id+"/complete", fence); status != http.StatusOK {
			t.Errorf("complete: %d %v", status, doc)
		}
	}
	made := func(url, body string) map[string]any {
		status, doc := call(t, "POST", url, body)
		if status >= 300 {
			t.Fatalf("%s: %d %v", url, status, doc)
		}
		return doc
	}
	made(a.url+"/api/v1/job-definitions", `{"name":"report","type":"manual","command_name":"report"}`)
	worker = made(a.url+"/api/v1/workers", `{"name":"w","queues":["default"],"max_runs":10}`)["worker_id"].(string)
	first := made(a.url+"/api/v1/job-definitions/report/runs", `{}`)["id"].(string)
	complete(claimed())
	made(a.url+"/api/v1/dlq/messages", fmt.Sprintf(`{"original_topic":"t","error_message":"no","payload":{},
		"target":{"kind":"http","url":%q}}`, target.URL))
	for _, tt := range []struct {
		name, path, body, want string
		end                    func()
	}{
		{"a rerun", "/api/v1/job-runs/" + first + "/rerun", `{}`, "SUCCEEDED", func() { complete(claimed()) }},
		{"a redrive", "/api/v1/dlq/redrives", `{"action":"retry","filter":{"topic":"t"},"reason":"again","max_messages":1}`,
			"COMPLETED", func() { release <- struct{}{} }},
	} {
		// It would wait for longer than the test.
		req, err := http.NewRequestWithContext(t.Context(), "POST", b.url+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Prefer", "wait=600")
		type answered struct {
			res *http.Response
			doc map[string]any
			err error
		}
		answer := make(chan answered, 1)
		go func() {
			res, doc, err := answerOf(req)
			answer <- answered{res, doc, err}
		}()
		patience.Until(t, "the request waits", func() bool { return waitingAt(t, b) == "1" })
		tt.end()
		got := patience.Receive(t, "the request is answered", answer)
		if got.err != nil || got.doc["state"] != tt.want || got.res.Header.Get("Preference-Applied") != "wait=600" {
			t.Errorf("%s: %v %v %v", tt.name, got.res, got.doc, got.err)
		}
	}
}
