package identity_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/skald-saga/skald/internal/access/identity"
	"github.com/skald-saga/skald/internal/saga/memstore"
)

// issuer issues tokens and publishes its keys.
type issuer struct {
	t    *testing.T
	name string // of the issuer, in tokens and in discovery

	mu      sync.Mutex
	keys    map[string]crypto.Signer // guarded by mu; by kid
	down    bool                     // guarded by mu
	fetches int                      // guarded by mu
	codes   map[string]string        // guarded by mu; ID tokens that were not fetched yet, by code
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	es, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{t: t, name: "https://issuer.example", keys: map[string]crypto.Signer{"es": es, "ed": ed, "rs": rs}}
}

// serve starts the issuer's server and uses its URL as the issuer's name.
func (i *issuer) serve() {
	i.t.Helper()
	server := httptest.NewServer(i)
	i.t.Cleanup(server.Close)
	i.name = server.URL
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.down:
		w.WriteHeader(http.StatusBadGateway)
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.name, "jwks_uri": i.name + "/keys", "authorization_endpoint": i.name + "/authorize",
			"token_endpoint": i.name + "/token",
		})
	case r.URL.Path == "/token":
		w.Header().Set("Content-Type", "application/json")
		token, known := i.codes[r.PostFormValue("code")]
		delete(i.codes, r.PostFormValue("code"))
		answer := map[string]string{"access_token": "opaque", "token_type": "Bearer", "id_token": token}
		if !known {
			w.WriteHeader(http.StatusBadRequest)
			answer = map[string]string{"error": "invalid_grant"}
		}
		_ = json.NewEncoder(w).Encode(answer)
	case r.URL.Path == "/keys":
		i.fetches++
		set := map[string][]any{
			"keys": {
				map[string]string{"kty": "post-quantum", "kid": "es"},
				map[string]string{"kty": "oct", "kid": "oct", "k": "c2VjcmV0"},
			},
		}
		for kid, key := range i.keys {
			set["keys"] = append(set["keys"], jose.JSONWebKey{Key: key.Public(), KeyID: kid, Use: "sig"})
		}
		_ = json.NewEncoder(w).Encode(set)
	case r.URL.Path == "/moved":
		http.Redirect(w, r, i.name+"/keys", http.StatusFound)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// RoundTrip makes it possible to serve without a socket.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	return w.Result(), nil
}

func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

var algorithms = map[string]jose.SignatureAlgorithm{"es": jose.ES256, "ed": jose.EdDSA, "rs": jose.RS256}

// token signs claims with the key of a kid. changes replace valid claims; nil removes a claim.
func (i *issuer) token(kid string, changes map[string]any) string {
	i.t.Helper()
	i.mu.Lock()
	key := i.keys[kid]
	i.mu.Unlock()
	return i.sign(key, algorithms[kid], kid, changes)
}

func (i *issuer) sign(key any, alg jose.SignatureAlgorithm, kid string, changes map[string]any) string {
	i.t.Helper()
	now := time.Now()
	claims := map[string]any{
		"iss": i.name, "aud": "skald", "sub": "alice", "role": "operator", "tenant_id": home.ID.String(),
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	body, err := json.Marshal(claims)
	if err != nil {
		i.t.Fatal(err)
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: alg, Key: key},
		(&jose.SignerOptions{}).WithHeader("kid", kid).WithType("JWT"),
	)
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

// checker returns a checker that accepts the issuer's tokens; change modifies its configuration.
func (i *issuer) checker(change ...func(*identity.JWT)) *identity.Checker {
	cfg := identity.JWT{
		Issuer: i.name, Audience: "skald", JWKSURL: i.name + "/keys", Algorithms: []string{"EdDSA", "ES256", "RS256"},
		Leeway: 30 * time.Second, RoleClaim: "role", TenantClaim: "tenant_id",
	}
	for _, f := range change {
		f(&cfg)
	}
	return identity.New(
		identity.Config{Keys: memstore.New(time.Now).Keys, Sessions: memstore.New(time.Now).Sessions,
			JWT: &cfg, Now: time.Now,
			Log: slog.New(slog.DiscardHandler)},
	)
}
