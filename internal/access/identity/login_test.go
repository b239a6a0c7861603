package identity_test

import (
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/access/identity"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga/memstore"
)

const signedOnAt = "https://skald.example/ui/sign-in/oidc/callback"

// client is Skald as a client of the issuer, with its clock.
type client struct {
	t       *testing.T
	i       *issuer
	checker *identity.Checker
	login   *identity.Login
}

func (i *issuer) client(secret string, now func() time.Time) *client {
	i.t.Helper()
	store := memstore.New(time.Now)
	cfg := identity.JWT{
		Issuer: i.name, Algorithms: []string{"ES256"}, Leeway: 30 * time.Second, RoleClaim: "role",
		TenantClaim: "tenant_id", Transport: i,
	}
	c := identity.New(identity.Config{
		Keys: store.Keys, Sessions: store.Sessions, JWT: &cfg, Now: now, Log: slog.New(slog.DiscardHandler),
	})
	on := identity.SignOn{JWT: cfg, ClientID: "skald-ui", ClientSecret: secret}
	return &client{t: i.t, i: i, checker: c, login: identity.NewLogin(on, c)}
}

// begin returns the state of a sign-in that the browser keeps, and the issuer's answer, which leads
// to an ID token for that sign-in.
func (c *client) begin(claims map[string]any) (keep string, answer url.Values) {
	c.t.Helper()
	to, keep, err := c.login.Begin(c.t.Context(), signedOnAt, "/ui/sagas")
	if err != nil {
		c.t.Fatal(err)
	}
	at, err := url.Parse(to)
	if err != nil {
		c.t.Fatal(err)
	}
	said := map[string]any{"aud": "skald-ui", "nonce": at.Query().Get("nonce")}
	for name, value := range claims {
		said[name] = value
	}
	code := "code-" + at.Query().Get("state")
	token := c.i.token("es", said)
	c.i.set(func() { c.i.codes[code] = token })
	return keep, url.Values{"state": at.Query()["state"], "code": {code}}
}

// refuses expects that keep and answer do not identify a user, and that the error says why.
func (c *client) refuses(what, keep string, answer url.Values, why string) {
	c.t.Helper()
	credential, next, err := c.login.Finish(c.t.Context(), keep, answer)
	if fault.KindOf(err) != fault.Unauthenticated || credential != "" || next != "" ||
		!strings.Contains(err.Error(), why) {
		c.t.Errorf("%s: %q, to %q, %v", what, credential, next, err)
	}
}

// accepts reports an error unless keep and answer identify alice for exactly one request.
func (c *client) accepts(what, keep string, answer url.Values) {
	c.t.Helper()
	credential, next, err := c.login.Finish(c.t.Context(), keep, answer)
	if err != nil || next != "/ui/sagas" {
		c.t.Errorf("%s: to %q, %v", what, next, err)
		return
	}
	who, err := c.checker.Identify(c.t.Context(), credential)
	if err != nil || who.Subject != "jwt:alice" {
		c.t.Errorf("%s: %+v %v", what, who, err)
	}
	if who, err := c.checker.Identify(c.t.Context(), credential); err == nil {
		c.t.Errorf("%s: the credential counts a second time, for %+v", what, who)
	}
}

func newSignOnIssuer(t *testing.T) *issuer {
	t.Helper()
	i := newIssuer(t)
	i.codes = map[string]string{}
	return i
}

func TestASignInEndsAfterTenMinutes(t *testing.T) {
	i := newSignOnIssuer(t)
	clock := time.Now().Truncate(time.Second)
	begun := clock
	c := i.client("secret", func() time.Time { return clock })
	for after, accepted := range map[time.Duration]bool{
		0: true, 10*time.Minute - time.Second: true, 10 * time.Minute: false, time.Hour: false,
	} {
		clock = begun
		keep, answer := c.begin(nil)
		clock = begun.Add(after)
		if accepted {
			c.accepts(after.String(), keep, answer)
		} else {
			c.refuses(after.String(), keep, answer, "more than ten minutes ago")
		}
	}
}

// A neighboring site or an earlier user of the browser can give a visitor a cookie. A cookie made
// by an attacker would sign the visitor in as the attacker.
func TestWhatTheBrowserKeepsOfASignInCannotBeMadeUp(t *testing.T) {
	i := newSignOnIssuer(t)
	here, there := i.client("secret", time.Now), i.client("secret", time.Now)
	elsewhere, without := i.client("another secret", time.Now), i.client("", time.Now)

	keep, answer := here.begin(nil)
	there.accepts("another node with the same secret", keep, answer)
	for what, made := range map[string]*client{"with another secret": elsewhere, "with none": without} {
		keep, answer := made.begin(nil)
		here.refuses("a sign-in that was signed "+what, keep, answer, "not started in this browser")
		made.accepts("where it belongs, signed "+what, keep, answer) // otherwise the refusal would prove nothing
	}

	// These cookies combine parts of two valid ones, or extend their lifetime.
	one, answer := here.begin(nil)
	other, _ := here.begin(nil)
	body, mac, _ := strings.Cut(one, ".")
	_, otherMAC, _ := strings.Cut(other, ".")
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		t.Fatal(err)
	}
	var said map[string]any
	if err := json.Unmarshal(raw, &said); err != nil || said["s"] != answer.Get("state") {
		t.Fatalf("the browser keeps %s, %v", raw, err)
	}
	said["u"], said["t"] = time.Now().Add(time.Hour).Unix(), "https://evil.example"
	longer, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	for what, forged := range map[string]string{
		"the signature of another sign-in": body + "." + otherMAC,
		"a longer life":                    base64.RawURLEncoding.EncodeToString(longer) + "." + mac,
		"no signature":                     body,
		"an empty signature":               body + ".",
	} {
		here.refuses(what, forged, answer, "not started in this browser")
	}
	here.refuses("the sign-in of another browser", other, answer, "a different sign-in from the one that this browser started")
	here.accepts("the sign-in itself", one, answer)
	here.refuses("the same once more", one, answer, "may have been used before")
}

func TestAnIDTokenIsForOneSignIn(t *testing.T) {
	i := newSignOnIssuer(t)
	c := i.client("secret", time.Now)
	otherKeep, _ := c.begin(nil)
	body, _, _ := strings.Cut(otherKeep, ".")
	raw, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		t.Fatal(err)
	}
	var other struct {
		Nonce string `json:"n"`
	}
	if err := json.Unmarshal(raw, &other); err != nil || other.Nonce == "" {
		t.Fatalf("the browser keeps %s, %v", raw, err)
	}
	for name, tt := range map[string]struct {
		claims map[string]any
		why    string
	}{
		"the nonce of another sign-in": {map[string]any{"nonce": other.Nonce}, "belongs to a different sign-in"},
		"no nonce":                     {map[string]any{"nonce": nil}, "belongs to a different sign-in"},
		"another issuer":               {map[string]any{"iss": "https://evil.example"}, "not accepted here"},
		"another client among several": {map[string]any{"aud": []string{"skald-ui", "x"}, "azp": "x"}, "a client other than"},
		"no role":                      {map[string]any{"role": nil}, "gives you no role here: the claim role"},
		"a role of another system":     {map[string]any{"role": []string{"boss"}}, "none of admin, operator, auditor, worker"},
		"no tenant":                    {map[string]any{"tenant_id": nil}, "no tenant_id"},
	} {
		keep, answer := c.begin(tt.claims)
		c.refuses(name, keep, answer, tt.why)
	}
	for name, iss := range map[string]string{"an empty issuer": "", "another issuer": "https://evil.example"} {
		keep, answer := c.begin(nil)
		answer.Set("iss", iss)
		c.refuses("an answer of "+name, keep, answer, "names an issuer other than")
		answer.Set("iss", i.name)
		c.accepts("the same of the issuer itself", keep, answer)
	}
}
