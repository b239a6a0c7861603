package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// client runs one of PostgreSQL's client programs, which come with the server's.
func client(t *testing.T, program string, args ...string) {
	t.Helper()
	bin, err := devpg.FindBinaries(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(bin, program)
	if _, err := os.Stat(path); err != nil {
		if path, err = exec.LookPath(program); err != nil {
			t.Fatalf(
				"%s is neither in %s nor on the PATH: this test needs PostgreSQL's client programs (apt-get install postgresql-client)",
				program,
				bin,
			)
		}
	}
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args[:len(args)-1], err, out)
	}
}

// calls records the calls of participants: the body by the key "saga/step/action".
type calls struct {
	mu     sync.Mutex
	bodies map[string]string // guarded by mu
	times  map[string]int    // guarded by mu
	hold   chan struct{}     // until it is closed, calls named in held wait
	held   sync.Map          // path → bool
	t      *testing.T
}

func (c *calls) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key := r.Header.Get("Idempotency-Key")
	c.mu.Lock()
	if before, ok := c.bodies[key]; ok && before != string(body) {
		c.t.Errorf("%s was sent with two bodies:\n%s\n%s", key, before, body)
	}
	c.bodies[key] = string(body)
	c.times[key]++
	hold := c.hold
	c.mu.Unlock()
	if _, held := c.held.Load(r.URL.Path); held {
		select {
		case <-hold:
		case <-r.Context().Done(): // the node has stopped
			return
		}
	}
	if r.URL.Path == "/two" && strings.Contains(string(body), `"refuse":true`) {
		w.WriteHeader(http.StatusConflict)
		return
	}
	_, _ = io.WriteString(w, `{"ok":true}`)
}

// seen waits until n calls of one kind have arrived.
func (c *calls) seen(suffix string, n int) {
	c.t.Helper()
	patience.Until(c.t, fmt.Sprintf("%d calls of %s", n, suffix), func() bool {
		got := 0
		c.mu.Lock()
		defer c.mu.Unlock()
		for key := range c.bodies {
			if strings.HasSuffix(key, suffix) {
				got++
			}
		}
		return got >= n
	})
}

func (c *calls) count(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times[key]
}

// The seed's dump command, `pg_dump -n saga`, during full operation; the new node finds only
// what was restored into an empty database.
func TestADumpedSchemaRestoredElsewhereIsFinishedByTheEngine(t *testing.T) {
	t.Parallel()
	c := &calls{t: t, bodies: map[string]string{}, times: map[string]int{}, hold: make(chan struct{})}
	participant := httptest.NewServer(c)
	defer participant.Close()
	dsn := testdb.DSN(t)
	short := func(cfg *config.Config) {
		cfg.Engine.DrainTimeout = 0                      // no request waits for calls that are held
		cfg.Engine.SlowStepAfter = 50 * time.Millisecond // calls in flight are recorded as RUNNING
	}
	a := start(t, dsn, "a", short)
	if status, doc := call(t, "POST", a.url+"/api/v1/workflows",
		strings.ReplaceAll(twoSteps, "URL", participant.URL)); status != 201 {
		t.Fatalf("register: %d %v", status, doc)
	}
	begin := func(payload, query string) string {
		t.Helper()
		status, doc := call(t, "POST", a.url+"/api/v1/sagas"+query, `{"workflow_name": "pair", "payload": `+payload+`}`)
		if status != 201 {
			t.Fatalf("create: %d %v", status, doc)
		}
		return doc["saga_id"].(string)
	}
	var forward, backward, ended []string
	for range 3 {
		ended = append(ended, begin(`{}`, "?wait=4m"))
	}
	c.held.Store("/one/undo", true)
	for range 5 {
		backward = append(backward, begin(`{"refuse":true}`, ""))
	}
	c.seen("/one/compensate", 5)
	c.held.Store("/two", true)
	for range 5 {
		forward = append(forward, begin(`{}`, ""))
	}
	c.seen("/two/execute", 3+5+5)

	file := filepath.Join(t.TempDir(), "saga.dump")
	client(t, "pg_dump", "-n", "saga", "-Fc", "-f", file, dsn)
	lost := begin(`{}`, "") // accepted after the dump: not in it
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	restored := testdb.Empty(t)
	client(t, "pg_restore", "--exit-on-error", "--single-transaction", "--no-owner", "-d", restored, file)
	close(c.hold)
	b := start(t, restored, "b", short)

	status := func(id string) map[string]any {
		t.Helper()
		_, doc := call(t, "GET", b.url+"/api/v1/sagas/"+id+"?wait=4m", "")
		return doc
	}
	for _, id := range ended {
		if doc := status(id); doc["status"] != "COMPLETED" || c.count(id+"/one/execute") != 1 ||
			c.count(id+"/two/execute") != 1 {
			t.Errorf(
				"%s had ended before the dump: %v, called %d and %d times",
				id,
				doc["status"],
				c.count(id+"/one/execute"),
				c.count(id+"/two/execute"),
			)
		}
	}
	for _, id := range forward {
		if doc := status(id); doc["status"] != "COMPLETED" || c.count(id+"/one/execute") != 1 ||
			c.count(id+"/two/execute") != 2 {
			t.Errorf(
				"%s was at step two: %v, calls of one %d, of two %d; want COMPLETED, 1, 2 with one key",
				id,
				doc["status"],
				c.count(id+"/one/execute"),
				c.count(id+"/two/execute"),
			)
		}
	}
	for _, id := range backward {
		if doc := status(id); doc["status"] != "FAILED" || doc["clean"] != true || c.count(id+"/one/compensate") != 2 {
			t.Errorf(
				"%s was undoing step one: %v, clean %v, %d undos; want FAILED, clean, 2 with one key",
				id,
				doc["status"],
				doc["clean"],
				c.count(id+"/one/compensate"),
			)
		}
	}
	if doc := status(lost); doc["status"] != 404.0 {
		t.Errorf("a saga that was accepted after the dump: %v, want 404", doc["status"])
	}
	if code, doc := call(t, "POST", b.url+"/api/v1/sagas?wait=4m", `{"workflow_name": "pair"}`); code != 201 ||
		doc["status"] != "COMPLETED" {
		t.Errorf("a new saga: %d %v", code, doc)
	}
	var waiting int
	err := owner(
		t,
		restored,
	).QueryRowContext(context.Background(), `SELECT count(*) FROM saga.saga_states WHERE completed_at IS NULL`).
		Scan(&waiting)
	if err != nil || waiting != 0 {
		t.Errorf("%d sagas are unfinished, %v", waiting, err)
	}
}
