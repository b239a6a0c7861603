package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	_ "github.com/lib/pq"

	"github.com/skald-saga/skald/api/participant"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// packer is a participant that uses the library and answers later: an order is noted, and a worker
// packs it.
type packer struct {
	*participant.Handler
	db    *sql.DB
	noted chan string // keys
}

// newPacker starts a process of the participant. Processes share only the database.
func newPacker(t *testing.T, dsn string) *packer {
	t.Helper()
	db, err := participant.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	store, err := participant.SQL(db, participant.PostgreSQL)
	if err != nil {
		t.Fatal(err)
	}
	p := &packer{db: db, noted: make(chan string, 10)}
	p.Handler, err = participant.New(participant.Config{
		Store: store,
		Execute: func(_ context.Context, _ *sql.Tx, c *participant.Call) (any, error) {
			key := c.Key
			c.AfterCommit(func() { p.noted <- key })
			return participant.Later, nil
		},
		Compensate: func(ctx context.Context, tx *sql.Tx, c *participant.Call) (any, error) {
			_, err := tx.ExecContext(ctx, `INSERT INTO packed VALUES ($1)`, c.Key)
			return nil, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pack is the worker.
func (p *packer) pack(ctx context.Context, key string) (*participant.Report, error) {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit, it does nothing
	if _, err := tx.ExecContext(ctx, `INSERT INTO packed VALUES ($1)`, key); err != nil {
		return nil, err
	}
	report, err := p.Finish(ctx, tx, key, map[string]string{"parcel": "p_7"}, nil)
	if err != nil {
		return nil, err
	}
	return report, tx.Commit()
}

// packed returns how often the order of a saga was packed, and how often it was unpacked.
func (p *packer) packed(t *testing.T, saga string) (n int) {
	t.Helper()
	err := p.db.QueryRowContext(t.Context(), `SELECT count(*) FROM packed WHERE key LIKE '%' || $1 || '%'`, saga).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The server is killed while a participant that uses the library works, the participant is killed
// between its commit and its report, and a saga is canceled during the work.
func TestTheLibraryAnswersLater(t *testing.T) {
	t.Parallel()
	theirs := testdb.Empty(t)
	p := newPacker(t, theirs)
	_, err := p.db.ExecContext(t.Context(),
		participant.Migration(participant.PostgreSQL)+`CREATE TABLE packed (key text NOT NULL)`)
	if err != nil {
		t.Fatal(err)
	}
	var current atomic.Pointer[packer] // the running process of the participant
	current.Store(p)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		current.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	dsn, address := testdb.DSN(t), testnet.FreeAddress(t)
	env, url := []string{"SKALD_LISTEN_ADDR=" + address}, "http://"+address // callbacks go there even after a restart
	killed, _, _ := launch(t, dsn, env)
	t.Cleanup(func() {
		_ = killed.Process.Kill() // unless the test got so far
		_ = killed.Wait()
	})
	ready(t, url)
	start := func(workflow string) (saga, key string) {
		saga = must(t, "POST", url+"/api/v1/sagas", `{"workflow_name":"`+workflow+`"}`)["saga_id"].(string)
		return saga, patience.Receive(t, "the order is noted", p.noted)
	}
	for name, wait := range map[string]string{"long": "3600000", "short": "1000"} {
		must(t, "POST", url+"/api/v1/workflows", `{"name":"`+name+`","steps":[{"name":"pack","action":{"http":{"url":"`+
			server.URL+`"}},"answer":{"later":"status == 202","later_ms":`+wait+`},"compensation":{"http":{"url":"`+
			server.URL+`"}}}]}`)
	}

	// The server is down when the work ends.
	saga, key := start("long")
	patience.Until(t, "a heartbeat is taken", func() bool {
		return p.Heartbeat(t.Context(), key, participant.Progress{Percent: 40}) == nil
	})
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	report, err := p.pack(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() { sent <- report.Send(t.Context()) }()
	again, _, _ := launch(t, dsn, env)
	t.Cleanup(func() {
		_ = again.Process.Kill()
		_ = again.Wait()
	})
	ready(t, url)
	if err := patience.Receive(t, "the report is delivered", sent); err != nil {
		t.Error(err)
	}
	completed(t, url, saga)

	// The participant is lost between its commit and its report, and another process of it is
	// called again.
	saga, key = start("short")
	if _, err := p.pack(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	current.Store(newPacker(t, theirs))
	completed(t, url, saga)
	if n := p.packed(t, saga); n != 1 {
		t.Errorf("packed %d times after a lost report", n)
	}
	current.Store(p)

	// The saga is canceled during the work: the work is rolled back.
	saga, key = start("long")
	must(t, "POST", url+"/api/v1/sagas/"+saga+"/cancel", `{}`)
	if doc := must(t, "GET", url+"/api/v1/sagas/"+saga+"?wait=1m", ""); doc["status"] != "CANCELLED" {
		t.Errorf("the canceled saga is %v", doc["status"])
	}
	if _, err := p.pack(t.Context(), key); !errors.Is(err, participant.ErrCompensated) {
		t.Errorf("the end of work that was compensated: %v", err)
	}
	if n := p.packed(t, saga); n != 0 {
		t.Errorf("packed %d times after a cancel", n)
	}
}

// completed waits until a saga has completed with what was reported.
func completed(t *testing.T, url, saga string) {
	t.Helper()
	doc := must(t, "GET", url+"/api/v1/sagas/"+saga+"?wait=1m", "")
	if result, _ := json.Marshal(doc["result"]); doc["status"] != "COMPLETED" || string(result) != `{"pack":{"parcel":"p_7"}}` {
		t.Errorf("the saga is %v, with %s", doc["status"], result)
	}
}
