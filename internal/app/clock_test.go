package app_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// The clock of a node may be wrong by most of a minute, and every time is right anyway; beyond
// that the node says so, and others drive the sagas that it accepts.
func TestANodeWithAWrongClockKeepsTheDatabasesTime(t *testing.T) {
	t.Parallel()
	type attempt struct{ at, deadline time.Time }
	var mu sync.Mutex
	var attempts []attempt
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline, err := time.Parse(time.RFC3339Nano, r.Header.Get("X-Saga-Deadline"))
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		attempts = append(attempts, attempt{time.Now(), deadline})
		if len(attempts)%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, `{}`)
	}))
	defer participant.Close()
	dsn := testdb.DSN(t)
	run := func(url string) {
		t.Helper()
		code, doc := call(t, "POST", url+"/api/v1/sagas?wait=4m", `{"workflow_name": "once", "steps": [{"name": "a",
			"action": {"http": {"url": "`+participant.URL+`"}}, "compensation": "none",
			"retry": {"max_attempts": 3, "initial_interval_ms": 200}}]}`)
		if code != http.StatusCreated || doc["status"] != "COMPLETED" {
			t.Fatalf("%d %v", code, doc)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(attempts) != 2 {
			t.Fatalf("%d attempts", len(attempts))
		}
		for i, a := range attempts {
			if left := a.deadline.Sub(a.at); left < 5*time.Second || left > 45*time.Second { // of 30 s
				t.Errorf("attempt %d: X-Saga-Deadline is %v after the call", i, left)
			}
		}
		if waited := attempts[1].at.Sub(attempts[0].at); waited > 40*time.Second {
			t.Errorf("the retry came after %v, the clock is 55 s slow", waited)
		}
		attempts = nil
	}
	off := func(by time.Duration) func(*config.Config) {
		return func(c *config.Config) { c.Test.ClockOffset = by }
	}
	metric := func(url string) float64 {
		t.Helper()
		res, err := http.Get(url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		m := regexp.MustCompile(`(?m)^skald_clock_offset_seconds (\S+)$`).FindSubmatch(text)
		if m == nil {
			t.Fatal("there is no skald_clock_offset_seconds")
		}
		v, _ := strconv.ParseFloat(string(m[1]), 64)
		return v
	}
	for name, by := range map[string]time.Duration{"slow": -55 * time.Second, "fast": 55 * time.Second} {
		n := start(t, dsn, name, off(by))
		run(n.url)
		if v := metric(n.url); v-by.Seconds() > 2 || v-by.Seconds() < -2 {
			t.Errorf("%s: skald_clock_offset_seconds is %v", name, v)
		}
		if !strings.Contains(n.logs.String(), "differs from the database's; times are corrected") {
			t.Errorf("%s: no warning:\n%s", name, n.logs)
		}
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	}

	right := start(t, dsn, "right")
	if v := metric(right.url); v > 0.5 || v < -0.5 {
		t.Errorf("a right clock is off by %v", v)
	}
	cfg := config.Default(config.Test)
	cfg.Database.URL, cfg.Engine.NodeID = config.Secret(dsn), "wrong"
	cfg.Server.ListenAddr = testnet.FreeAddress(t)
	cfg.Server.MaxWait, cfg.Server.WriteTimeout = 10*time.Minute, 20*time.Minute
	off(-10 * time.Minute)(&cfg)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	logs := &syncBuffer{}
	go func() {
		ended <- app.Run(ctx, cfg, app.Options{
			EUID: 1000, Log: slog.New(slog.NewTextHandler(logs, nil)), Ready: func(string) { t.Error("it is ready") },
		})
	}()
	url := "http://" + cfg.Server.ListenAddr
	patience.Until(t, "the node says that its clock is wrong", func() bool {
		res, err := http.Get(url + "/readyz")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), "the clock of this node differs")
	})
	run(url)
	if text := logs.String(); strings.Contains(text, "node registered") ||
		strings.Count(text, "the clock of this node differs from the database's by more than a minute") != 1 {
		t.Errorf("the log:\n%s", text)
	}
	stop()
	if err := patience.Receive(t, "the end of the node", ended); err != nil {
		t.Error(err)
	}
}
