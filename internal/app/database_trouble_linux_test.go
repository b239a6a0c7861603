package app_test

import (
	"database/sql"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/postgres/devpg"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// /readyz has its own words for each thing that may be wrong with the database, and says them at
// once, whether the database answers or not. Requests and pages end by their time limit.
func TestReadinessSaysWhatIsWrongWithTheDatabase(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir(), map[string]string{"fsync": "off", "max_connections": "30"})
	d := owner(t, server.DSN(devpg.Database))
	d.SetMaxOpenConns(1)
	run(t, d, `SET default_transaction_read_only = off`)
	listen := testnet.FreeAddress(t)
	says := func(what string, status int, words string) {
		t.Helper()
		patience.Until(t, what+": "+words, func() bool {
			began := time.Now()
			res, err := http.Get("http://" + listen + "/readyz")
			if err != nil {
				return false
			}
			doc := bodyOf(t, res)
			took := time.Since(began).Round(time.Millisecond)
			said := res.StatusCode == status && strings.Contains(doc, words)
			if said {
				t.Logf("%s: %s, after %s", what, words, took)
			}
			return said
		})
	}

	// Every connection is taken while the node starts.
	holder := owner(t, server.DSN("postgres"))
	var held []*sql.Conn
	for range 40 {
		if c, err := holder.Conn(t.Context()); err == nil {
			held = append(held, c)
		}
	}
	started := make(chan struct{})
	go func() {
		defer close(started)
		says("no connection left", http.StatusServiceUnavailable, "too many clients")
		for _, c := range held {
			c.Close()
		}
		holder.Close()
	}()
	n := start(t, server.DSN(devpg.Database), "troubled", func(c *config.Config) {
		c.Server.ListenAddr, c.Server.RequestTimeout = listen, time.Second
		c.Database.StatementTimeout, c.Database.IOTimeout = patience.Limit, 2*patience.Limit
	})
	<-started
	says("nothing wrong", http.StatusOK, "ok")

	// A node asks for the condition of its database every five seconds, so one trouble follows the other.
	undo := `SELECT 1`
	for _, tt := range []struct {
		what, do, undo string
		status         int
		words          string
	}{
		{"too new", `INSERT INTO saga.saga_schema_version (version, description) VALUES (99999, 'of a newer Skald')`,
			`DELETE FROM saga.saga_schema_version WHERE version = 99999`, http.StatusOK, "newer than this server"},
		{"too new, and without what it needs", `INSERT INTO saga.saga_schema_version (version, description)
			VALUES (99999, 'of a newer Skald'); UPDATE skald.schema_floor SET version = version + 99999`,
			`DELETE FROM saga.saga_schema_version WHERE version = 99999;
			UPDATE skald.schema_floor SET version = version - 99999`, http.StatusServiceUnavailable,
			"too new for this server"},
		{"too old", `UPDATE saga.saga_schema_version SET version = -version WHERE version > 300`,
			`UPDATE saga.saga_schema_version SET version = -version WHERE version < 0`, http.StatusServiceUnavailable,
			"too old for this server"},
		{"read-only", `ALTER SYSTEM SET default_transaction_read_only = on`,
			`ALTER SYSTEM RESET default_transaction_read_only`, http.StatusServiceUnavailable, "it is read-only"},
	} {
		run(t, d, undo, tt.do, `SELECT pg_reload_conf()`)
		says(tt.what, tt.status, tt.words)
		undo = tt.undo
	}
	run(t, d, undo, `SELECT pg_reload_conf()`)
	says("nothing wrong any more", http.StatusOK, "ok")

	thaw := testdb.Freeze(t, server.PID())
	says("hung", http.StatusServiceUnavailable, "does not answer")
	var asked sync.WaitGroup
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/api/v1/sagas", ""}, {"GET", "/ui/sagas", ""}, {"GET", "/ui/", ""},
		{"POST", "/api/v1/sagas", `{"workflow_name": "w", "steps": [{"name": "a",
			"action": {"http": {"url": "http://127.0.0.1:9"}}, "compensation": "none"}]}`},
		{"POST", "/api/v1/workflows", `{"name": "w", "steps": [{"name": "a",
			"action": {"http": {"url": "http://127.0.0.1:9"}}, "compensation": "none"}]}`},
	} {
		asked.Go(func() {
			began := time.Now()
			req, err := http.NewRequestWithContext(patience.Context(t), r.method, n.url+r.path, strings.NewReader(r.body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			body := bodyOf(t, res)
			took := time.Since(began)
			t.Logf("%s %s: %d after %s", r.method, r.path, res.StatusCode, took.Round(time.Millisecond))
			pages := strings.HasPrefix(r.path, "/ui/")
			if res.StatusCode != http.StatusServiceUnavailable || !pages && res.Header.Get("Retry-After") == "" {
				t.Errorf("%s %s: %d %s", r.method, r.path, res.StatusCode, body)
			}
		})
	}
	asked.Wait()
	thaw()
	says("thawed", http.StatusOK, "ok")
	if err := syscall.Kill(server.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	says("killed", http.StatusServiceUnavailable, "cannot be reached")
}

func bodyOf(t *testing.T, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}
