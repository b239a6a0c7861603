package uitest_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
)

// admin configures a server for people, and returns the token of an admin named Ada.
func admin(t *testing.T, c *config.Config) (token string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":%q}]}`, b64(public))
	}))
	t.Cleanup(issuer.Close)
	c.Auth.JWTIssuer, c.Auth.JWKSURL, c.Auth.JWTAudience = issuer.URL, issuer.URL, "skald"
	c.Auth.JWTRoleClaim, c.Auth.JWTDefaultTenant = "role", true
	signed := b64([]byte(`{"alg":"EdDSA","kid":"1"}`)) + "." + b64(fmt.Appendf(nil,
		`{"iss":%q,"aud":"skald","sub":"ada","preferred_username":"Ada","exp":%d,"role":"admin"}`, issuer.URL,
		time.Now().Add(time.Hour).Unix()))
	return signed + "." + b64(ed25519.Sign(private, []byte(signed)))
}
