package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/access/identity"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
)

func TestTokenOfTheIssuerIsAccepted(t *testing.T) {
	i := newIssuer(t)
	i.serve()
	alice := principal.Principal{Subject: "jwt:alice", Role: principal.Operator, Tenant: home}
	with := func(change func(*principal.Principal)) principal.Principal {
		p := alice
		change(&p)
		return p
	}
	for _, tt := range []struct {
		name    string
		kid     string
		changes map[string]any
		want    principal.Principal
	}{
		{"ES256", "es", nil, alice},
		{"EdDSA", "ed", nil, alice},
		{"RS256", "rs", nil, alice},
		{"several audiences", "es", map[string]any{"aud": []string{"other", "skald"}}, alice},
		{"expired within the leeway", "es", map[string]any{"exp": time.Now().Add(-20 * time.Second).Unix()}, alice},
		{"from a clock that is ahead within the leeway", "es", map[string]any{"iat": time.Now().Add(20 * time.Second).Unix(), "nbf": time.Now().Add(20 * time.Second).Unix()}, alice},
		{"no role: known, and may do nothing", "es", map[string]any{"role": nil}, with(func(p *principal.Principal) { p.Role = "" })},
		{"a role that is none here", "es", map[string]any{"role": "superuser"}, with(func(p *principal.Principal) { p.Role = "" })},
		{"a worker", "es", map[string]any{"role": "worker"}, with(func(p *principal.Principal) { p.Role = principal.Worker })},
		{"the last of several roles", "es", map[string]any{"role": []any{"auditor", "viewer", 7, "admin", "operator"}}, with(func(p *principal.Principal) { p.Role = principal.Admin })},
		{"all of a tenant", "es", map[string]any{"tenant_region": "eu", "tenant_major": 3, "tenant_minor": 65535},
			with(func(p *principal.Principal) {
				p.Tenant = tenant.Tenant{ID: home.ID, Region: "eu", Major: 3, Minor: 65535}
			})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := i.checker().Identify(t.Context(), i.token(tt.kid, tt.changes))
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestInvalidTokensAreRefused(t *testing.T) {
	i := newIssuer(t)
	i.serve()
	stranger := newIssuer(t)
	stranger.name = i.name
	b64 := base64.RawURLEncoding.EncodeToString
	good := strings.Split(i.token("es", nil), ".")
	public, err := x509.MarshalPKIXPublicKey(i.keys["rs"].Public())
	if err != nil {
		t.Fatal(err)
	}
	hs256 := func(secret []byte) string {
		text := b64([]byte(`{"alg":"HS256","kid":"rs","typ":"JWT"}`)) + "." + good[1]
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(text))
		return text + "." + b64(mac.Sum(nil))
	}
	for name, token := range map[string]string{
		"expired": i.token("es",
			map[string]any{"exp": time.Now().Add(-31 * time.Second).Unix()}),
		"without an end": i.token("es", map[string]any{"exp": nil}),
		"not yet": i.token("es",
			map[string]any{"nbf": time.Now().Add(40 * time.Second).Unix()}),
		"issued in the future": i.token("es",
			map[string]any{"iat": time.Now().Add(40 * time.Second).Unix()}),
		"a word for a time":                         i.token("es", map[string]any{"nbf": "never"}),
		"for somebody else":                         i.token("es", map[string]any{"aud": "other"}),
		"for nobody":                                i.token("es", map[string]any{"aud": nil}),
		"of another issuer":                         i.token("es", map[string]any{"iss": "https://evil.example"}),
		"of no issuer":                              i.token("es", map[string]any{"iss": nil}),
		"of nobody":                                 i.token("es", map[string]any{"sub": nil}),
		"of somebody with a line end":               i.token("es", map[string]any{"sub": "alice\nadmin"}),
		"of somebody with an endless name":          i.token("es", map[string]any{"sub": strings.Repeat("a", 201)}),
		"with a tenant that is no UUID":             i.token("es", map[string]any{"tenant_id": "acme"}),
		"with a tenant that is a number":            i.token("es", map[string]any{"tenant_id": 7}),
		"with the tenant of zeros":                  i.token("es", map[string]any{"tenant_id": "00000000-0000-0000-0000-000000000000"}),
		"with a version out of range":               i.token("es", map[string]any{"tenant_major": 65536}),
		"with half a version":                       i.token("es", map[string]any{"tenant_minor": 1.5}),
		"with a region that is too long":            i.token("es", map[string]any{"tenant_region": strings.Repeat("r", 33)}),
		"with a text that looks like a time":        i.token("es", map[string]any{"exp": "9999999999"}),
		"whose beginning is a text":                 i.token("es", map[string]any{"nbf": "1"}),
		"whose time of issue is a text":             i.token("es", map[string]any{"iat": "1"}),
		"that ends at a list":                       i.token("es", map[string]any{"exp": []any{9999999999}}),
		"that begins at nothing":                    i.token("es", map[string]any{"nbf": json.RawMessage("null")}),
		"without a tenant":                          i.token("es", map[string]any{"tenant_id": nil}),
		"whose tenant is nothing":                   i.token("es", map[string]any{"tenant_id": json.RawMessage("null")}),
		"with the region of no tenant":              i.token("es", map[string]any{"tenant_id": nil, "tenant_region": "eu"}),
		"alg none":                                  b64([]byte(`{"alg":"none","kid":"es"}`)) + "." + good[1] + ".",
		"HS256 with the public key in PEM":          hs256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		"HS256 with the public key in DER":          hs256(public),
		"HS256 with a symmetric key of the key set": i.sign([]byte("secret-of-thirty-two-bytes-long!"), jose.HS256, "oct", nil),
		"an algorithm that is not allowed":          i.sign(i.keys["rs"], jose.PS256, "rs", nil),
		"signed by a stranger with a known kid":     stranger.token("es", nil),
		"signed by a stranger with an unknown kid":  stranger.sign(stranger.keys["es"], jose.ES256, "who", nil),
		"signed by one key, named another":          i.sign(i.keys["es"], jose.ES256, "ed", nil),
		"with another payload": good[0] + "." +
			strings.Split(i.token("es", map[string]any{"role": "admin"}), ".")[1] + "." + good[2],
		"without a signature":       good[0] + "." + good[1] + ".",
		"garbage":                   "a.b.c",
		"its own key in its header": embedded(t, good[1]),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := i.checker().Identify(t.Context(), token)
			if fault.KindOf(err) != fault.Unauthenticated || !fault.IsCode(err, principal.CodeInvalid) ||
				!reflect.DeepEqual(got, principal.Principal{}) {
				t.Errorf("%+v, %v; want it refused", got, err)
			}
		})
	}
}

// embedded returns a token that contains the key with which it is signed.
func embedded(t *testing.T, payload string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	body, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTokenWithoutExpiryIsRefusedWithoutLeewayToo(t *testing.T) {
	i := newIssuer(t)
	i.serve()
	c := i.checker(func(j *identity.JWT) { j.Leeway = 0 })
	if _, err := c.Identify(t.Context(), i.token("es", map[string]any{"exp": nil})); fault.KindOf(
		err,
	) != fault.Unauthenticated {
		t.Errorf("error = %v, want it refused", err)
	}
}

func TestKeysOfTheIssuerAreDiscovered(t *testing.T) {
	i := newIssuer(t)
	i.serve()
	c := i.checker(func(j *identity.JWT) { j.JWKSURL = "" })
	if _, err := c.Identify(t.Context(), i.token("ed", nil)); err != nil {
		t.Errorf("by discovery: %v", err)
	}
	c = i.checker(func(j *identity.JWT) { j.JWKSURL = i.name + "/moved" })
	if _, err := c.Identify(t.Context(), i.token("ed", nil)); err == nil || fault.As(err) != nil {
		t.Errorf("by a redirect: %v, want an outage", err)
	}
}

func TestNamesOfClaimsAreConfigurable(t *testing.T) {
	i := newIssuer(t)
	i.serve()
	claims := map[string]any{
		"role": nil, "tenant_id": nil, "https://skald.example/tenant": home.ID.String(),
		"realm_access": map[string]any{"roles": []string{"offline_access", "auditor"}},
	}
	c := i.checker(func(j *identity.JWT) {
		j.RoleClaim, j.TenantClaim = "realm_access.roles", "https://skald.example/tenant"
	})
	got, err := c.Identify(t.Context(), i.token("rs", claims))
	want := principal.Principal{Subject: "jwt:alice", Role: principal.Auditor, Tenant: home}
	if !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// If there is a map, only its names are roles, because Skald's names may be roles of another
// application.
func TestNamesOfAnIssuerBecomeRolesByTheMap(t *testing.T) {
	i := newIssuer(t)
	i.serve()
	roles := map[string]principal.Role{
		"/skald/admins": principal.Admin, "org:ops": principal.Operator, "6f9a": principal.Auditor, "admin": principal.Worker,
	}
	for _, tt := range []struct {
		roles map[string]principal.Role
		claim any
		want  principal.Role
	}{
		{nil, []string{"admin"}, principal.Admin},
		{nil, []string{"/skald/admins"}, ""},
		{roles, []string{"/skald/admins"}, principal.Admin},
		{roles, []string{"org:ops", "6f9a"}, principal.Operator},
		{roles, "6f9a", principal.Auditor},
		{roles, []string{"admin"}, principal.Worker},
		{roles, []string{"operator", "auditor"}, ""},
		{roles, []any{"org:ops", 7, nil}, principal.Operator},
		{roles, nil, ""},
		{roles, "", ""},
	} {
		c := i.checker(func(j *identity.JWT) { j.Roles = tt.roles })
		got, err := c.Identify(t.Context(), i.token("rs", map[string]any{"role": tt.claim}))
		if err != nil || got.Role != tt.want {
			t.Errorf("%v by %v: %q, %v; want %q", tt.claim, tt.roles, got.Role, err, tt.want)
		}
	}
}

func TestTokenIsCachedUntilItExpires(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		c := i.checker(func(j *identity.JWT) { j.Transport, j.Leeway = i, 0 })
		token := i.token("es", map[string]any{"exp": time.Now().Add(2 * time.Second).Unix()})
		if _, err := c.Identify(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		i.set(func() { i.keys["es"] = i.keys["ed"] }) // another check would refuse it
		if _, err := c.Identify(t.Context(), token); err != nil {
			t.Errorf("at once again: %v", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := c.Identify(t.Context(), token); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("at its end: %v", err)
		}
	})
}

func TestRotatedKeysOfTheIssuerAreFetched(t *testing.T) {
	i := newIssuer(t)
	next := newIssuer(t).keys["es"]
	synctest.Test(t, func(t *testing.T) {
		c := i.checker(func(j *identity.JWT) { j.Transport = i })
		wants := func(when, token string, counts bool) {
			t.Helper()
			_, err := c.Identify(t.Context(), token)
			if (err == nil) != counts || err != nil && fault.KindOf(err) != fault.Unauthenticated {
				t.Errorf("%s: %v, want that it counts: %t", when, err, counts)
			}
		}
		fetched := func(when string, want int) {
			t.Helper()
			i.set(func() {
				if i.fetches != want {
					t.Errorf("%s: the keys were fetched %d times, want %d", when, i.fetches, want)
				}
			})
		}
		old := i.token("es", map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()})
		wants("before the change", old, true)
		i.set(func() { i.keys["new"] = next })
		fresh := i.sign(next, jose.ES256, "new", nil)
		wants("a new key within the pause", fresh, false)
		fetched("within the pause", 1)
		time.Sleep(11 * time.Second)
		wants("a new key after the pause", fresh, true)
		for range 100 {
			wants("a kid that nobody has", i.sign(next, jose.ES256, rand.Text(), nil), false)
		}
		fetched("after a hundred strangers", 2)
		i.set(func() { delete(i.keys, "es") })
		time.Sleep(5 * time.Minute)
		wants("a key withdrawn five minutes ago", old, false)
		fetched("after five minutes", 3)

		i.set(func() { i.down = true })
		time.Sleep(6 * time.Minute)
		wants("while the issuer is away for a while", i.sign(next, jose.ES256, "new", map[string]any{"jti": 1}), true)
		time.Sleep(time.Hour)
		_, err := c.Identify(t.Context(), i.sign(next, jose.ES256, "new", map[string]any{"jti": 2}))
		if err == nil || fault.As(err) != nil {
			t.Errorf("while the issuer is away for long: %v, want an outage", err)
		}
		i.set(func() { i.down = false })
		time.Sleep(11 * time.Second)
		wants("when the issuer is back", i.sign(next, jose.ES256, "new", nil), true)
	})
}

func TestFirstTokensShareOneFetch(t *testing.T) {
	i := newIssuer(t)
	i.serve()
	c := i.checker()
	var all sync.WaitGroup
	for n := range 30 {
		token := i.token("es", map[string]any{"jti": n})
		all.Go(func() {
			if _, err := c.Identify(t.Context(), token); err != nil {
				t.Errorf("token %d: %v", n, err)
			}
		})
	}
	all.Wait()
	i.set(func() {
		if i.fetches != 1 {
			t.Errorf("the keys were fetched %d times", i.fetches)
		}
	})
}

func TestUnreachableIssuerAtStartIsAnOutage(t *testing.T) {
	i := newIssuer(t)
	i.serve()
	i.set(func() { i.down = true })
	_, err := i.checker(func(j *identity.JWT) { j.JWKSURL = "" }).Identify(t.Context(), i.token("es", nil))
	if err == nil || fault.As(err) != nil {
		t.Errorf("error = %v, want an outage", err)
	}
}

func TestTokenWithoutATenantNeedsTheSetting(t *testing.T) {
	i := newIssuer(t)
	i.serve()
	without := i.token("es", map[string]any{"tenant_id": nil})
	if _, err := i.checker().Identify(t.Context(), without); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("by default: %v", err)
	}
	allows := i.checker(func(j *identity.JWT) { j.DefaultTenant = true })
	want := principal.Principal{Subject: "jwt:alice", Role: principal.Operator}
	if got, err := allows.Identify(t.Context(), without); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("where it is allowed: %v, %v", got, err)
	}
	if got, err := allows.Identify(t.Context(), i.token("es", nil)); err != nil || got.Tenant != home {
		t.Errorf("with one: %v, %v", got, err)
	}
}

// A person's name is text from outside that is only displayed. It is cleaned and cut, and gives no
// permission, whatever its content.
func TestNameOfAPersonIsCleanedAndDecidesNothing(t *testing.T) {
	i := newIssuer(t)
	i.serve()
	for name, tt := range map[string]struct {
		claim string
		value any
		want  string
	}{
		"as it is":              {"preferred_username", "kim", "kim"},
		"of any script":         {"preferred_username", "Ким 金 Ö", "Ким 金 Ö"},
		"none":                  {"preferred_username", nil, ""},
		"not text":              {"preferred_username", 7, ""},
		"a list":                {"preferred_username", []string{"kim"}, ""},
		"lines and blanks":      {"preferred_username", "  kim\r\n\tof  ops ", "kim of ops"},
		"directions":            {"preferred_username", "kim\u202e\u2066nimda\u200b", "kimnimda"},
		"NUL and bytes of none": {"preferred_username", "k\x00im\xff", "kim\uFFFD"},
		"only what is dropped":  {"preferred_username", "\u200b\n", ""},
		"long":                  {"preferred_username", strings.Repeat("é", 300), strings.Repeat("é", 100)},
		"a word of permissions": {"preferred_username", "admin", "admin"},
		"another claim":         {"profile.name", "kim", "kim"},
		"no claim configured":   {"", "kim", ""},
	} {
		claims := map[string]any{"role": "auditor", "preferred_username": tt.value,
			"profile": map[string]any{"name": tt.value}}
		c := i.checker(func(j *identity.JWT) { j.NameClaim = tt.claim })
		got, err := c.Identify(t.Context(), i.token("es", claims))
		want := principal.Principal{Subject: "jwt:alice", Name: tt.want, Role: principal.Auditor, Tenant: home}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
