package app_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

const (
	masterOne = "one:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="
	masterTwo = "two:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI="
)

// A node is stopped with calls in flight; another one, with the next key first, reads what it
// has sealed, sends the same bytes again and compensates (invariant I7, threat T17).
func TestSealedSagasRunThroughARestartAndAnotherKey(t *testing.T) {
	t.Parallel()
	c := &calls{t: t, bodies: map[string]string{}, times: map[string]int{}, hold: make(chan struct{})}
	participant := httptest.NewServer(c)
	defer participant.Close()
	dsn := testdb.DSN(t)
	with := func(keys string) func(*config.Config) {
		return func(cfg *config.Config) {
			cfg.Encryption.Keys = config.Secret(keys)
			cfg.Engine.DrainTimeout = 0
			cfg.Engine.SlowStepAfter = 50 * time.Millisecond // calls in flight are recorded as RUNNING
		}
	}
	a := start(t, dsn, "a", with(masterOne))
	if status, doc := call(t, "POST", a.url+"/api/v1/workflows",
		strings.ReplaceAll(twoSteps, "URL", participant.URL)); status != 201 {
		t.Fatalf("register: %d %v", status, doc)
	}
	begin := func(payload string) string {
		t.Helper()
		status, doc := call(t, "POST", a.url+"/api/v1/sagas", `{"workflow_name": "pair", "payload": `+payload+`}`)
		if status != 201 {
			t.Fatalf("create: %d %v", status, doc)
		}
		return doc["saga_id"].(string)
	}
	c.held.Store("/two", true)
	forward, backward := begin(`{"who": "canary-1", "sum": 1.50}`), begin(`{"who": "canary-2", "refuse": true}`)
	c.seen("/two/execute", 2)
	d := owner(t, dsn)
	patience.Until(t, "the calls in flight are in the log", func() bool {
		var running int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM saga.saga_step_logs WHERE status = 'RUNNING'`).Scan(&running); err != nil {
			t.Fatal(err)
		}
		return running == 2
	})
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	close(c.hold)
	b := start(t, dsn, "b", with(masterTwo+","+masterOne))
	for _, tt := range []struct{ id, status, who string }{{forward, "COMPLETED", "canary-1"},
		{backward, "FAILED", "canary-2"}} {
		_, doc := call(t, "GET", b.url+"/api/v1/sagas/"+tt.id+"?wait=4m", "")
		payload, _ := doc["payload"].(map[string]any)
		if doc["status"] != tt.status || payload["who"] != tt.who {
			t.Errorf("saga %s: %v %v, want %s", tt.id, doc["status"], doc["payload"], tt.status)
		}
		if n := c.count(tt.id + "/two/execute"); n != 2 { // calls compares the bodies
			t.Errorf("step two was called %d times, want 2", n)
		}
		text, _ := json.Marshal(doc["step_logs"])
		if !strings.Contains(string(text), tt.who) {
			t.Errorf("the step logs have no bodies: %s", text)
		}
	}
	if n := c.count(backward + "/one/compensate"); n != 1 {
		t.Errorf("step one was undone %d times, want 1", n)
	}
	var plain int
	err := d.QueryRowContext(t.Context(), `
		SELECT (SELECT count(*) FROM saga.saga_states r WHERE r::text LIKE '%canary%')
		     + (SELECT count(*) FROM saga.saga_step_logs r WHERE r::text LIKE '%canary%')
		     + (SELECT count(*) FROM saga.audit_events r WHERE r::text LIKE '%canary%')`).Scan(&plain)
	if err != nil || plain != 0 {
		t.Errorf("%d rows show what was said, %v", plain, err)
	}
	if status, doc := call(t, "GET", b.url+"/api/v1/audit/verify", ""); status != http.StatusOK ||
		doc["first_bad"] != nil {
		t.Errorf("the audit trail: %d %v", status, doc)
	}
	for name, n := range map[string]*node{"a": a, "b": b} {
		if strings.Contains(n.logs.String(), "canary") || strings.Contains(n.logs.String(), "cannot be decrypted") {
			t.Errorf("the log of %s:\n%s", name, n.logs)
		}
	}
}

func TestANodeThatLacksAKeyDoesNotStart(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	if err := start(t, dsn, "a", func(c *config.Config) { c.Encryption.Keys = masterOne }).stop(); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default(config.Test)
	cfg.Database.URL, cfg.Server.ListenAddr = config.Secret(dsn), "127.0.0.1:0"
	err := app.Run(t.Context(), cfg, app.Options{Log: slog.New(slog.DiscardHandler)})
	if want := "the database has content encrypted with key one, which is missing from encryption.keys"; err == nil ||
		err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
