package testnet

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// People is a test's identity provider; it signs any claims that it is given.
type People struct {
	URL string // issuer of its tokens; its keys are discovered there
	key ed25519.PrivateKey
}

// NewPeople starts an identity provider, which stops when the test ends.
func NewPeople(t testing.TB) *People {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &People{key: key}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/.well-known/openid-configuration" {
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, p.URL, p.URL+"/keys")
			return
		}
		fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":%q}]}`, base64URL(public))
	}))
	t.Cleanup(s.Close)
	p.URL = s.URL
	return p
}

// Token returns a token with these claims that is valid for an hour.
func (p *People) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": p.URL, "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	signed := base64URL([]byte(`{"alg":"EdDSA","kid":"1"}`)) + "." + base64URL(body)
	return signed + "." + base64URL(ed25519.Sign(p.key, []byte(signed)))
}

func base64URL(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
