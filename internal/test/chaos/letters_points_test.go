package chaos

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// Letters of a sweep: this many are retried automatically, and the same number are redriven, in
// batches.
const (
	sweepLetters = 30
	sweepBatch   = 7
)

// TestEveryPointOfALetterIsSurvived kills a node at each point of a dead letter's life except those
// of ingestion, and restarts it: every letter must reach its target and be counted once.
func TestEveryPointOfALetterIsSurvived(t *testing.T) {
	bin := binary(t, buildFailpoints)
	for _, name := range failpoint.Letters {
		if slices.Contains(
			[]failpoint.Name{failpoint.IngestAfterPoll, failpoint.IngestAfterInsert, failpoint.IngestBeforeCommit},
			name,
		) {
			continue // covered by the tests of internal/kafka
		}
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			newMail(t, bin).dieAt(name)
		})
	}
}

// letterWorld is a node with dead letters, across all its processes, and the target of the letters.
type letterWorld struct {
	t      *testing.T
	bin    string
	addr   string
	dsn    string
	db     *sql.DB
	log    *nodeLog
	dir    string
	target string
	extra  []string // environment of each process

	mu   sync.Mutex
	sent map[string]int // number of requests, by letter
}

func newMail(t *testing.T, bin string) *letterWorld {
	t.Helper()
	m := &letterWorld{t: t, bin: bin, dsn: testdb.DSN(t), dir: t.TempDir(), sent: map[string]int{}}
	var err error
	if m.addr, err = testnet.Free(); err != nil {
		t.Fatal(err)
	}
	if m.log, err = openNodeLog(filepath.Join(m.dir, "node.log")); err != nil {
		t.Fatal(err)
	}
	if m.db, err = sql.Open("postgres", m.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.db.Close() })
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.sent[r.Header.Get("X-Dlq-Message-Id")]++
		m.mu.Unlock()
	}))
	t.Cleanup(s.Close)
	m.target = s.URL
	return m
}

// start starts a process of the node and waits until it is ready or has ended.
func (m *letterWorld) start(extra ...string) *process {
	m.t.Helper()
	m.log.newLife()
	cmd := exec.Command(m.bin, "serve")
	cmd.Dir, cmd.Stderr = m.dir, m.log
	cmd.Env = append(environment(
		"SKALD_DATABASE_URL="+m.dsn,
		"SKALD_LISTEN_ADDR="+m.addr,
		"SKALD_NODE_ID=mail",
		"SKALD_DLQ_LEASE=3s",
		"SKALD_DLQ_POLL_INTERVAL=20ms",
		fmt.Sprint("SKALD_DLQ_BATCH=", sweepBatch),
		"SKALD_DLQ_INITIAL_INTERVAL=10ms",
		"SKALD_DLQ_MAX_INTERVAL=10ms",
	), extra...)
	p, err := launch(cmd)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { p.signal(syscall.SIGKILL); <-p.done })
	m.await("the node to be ready", func() bool {
		if p.ended() {
			return true
		}
		res, err := http.Get("http://" + m.addr + "/readyz") //nolint:noctx // ends with the test
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return p
}

func (m *letterWorld) await(what string, ok func() bool) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience.Limit)
	defer cancel()
	for !ok() {
		if !pause(ctx, 20*time.Millisecond) {
			m.t.Fatalf("waited in vain for %s; the node's log is in %s", what, m.dir)
		}
	}
}

func (m *letterWorld) call(path string, body any) map[string]any {
	m.t.Helper()
	return m.request(http.MethodPost, path, body)
}

func (m *letterWorld) request(method, path string, body any) map[string]any {
	m.t.Helper()
	doc, err := json.Marshal(body)
	if err != nil {
		m.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(m.t.Context(), method, "http://"+m.addr+"/api/v1"+path, bytes.NewReader(doc))
	if err != nil {
		m.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	defer res.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil || res.StatusCode >= 300 {
		m.t.Fatalf("%s: %d %v %v", path, res.StatusCode, out, err)
	}
	return out
}

func (m *letterWorld) ask(query string, args ...any) (n int) {
	m.t.Helper()
	if err := m.db.QueryRowContext(m.t.Context(), query, args...).Scan(&n); err != nil {
		m.t.Fatal(err)
	}
	return n
}

func (m *letterWorld) execute(statement string, args ...any) {
	m.t.Helper()
	if _, err := m.db.ExecContext(m.t.Context(), statement, args...); err != nil {
		m.t.Fatal(err)
	}
}

// push stores letters that are retried only on request.
func (m *letterWorld) push(n int) (ids []string) {
	m.t.Helper()
	for range n {
		doc := m.call("/dlq/messages", map[string]any{
			"original_topic": "orders", "error_message": "no", "payload": map[string]any{"n": 1}, "max_retries": 20,
			"target": map[string]any{"kind": "http", "url": m.target},
		})
		letter, _ := doc["message"].(map[string]any)
		if letter == nil {
			letter = doc
		}
		id, _ := letter["id"].(string)
		ids = append(ids, id)
	}
	m.execute(
		`UPDATE dlq.dlq_messages SET next_retry_at = NULL WHERE id = ANY (string_to_array($1, ',')::uuid[])`,
		strings.Join(ids, ","),
	)
	return ids
}

func (m *letterWorld) dieAt(point failpoint.Name) {
	p := m.start("SKALD_DLQ_INITIAL_INTERVAL=1h", "SKALD_DLQ_MAX_INTERVAL=1h")
	due, bulk := m.push(sweepLetters), m.push(sweepLetters)
	redrive, _ := m.call("/dlq/redrives", map[string]any{
		"action":          "retry",
		"ids":             bulk,
		"rate_per_second": 1000,
		"reason":          "sweep",
		"scheduled_for":   time.Now().Add(time.Hour),
	})["id"].(string)
	p.signal(syscall.SIGTERM)
	<-p.done
	m.execute(
		`UPDATE dlq.dlq_messages SET next_retry_at = now() WHERE id = ANY (string_to_array($1, ',')::uuid[])`,
		strings.Join(due, ","),
	)
	m.execute(`UPDATE dlq.dlq_redrives SET scheduled_for = NULL WHERE id = $1`, redrive)
	if point == failpoint.LetterMidArchive {
		m.through(redrive)
		m.execute(`UPDATE dlq.dlq_messages SET terminal_at = now() - interval '100 days' WHERE status = 'RESOLVED'`)
		m.doomed(point, 1)
		m.start() // continue after the death of the previous process
		m.await("all letters to be archived", func() bool { return m.ask(`SELECT count(*) FROM dlq.dlq_messages`) == 0 })
		if n := m.ask(`SELECT count(*) FROM dlq.dlq_messages_archive`); n != 2*sweepLetters {
			m.t.Errorf("%d letters are archived, of %d", n, 2*sweepLetters)
		}
		return
	}
	m.doomed(point, 3)
	m.through(redrive)
	m.check(append(due, bulk...), redrive)
}

// doomed starts a node that dies when it reaches a point for the nth time.
func (m *letterWorld) doomed(point failpoint.Name, nth int) {
	m.t.Helper()
	p := m.start(fmt.Sprintf("SKALD_FAILPOINTS=%s=kill@%d", point, nth))
	if point == failpoint.LetterMidArchive { // a node archives only once a day or on request
		m.request(http.MethodPatch, "/settings", map[string]any{"values": jobSettings})
		m.call("/job-definitions/system.dlq.archive/runs", map[string]any{"reason": "sweep"})
	}
	m.await("the node to die", p.ended)
	if !p.killed() || !m.log.passed(string(point)) {
		m.t.Fatalf("the node stopped without dying at %s: %v", point, p.cmd.ProcessState)
	}
}

// through starts another process of the node, which completes the remaining work, and stops it.
func (m *letterWorld) through(redrive string) {
	m.t.Helper()
	p := m.start()
	m.await(
		"all letters to be resolved",
		func() bool { return m.ask(`SELECT count(*) FROM dlq.dlq_messages WHERE status <> 'RESOLVED'`) == 0 },
	)
	m.await("the redrive to be complete", func() bool {
		return m.ask(`SELECT count(*) FROM dlq.dlq_redrives WHERE id = $1 AND state = 'COMPLETED'`, redrive) == 1
	})
	p.signal(syscall.SIGTERM)
	<-p.done
}

// check compares the result with what is allowed after one death: each letter was sent and counted
// once, except that a batch in progress may have been sent twice.
func (m *letterWorld) check(ids []string, redrive string) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	repeated := 0
	for _, id := range ids {
		n := m.sent[id]
		if n == 0 {
			m.t.Errorf("letter %s is resolved and was never sent", id)
		}
		repeated += max(0, n-1)
	}
	if abandoned := m.ask(`SELECT count(*) FROM dlq.dlq_attempts WHERE outcome = 'ABANDONED'`); repeated > abandoned ||
		abandoned > 3*sweepBatch {
		m.t.Errorf("%d letters were sent again, %d retries were given up", repeated, abandoned)
	}
	if n := m.ask(`SELECT count(*) FROM dlq.dlq_redrives r WHERE r.id = $1 AND r.matched = $2 AND r.done + r.failed + r.skipped = r.matched
		AND r.done = (SELECT count(*) FROM dlq.dlq_redrive_items i WHERE i.redrive_id = r.id AND i.state = 'DONE')
		AND r.skipped = (SELECT count(*) FROM dlq.dlq_redrive_items i WHERE i.redrive_id = r.id AND i.state = 'SKIPPED')`, redrive, sweepLetters); n != 1 {
		m.t.Error("the redrive's counts are not those of its letters")
	}
	if n := m.ask(`SELECT count(*) FROM dlq.dlq_messages m WHERE m.retry_count <> (SELECT count(*) FROM dlq.dlq_attempts a WHERE a.message_id = m.id AND a.outcome = 'ABANDONED')`); n != 0 {
		m.t.Errorf("%d letters count retries that were not made", n)
	}
}
