// Package vaulttest is a stand-in for HashiCorp Vault in tests. It is an HTTP handler with the
// parts of the Vault API that Skald uses, with tokens and leases that expire by the clock, and with
// the failures that operators encounter.
package vaulttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// Vault is the stand-in. Set it up with its methods, and then serve it or use it as the transport
// of a client. Its methods are safe for concurrent use.
type Vault struct {
	mu       sync.Mutex
	tokens   map[string]*grant         // guarded by mu: by token
	leases   map[string]*grant         // guarded by mu: by lease id
	secrets  map[string]map[string]any // guarded by mu: by path
	roles    map[string]Role           // guarded by mu: by path
	logins   map[string]Login          // guarded by mu: by path
	requests []string                  // guarded by mu: "METHOD path status"
	fault    func(*http.Request) int   // guarded by mu; returns the status of a simulated failure; 0: none
	serial   int                       // guarded by mu
}

// grant is a token or a lease.
type grant struct {
	until, max time.Time // zero: no end
	ttl        time.Duration
	token      string // the token that made the lease
	revoked    bool
}

// Role creates dynamic logins.
type Role struct {
	TTL, MaxTTL time.Duration
	// Make creates the nth login, counting from 1. If it is nil, names are generated.
	Make func(n int) (user, password string)
}

// Login is a sign-in method. Its tokens live for TTL, and with renewals for MaxTTL.
type Login struct {
	Want        map[string]string // the body that is accepted
	TTL, MaxTTL time.Duration
}

// New returns a Vault with the token "root", which never expires.
func New() *Vault {
	return &Vault{
		tokens: map[string]*grant{"root": {}}, leases: map[string]*grant{},
		secrets: map[string]map[string]any{}, roles: map[string]Role{}, logins: map[string]Login{},
	}
}

// Token adds a token with a time to live. A ttl of 0 means that it never ends.
func (v *Vault) Token(token string, ttl, longest time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tokens[token] = newGrant(ttl, longest)
}

func newGrant(ttl, longest time.Duration) *grant {
	g := &grant{ttl: ttl}
	if ttl > 0 {
		g.until, g.max = time.Now().Add(ttl), time.Now().Add(longest)
	}
	return g
}

// Secret sets the data at a path of the API. For version 2 of the key-value engine, the path has
// data/ after the mount.
func (v *Vault) Secret(path string, data map[string]any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.secrets[path] = data
}

// Role sets the role that creates logins at path, such as database/creds/app.
func (v *Vault) Role(path string, r Role) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.roles[path] = r
}

// Login sets a sign-in method at path, such as auth/approle/login.
func (v *Vault) Login(path string, l Login) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.logins[path] = l
}

// Fail makes requests fail with the status that f returns, unless it returns 0. A nil f ends the
// failures. A negative status breaks the connection.
func (v *Vault) Fail(f func(*http.Request) int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fault = f
}

// Seal responds to everything with 503, as a sealed Vault does.
func (v *Vault) Seal() { v.Fail(func(*http.Request) int { return http.StatusServiceUnavailable }) }

// Unseal ends the effect of Fail or Seal.
func (v *Vault) Unseal() { v.Fail(nil) }

// RevokeTokens revokes all tokens except root, and with them the leases that they created.
func (v *Vault) RevokeTokens() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, t := range v.tokens {
		if name != "root" {
			t.revoked = true
		}
	}
}

// RevokeLeases revokes every lease.
func (v *Vault) RevokeLeases() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, l := range v.leases {
		l.revoked = true
	}
}

// Requests lists the requests so far, as "METHOD path status".
func (v *Vault) Requests() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string{}, v.requests...)
}

// Live returns the number of leases that have neither ended nor been revoked.
func (v *Vault) Live() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for _, l := range v.leases {
		if v.alive(l) {
			n++
		}
	}
	return n
}

// alive must be called with mu held.
func (v *Vault) alive(g *grant) bool {
	if g == nil || g.revoked || !g.until.IsZero() && !time.Now().Before(g.until) {
		return false
	}
	return g.token == "" || v.alive(v.tokens[g.token])
}

// RoundTrip makes the Vault the transport of a client in the same process.
func (v *Vault) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	if v.serve(w, r) < 0 {
		return nil, fmt.Errorf("dial tcp: connection refused")
	}
	res := w.Result()
	res.Request = r
	return res, nil
}

// ServeHTTP makes the Vault a server.
func (v *Vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if v.serve(w, r) < 0 {
		panic(http.ErrAbortHandler)
	}
}

// serve answers, records the request, and returns the status.
func (v *Vault) serve(w http.ResponseWriter, r *http.Request) int {
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	var body map[string]any
	if r.Body != nil {
		_ = json.NewDecoder(r.Body).Decode(&body) // many requests have no body
	}
	v.mu.Lock()
	fault := v.fault
	v.mu.Unlock()
	var answer any
	status := 0
	if fault != nil {
		status = fault(r)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case status == http.StatusServiceUnavailable:
		answer = failure("Vault is sealed")
	case status != 0:
		answer = failure("injected")
	default:
		status, answer = v.answer(path, r.Header.Get("X-Vault-Token"), body)
	}
	v.requests = append(v.requests, fmt.Sprint(r.Method, " ", path, " ", status))
	if status < 0 {
		return status
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if answer != nil {
		_ = json.NewEncoder(w).Encode(answer)
	}
	return status
}

func failure(words ...string) any { return map[string]any{"errors": words} }
