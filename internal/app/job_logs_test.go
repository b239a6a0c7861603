package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// jobWorker is a worker that calls a node.
type jobWorker struct {
	t    *testing.T
	url  string
	id   string
	held map[string]string // run → its fence, as JSON members
}

func newJobWorker(t *testing.T, url string) *jobWorker {
	t.Helper()
	status, doc := call(t, "POST", url+"/api/v1/workers", `{"name":"w"}`)
	if status != 201 {
		t.Fatalf("register: %d %v", status, doc)
	}
	return &jobWorker{t, url, doc["worker_id"].(string), map[string]string{}}
}

// next returns the next run, already started.
func (w *jobWorker) next() (run string) {
	w.t.Helper()
	status, doc := call(w.t, "POST", w.url+"/api/v1/workers/"+w.id+"/claim", `{"slots":1,"start":true,"wait_ms":20000}`)
	runs, _ := doc["runs"].([]any)
	if status != 200 || len(runs) != 1 {
		w.t.Fatalf("claim: %d %v", status, doc)
	}
	r := runs[0].(map[string]any)
	run = r["run_id"].(string)
	w.held[run] = fmt.Sprintf(
		`"worker_id":%q,"attempt":%v,"lease_token":%q,"leader_epoch":%v`,
		w.id,
		r["attempt"],
		r["lease_token"],
		r["leader_epoch"],
	)
	return run
}

func (w *jobWorker) calls(run, what, more string) {
	w.t.Helper()
	if status, doc := call(w.t, "POST", w.url+"/api/v1/job-runs/"+run+"/"+what, `{`+w.held[run]+more+`}`); status != 200 {
		w.t.Fatalf("%s: %d %v", what, status, doc)
	}
}

// logOf returns a log as text.
func logOf(t *testing.T, url, run string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/api/v1/job-runs/"+run+"/logs", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/plain")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Errorf("read the log: %d, %v", res.StatusCode, err)
	}
	return string(content)
}

// TestALogIsReadTheSameAfterItHasMoved runs a job, moves its log immediately and reads it
// again, sealed, on a node whose Redis is down.
func TestALogIsReadTheSameAfterItHasMoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := start(t, testdb.DSN(t), "a", func(c *config.Config) {
		c.Jobs.LogOffloadURL, c.Jobs.UpkeepInterval = "file://"+dir, 20*time.Millisecond
		c.Jobs.RedisURL = "redis://127.0.0.1:1"
		c.Encryption.Keys = masterOne
	})
	if status, doc := call(t, "POST", n.url+"/api/v1/job-definitions", `{"name":"report","type":"manual","command_name":"print"}`); status != 201 {
		t.Fatalf("define: %d %v", status, doc)
	}
	if status, doc := call(t, "POST", n.url+"/api/v1/job-definitions/report/runs", `{}`); status != 201 {
		t.Fatalf("run: %d %v", status, doc)
	}
	w := newJobWorker(t, n.url)
	run := w.next()
	for i := range 20 {
		w.calls(run, "logs", fmt.Sprintf(`,"seq":%d,"chunk":"line %d ✓\n"`, i, i))
	}
	w.calls(run, "complete", `,"exit_code":0`)
	before := logOf(t, n.url, run)
	if strings.Count(before, "✓\n") != 20 {
		t.Errorf("the log is %q", before)
	}
	if got := objects(t, dir, run); len(got) != 0 {
		t.Errorf("before its time there are %v", got)
	}
	if status, doc := call(t, "PATCH", n.url+"/api/v1/settings", `{"values":{"log_retention_days_db":0}}`); status != 200 {
		t.Fatalf("settings: %d %v", status, doc)
	}
	var ref string
	patience.Until(t, "the log moves", func() bool {
		status, doc := call(t, "GET", n.url+"/api/v1/job-runs/"+run, "")
		if status != 200 {
			t.Fatalf("read the run: %d %v", status, doc)
		}
		ref, _ = doc["log_ref"].(string)
		return ref != ""
	})
	if got := objects(t, dir, run); len(got) != 1 || got[0] != ref ||
		strings.Contains(n.logs.String(), "stays in the database") {
		t.Errorf("ref %q; there are %v\n%s", ref, got, n.logs)
	}
	if after := logOf(t, n.url, run); after != before {
		t.Errorf("after it has moved the log is %q", after)
	}
	for query, want := range map[string]string{
		"tail_bytes=13": "line 18 ✓\nline 19 ✓\n", "before=1.2&tail_bytes=1": "line 1 ✓\n",
		"before=1.2": "line 0 ✓\nline 1 ✓\n",
	} {
		res, err := http.Get(n.url + "/api/v1/job-runs/" + run + "/logs?format=text&" + query)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if string(text) != want || err != nil {
			t.Errorf("%s of a log that has moved: %q %v", query, text, err)
		}
	}
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(n.logs.String()) {
		var entry struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Level == "ERROR" {
			t.Errorf("it is logged: %s", line)
		}
	}
	if !strings.Contains(n.logs.String(), "Redis is unreachable") {
		t.Error("nobody is told that Redis is not there")
	}
}

// objects lists what a log store has of a run. Jobs that every server has are due at full hours, and have logs too.
func objects(t *testing.T, dir, run string) (refs []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, run) && !strings.Contains(path, ".unfinished") {
			rel, relErr := filepath.Rel(dir, path)
			refs, err = append(refs, filepath.ToSlash(rel)), relErr
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was being written at that moment
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return refs
}
