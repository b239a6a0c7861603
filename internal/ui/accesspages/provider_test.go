package accesspages_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const tenantOfAlice = "0198a5b0-0000-7000-8000-00000000000a"

// provider is an identity provider that immediately signs everybody in as alice.
type provider struct {
	t   *testing.T
	URL string
	key *ecdsa.PrivateKey

	mu     sync.Mutex
	asked  map[string]url.Values // guarded by mu: the requests for codes that are not yet used, by code
	claims map[string]any        // guarded by mu: changes to the next ID token; nil removes a claim
	down   bool                  // guarded by mu
	secret string
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{t: t, key: key, asked: map[string]url.Values{}, secret: "s3:cret/+"}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := func(status int, body any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	switch q := r.URL.Query(); {
	case p.down:
		answer(http.StatusBadGateway, "down")
	case r.URL.Path == "/.well-known/openid-configuration":
		answer(http.StatusOK, map[string]any{
			"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL + "/authorize?prompt=login",
			"token_endpoint": p.URL + "/token",
		})
	case r.URL.Path == "/keys":
		answer(http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k", Use: "sig"}}})
	case r.URL.Path == "/authorize":
		code := rand.Text()
		p.asked[code] = q
		to := q.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
		http.Redirect(w, r, to, http.StatusFound)
	case r.URL.Path == "/token":
		status, body := p.token(r)
		answer(status, body)
	default:
		answer(http.StatusNotFound, "no such path")
	}
}

// token exchanges a code once.
func (p *provider) token(r *http.Request) (int, map[string]any) {
	client, secret, _ := r.BasicAuth()
	if client != "skald-ui" || secret != url.QueryEscape(p.secret) {
		return http.StatusUnauthorized, map[string]any{"error": "invalid_client"}
	}
	asked, known := p.asked[r.PostFormValue("code")]
	delete(p.asked, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !known || asked.Get("code_challenge_method") != "S256" || r.PostFormValue("grant_type") != "authorization_code" ||
		asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) ||
		asked.Get("redirect_uri") != r.PostFormValue("redirect_uri") {
		return http.StatusBadRequest, map[string]any{
			"error": "invalid_grant", "error_description": "Code not <b>valid</b>\x00",
		}
	}
	now := time.Now()
	claims := map[string]any{
		"iss": p.URL, "aud": "skald-ui", "sub": "alice", "nonce": asked.Get("nonce"), "tenant_id": tenantOfAlice,
		"realm_access": map[string]any{"roles": []string{"operator"}},
		"iat":          now.Unix(), "exp": now.Add(time.Minute).Unix(),
	}
	maps.Copy(claims, p.claims)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	p.claims = nil
	return http.StatusOK, map[string]any{"access_token": "opaque", "token_type": "Bearer", "id_token": p.sign(claims)}
}

func (p *provider) sign(claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.key},
		(&jose.SignerOptions{}).WithHeader("kid", "k"))
	if err != nil {
		p.t.Error(err)
		return ""
	}
	body, err := json.Marshal(claims)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	signed, err := signer.Sign(body)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		p.t.Error(err)
	}
	return text
}
