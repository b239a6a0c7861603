package app_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// through returns dsn with addr in place of its server.
func through(t *testing.T, dsn, addr string) (there, server string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	server, u.Host = u.Host, addr
	return u.String(), server
}

// relay passes connections to addr on to server until the test ends.
func relay(t *testing.T, addr, server string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", server)
			if err != nil {
				_ = from.Close()
				continue
			}
			pass := func(a, b net.Conn) { _, _ = io.Copy(a, b); _ = a.Close(); _ = b.Close() }
			go pass(from, to)
			go pass(to, from)
		}
	}()
}

func TestANodeWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	at := testnet.FreeAddress(t)
	dsn, server := through(t, testdb.DSN(t), at)
	listen := testnet.FreeAddress(t)
	arrived := make(chan struct{})
	go func() { // meanwhile
		defer close(arrived)
		base := "http://" + listen
		patience.Until(t, "the node answers", func() bool {
			res, err := http.Get(base + "/healthz")
			if err == nil {
				_ = res.Body.Close()
			}
			return err == nil && res.StatusCode == http.StatusOK
		})
		patience.Until(t, "the node has tried to reach its database", func() bool {
			req, err := http.NewRequest("GET", base+"/readyz", nil)
			if err != nil {
				return false
			}
			_, doc, err := answerOf(req)
			return err == nil && strings.Contains(fmt.Sprint(doc["detail"]), "database")
		})
		for _, r := range []struct{ method, path, body string }{
			{"GET", "/readyz", ""}, {"GET", "/api/v1/sagas", ""}, {"POST", "/api/v1/sagas", `{"workflow_name":"w"}`},
			{"GET", "/skald/readyz", ""}, {"GET", "/metrics", ""}, {"GET", "/ui/", ""}, {"DELETE", "/healthz", ""},
		} {
			req, err := http.NewRequest(r.method, base+r.path, strings.NewReader(r.body))
			if err != nil {
				t.Error(err)
				return
			}
			res, doc, err := answerOf(req)
			if err != nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" ||
				doc["code"] != "SYS_UNAVAILABLE" || !strings.Contains(doc["detail"].(string), "database cannot be reached") {
				t.Errorf("%s %s: %v %v", r.method, r.path, doc, err)
			}
		}
		relay(t, at, server)
	}()
	n := start(t, dsn, "early", func(c *config.Config) { c.Server.ListenAddr, c.Server.BasePath = listen, "/skald" })
	<-arrived
	for _, path := range []string{"/readyz", "/skald/readyz", "/api/v1/sagas"} {
		if status, doc := call(t, "GET", n.url+path, ""); status != http.StatusOK {
			t.Errorf("%s, once the database is there: %d %v", path, status, doc)
		}
	}
	for said, want := range map[string]int{"waiting for the database": 1, "the database is usable": 1} {
		if n := strings.Count(n.logs.String(), said); n != want {
			t.Errorf("the log says %q %d times, want %d", said, n, want)
		}
	}
	linksBelow(t, n.url, "/skald")
}

func TestANodeThatWaitsForItsDatabaseStopsCleanly(t *testing.T) {
	t.Parallel()
	cfg := config.Default(config.Test)
	dsn, _ := through(t, testdb.DSN(t), testnet.ClosedAddress(t))
	cfg.Database.URL, cfg.Server.ListenAddr = config.Secret(dsn), "127.0.0.1:0"
	logs := &syncBuffer{}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx, cfg, app.Options{Log: slog.New(slog.NewJSONHandler(logs, nil))}) }()
	patience.Until(t, "it waits", func() bool { return strings.Contains(logs.String(), "waiting for the database") })
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// What is wrong with an answer of the database is not waited for.
func TestADatabaseThatRefusesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	cfg := config.Default(config.Test)
	u, err := url.Parse(testdb.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/no_such_database"
	cfg.Database.URL, cfg.Server.ListenAddr = config.Secret(u.String()), "127.0.0.1:0"
	err = app.Run(patience.Context(t), cfg, app.Options{Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "no_such_database") {
		t.Errorf("it ended with %v", err)
	}
}
