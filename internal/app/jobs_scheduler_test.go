package app_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// leaderOf returns the leader according to a node.
func leaderOf(t *testing.T, n *node) (node string, epoch float64) {
	t.Helper()
	status, doc := call(t, "GET", n.url+"/api/v1/scheduler/leader", "")
	if status != http.StatusOK {
		return "", 0
	}
	node, _ = doc["node"].(string)
	epoch, _ = doc["epoch"].(float64)
	if alive, _ := doc["alive"].(bool); !alive {
		node = ""
	}
	return node, epoch
}

// The runs of a definition with a schedule are created, whichever node leads; a node that may
// not lead does not.
func TestADefinitionWithAScheduleGetsItsRuns(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	never := start(t, dsn, "never", func(c *config.Config) { c.Jobs.Scheduler = false })
	first := start(t, dsn, "first")
	patience.Until(t, "the first leads", func() bool { n, _ := leaderOf(t, never); return n == "first" })
	status, doc := call(t, "POST", never.url+"/api/v1/job-definitions",
		`{"name":"tick","type":"time","command_name":"tick","schedule":{"type":"interval","value":"1s"}}`)
	if status != http.StatusCreated {
		t.Fatalf("%d: %v", status, doc)
	}
	runs := func() int {
		_, doc := call(t, "GET", never.url+"/api/v1/job-runs?trigger=TIME&page_size=200", "")
		list, _ := doc["job_runs"].([]any)
		return len(list)
	}
	patience.Until(t, "runs", func() bool { return runs() > 10 })
	metrics := func(n *node) string {
		res, err := http.Get(n.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	patience.Until(t, "metrics", func() bool {
		m := metrics(first)
		return strings.Contains(m, "skald_job_leader 1") && strings.Contains(m, `loop="job_scheduler"`) &&
			strings.Contains(m, `skald_job_sweep_rows_total{sweep="slots"}`)
	})
	if !strings.Contains(metrics(never), "skald_job_leader 0") {
		t.Error("a node that may not lead does")
	}
	second := start(t, dsn, "second")
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "the second leads", func() bool {
		n, epoch := leaderOf(t, second)
		return n == "second" && epoch == 2
	})
	if status, _ := call(t, "GET", never.url+"/readyz", ""); status != http.StatusOK {
		t.Errorf("a node that does not lead is not ready: %d", status)
	}
}
