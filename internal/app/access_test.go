package app_test

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

func newToken(t *testing.T) string {
	t.Helper()
	var chance [access.EntropyBytes]byte
	if _, err := rand.Read(chance[:]); err != nil {
		t.Fatal(err)
	}
	return string(access.NewToken(chance))
}

// status makes a request with a credential and returns the status of the response.
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
	t.Parallel()
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

// The nodes share only the database. A test in the package identity shows with a fake clock that a
// node remembers a key for less than five seconds.
func TestARevokedKeyIsRefusedByEveryNode(t *testing.T) {
	t.Parallel()
	dsn, token := testdb.DSN(t), newToken(t)
	a, b := start(t, dsn, "a", bootstrapped(token)), start(t, dsn, "b", bootstrapped(token))
	req, err := http.NewRequestWithContext(
		t.Context(),
		"POST",
		a.url+"/api/v1/api-keys",
		strings.NewReader(`{"name":"x","role":"auditor"}`),
	)
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
	revoke(t, a, id, token)
	for _, n := range []*node{a, b} {
		patience.Until(t, "the revoked key is refused", func() bool {
			return status(t, "GET", n.url+"/api/v1/whoami", key) == 401
		})
	}
}

func TestARevokedBootstrapKeyStaysRevoked(t *testing.T) {
	t.Parallel()
	dsn, token := testdb.DSN(t), newToken(t)
	a := start(t, dsn, "a", bootstrapped(token))
	req, err := http.NewRequestWithContext(t.Context(), "GET", a.url+"/api/v1/whoami", nil)
	if err != nil {
		t.Fatal(err)
	}
	id := do(t, req, token)["key_id"].(string)
	revoke(t, a, id, token)
	b := start(t, dsn, "b", bootstrapped(token))
	if got := status(t, "GET", b.url+"/api/v1/whoami", token); got != 401 {
		t.Errorf("after a restart the revoked key gets %d", got)
	}
	if !strings.Contains(b.logs.String(), "is revoked") {
		t.Error("the log does not say that the bootstrap key does not count")
	}
}

func TestDevelopmentModeWarnsAndRequiresLoopback(t *testing.T) {
	t.Parallel()
	n := start(t, testdb.DSN(t), "a")
	if !strings.Contains(n.logs.String(), "development mode") {
		t.Error("the log does not say that nobody is asked for credentials")
	}
	guarded := start(t, testdb.DSN(t), "b", func(c *config.Config) { c.Auth.Mode = config.AuthRequired })
	if logs := guarded.logs.String(); strings.Contains(logs, "development mode") ||
		!strings.Contains(logs, "the API is unusable") {
		t.Errorf("a node without any key does not say so: %s", logs)
	}
	cfg := config.Default(config.Test)
	cfg.Server.ListenAddr, cfg.Auth.Mode = "0.0.0.0:0", config.AuthOff // as Load would refuse it
	cfg.Database.URL = config.Secret(testdb.DSN(t))
	if err := app.Run(t.Context(), cfg, app.Options{Log: slog.New(slog.DiscardHandler)}); err == nil ||
		!strings.Contains(err.Error(), "loopback") {
		t.Errorf("off loopback: %v, want it refused", err)
	}
}

func TestATokenOfTheConfiguredIssuerIsAccepted(t *testing.T) {
	t.Parallel()
	people := testnet.NewPeople(t)
	token := func(audience, role string, person ...string) string {
		person = append(person, "alice", "")[:2]
		return people.Token(t, map[string]any{
			"aud": audience, "sub": person[0], "preferred_username": person[1], "groups": map[string]any{"skald": role},
			"org": "0198a5b0-0000-7000-8000-000000000002",
		})
	}
	n := start(t, testdb.DSN(t), "a", func(c *config.Config) {
		c.Auth.JWTIssuer, c.Auth.JWTAudience, c.Auth.JWTRoleClaim, c.Auth.JWTTenantClaim = people.URL, "orders",
			"groups.skald", "org"
	})
	req, err := http.NewRequestWithContext(t.Context(), "GET", n.url+"/api/v1/whoami", nil)
	if err != nil {
		t.Fatal(err)
	}
	who := do(t, req, token("orders", "operator"))
	if who["subject"] != "jwt:alice" || who["role"] != "operator" ||
		who["tenant_id"] != "0198a5b0-0000-7000-8000-000000000002" {
		t.Errorf("who = %v", who)
	}
	for _, tt := range []struct {
		name, audience, role, method, path string
		want                               int
	}{
		{"an operator reads", "orders", "operator", "GET", "/api/v1/sagas", 200},
		{"an auditor enables", "orders", "auditor", "POST", "/api/v1/workflows/x/enable", 403},
		{"an operator makes keys", "orders", "operator", "GET", "/api/v1/api-keys", 403},
		{"a token for somebody else", "skald", "admin", "GET", "/api/v1/sagas", 401},
	} {
		if got := status(t, tt.method, n.url+tt.path, token(tt.audience, tt.role)); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	namesAreRecorded(t, n, func(sub, name string) string { return token("orders", "admin", sub, name) })
}

func revoke(t *testing.T, n *node, id, token string) {
	t.Helper()
	req, err := http.NewRequestWithContext(
		t.Context(),
		"POST",
		n.url+"/api/v1/api-keys/"+id+"/revoke",
		strings.NewReader(`{"reason":"lost"}`),
	)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-API-Key", token)
	if got, doc := answer(t, req); got != 200 {
		t.Fatalf("revoke: %d %v", got, doc)
	}
}
