package app_test

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/testdb"
)

func newToken(t *testing.T) string {
	t.Helper()
	var chance [access.EntropyBytes]byte
	if _, err := rand.Read(chance[:]); err != nil {
		t.Fatal(err)
	}
	return string(access.NewToken(chance))
}

// status makes a request with a credential and returns the answer's status.
func status(t *testing.T, method, url, credential string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if credential != "" {
		req.Header.Set("X-API-Key", credential)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// bootstrapped gives a node a bootstrap admin key.
func bootstrapped(token string) func(*config.Config) {
	return func(c *config.Config) { c.Auth.BootstrapAdminKey = config.Secret(token) }
}

func TestNodesThatStartTogetherShareTheBootstrapKey(t *testing.T) {
	dsn, token := testdb.DSN(t), newToken(t)
	var all sync.WaitGroup
	nodes := make([]*node, 4)
	for i := range nodes {
		all.Go(func() { nodes[i] = start(t, dsn, string(rune('a'+i)), bootstrapped(token)) })
	}
	all.Wait()
	for i, n := range nodes {
		if n == nil {
			t.Fatalf("node %d did not start", i)
		}
		if got := status(t, "GET", n.url+"/api/v1/sagas", token); got != 200 {
			t.Errorf("node %d: %d with the key", i, got)
		}
		if got := status(t, "GET", n.url+"/api/v1/sagas", ""); got != 401 {
			t.Errorf("node %d: %d without the key", i, got)
		}
		if got := status(t, "GET", n.url+"/metrics", ""); got != 200 {
			t.Errorf("node %d: %d for its metrics", i, got)
		}
		if strings.Contains(n.logs.String(), token) {
			t.Errorf("node %d logged the key", i)
		}
	}
}

// TestARevokedKeyIsRefusedByEveryNodeWithinFiveSeconds waits in real time: the
// bound is a promise to operators, and the nodes share nothing but the database.
func TestARevokedKeyIsRefusedByEveryNodeWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	dsn, token := testdb.DSN(t), newToken(t)
	a, b := start(t, dsn, "a", bootstrapped(token)), start(t, dsn, "b", bootstrapped(token))
	req, err := http.NewRequestWithContext(t.Context(), "POST", a.url+"/api/v1/api-keys", strings.NewReader(`{"name":"x","role":"auditor"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	made := do(t, req, token)
	key, id := made["key"].(string), made["api_key"].(map[string]any)["id"].(string)
	for _, n := range []*node{a, b} {
		if got := status(t, "GET", n.url+"/api/v1/whoami", key); got != 200 {
			t.Fatalf("a new key: %d", got)
		}
	}
	if got := status(t, "POST", a.url+"/api/v1/api-keys/"+id+"/revoke", token); got != 200 {
		t.Fatalf("revoke: %d", got)
	}
	revoked := time.Now()
	for _, n := range []*node{a, b} {
		for status(t, "GET", n.url+"/api/v1/whoami", key) != 401 {
			if time.Since(revoked) > 5*time.Second {
				t.Fatal("a key revoked five seconds ago still counts")
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func TestARevokedBootstrapKeyStaysRevoked(t *testing.T) {
	dsn, token := testdb.DSN(t), newToken(t)
	a := start(t, dsn, "a", bootstrapped(token))
	req, err := http.NewRequestWithContext(t.Context(), "GET", a.url+"/api/v1/whoami", nil)
	if err != nil {
		t.Fatal(err)
	}
	id := do(t, req, token)["key_id"].(string)
	if got := status(t, "POST", a.url+"/api/v1/api-keys/"+id+"/revoke", token); got != 200 {
		t.Fatalf("revoke: %d", got)
	}
	b := start(t, dsn, "b", bootstrapped(token))
	if got := status(t, "GET", b.url+"/api/v1/whoami", token); got != 401 {
		t.Errorf("after a restart the revoked key gets %d", got)
	}
	if !strings.Contains(b.logs.String(), "is revoked") {
		t.Error("the log does not say that the bootstrap key does not count")
	}
}

func TestDevelopmentModeIsLoudAndOnlyForLoopback(t *testing.T) {
	n := start(t, testdb.DSN(t), "a")
	if !strings.Contains(n.logs.String(), "development mode") {
		t.Error("the log does not say that nobody is asked for credentials")
	}
	guarded := start(t, testdb.DSN(t), "b", func(c *config.Config) { c.Auth.Mode = config.AuthRequired })
	if logs := guarded.logs.String(); strings.Contains(logs, "development mode") || !strings.Contains(logs, "nobody can use the API") {
		t.Errorf("a node without any key does not say so: %s", logs)
	}
	cfg := config.Default(config.Test)
	cfg.Server.ListenAddr, cfg.Auth.Mode = "0.0.0.0:0", config.AuthOff // as Load would refuse it
	cfg.Database.URL = config.Secret(testdb.DSN(t))
	if err := app.Run(t.Context(), cfg, app.Options{Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("off loopback: %v, want it refused", err)
	}
}
