package accesspages_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// begin starts a sign-in and returns the URL to which the provider sends the browser back.
func (b *browser) begin(path string, headers ...string) string {
	b.t.Helper()
	begun := b.do("GET", path, nil, headers...)
	if begun.status != 303 {
		b.t.Fatalf("beginning to sign in: %d\n%s", begun.status, begun.page)
	}
	at := newBrowser(b.t, "").do("GET", begun.to, nil)
	if at.status != 302 {
		b.t.Fatalf("at the provider, %s: %d\n%s", begun.to, at.status, at.page)
	}
	return at.to
}

// back follows the provider's response; headers are those of a request from the provider's site.
func (b *browser) back(to string) seen {
	b.t.Helper()
	return b.do("GET", strings.TrimPrefix(to, b.base), nil, "Sec-Fetch-Site", "cross-site")
}

func withProvider(p *provider, change ...func(*config.Config)) func(*config.Config) {
	return func(c *config.Config) {
		c.Auth.JWTIssuer, c.Auth.JWTRoleClaim = p.URL, "realm_access.roles"
		c.Auth.OIDCClientID, c.Auth.OIDCClientSecret, c.Auth.OIDCName = "skald-ui", config.Secret(p.secret), "Keycloak"
		for _, f := range change {
			f(c)
		}
	}
}

func TestAPersonSignsInAtTheProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	s := uitest.Start(t, withProvider(p))
	b := newBrowser(t, s.URL)

	b.wants("a page for a stranger", b.get("/ui/sagas?status=FAILED"), 401, "Sign in with Keycloak",
		`href="/ui/sign-in/oidc?next=%2fui%2fsagas%3fstatus%3dFAILED"`, `name="credential"`)
	begun := b.get("/ui/sign-in/oidc?next=%2Fui%2Fsagas%3Fstatus%3DFAILED")
	at, err := url.Parse(begun.to)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"client_id": "skald-ui", "response_type": "code", "scope": "openid profile", "prompt": "login",
		"redirect_uri": s.URL + "/ui/sign-in/oidc/callback", "code_challenge_method": "S256",
	} {
		if got := at.Query().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	cookie := begun.header.Get("Set-Cookie")
	for _, want := range []string{"skald-sign-in=", "HttpOnly", "SameSite=Lax", "Max-Age=600", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie of a sign-in that has begun is %q, without %s", cookie, want)
		}
	}

	to := b.begin("/ui/sign-in/oidc?next=%2Fui%2Fsagas%3Fstatus%3DFAILED")
	in := b.back(to)
	b.wants("back from the provider", in, 200, "You are signed in", `href="/ui/sagas?status=FAILED"`)
	if got := in.header.Get("Refresh"); got != "0; url=/ui/sagas?status=FAILED" {
		t.Errorf("the browser goes on to %q", got)
	}
	set := strings.Join(in.header.Values("Set-Cookie"), "\n")
	for _, want := range []string{"skald=skald_session_", "SameSite=Strict", "skald-sign-in=; Path=/; Max-Age=0"} {
		if !strings.Contains(set, want) {
			t.Errorf("signing in sets %q, without %s", set, want)
		}
	}
	b.wants("a page for alice", b.get("/ui/access/permissions"), 200, `jwt:alice<span class="role"> · operator`, "Sign out")
	b.wants("her session", b.do("GET", "/api/v1/sessions/current", nil), 200, `"subject":"jwt:alice"`, tenantOfAlice)

	b.wants("the same answer again, in the same browser", b.back(to), 401, "not started in this browser")
	b.wants("the session is still hers", b.get("/ui/access/permissions"), 200, "jwt:alice")
	home, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	stolen := b.http.Jar.Cookies(home)
	if out := b.do("POST", "/ui/sign-out", url.Values{}); out.status != 303 || len(stolen) != 1 {
		t.Errorf("signing out: %d, with %v", out.status, stolen)
	}
	b.wants("after signing out", b.get("/ui/sagas"), 401, "Sign in with Keycloak")
	b.http.Jar.SetCookies(home, stolen)
	b.wants("a stolen cookie after signing out", b.get("/ui/sagas"), 401, "Sign in with Keycloak")
	refusedSignIns(t, p, s)
	hostileNames(t, p, s)
	formAcrossSigningOn(t, s)
}

// formAcrossSigningOn checks that a form whose session has ended is kept in its tab while the
// person signs in with the provider in another one, and that it is then as it was filled in.
// Nothing is sent before the person has seen it again.
func formAcrossSigningOn(t *testing.T, s *uitest.Server) {
	t.Helper()
	const path = "/ui/jobs/events/publish"
	b := newBrowser(t, s.URL)
	b.wants("signing in", b.back(b.begin("/ui/sign-in/oidc")), 200, "You are signed in")
	typed := uitest.Form(b.get(path).page)
	typed.Set("event_type", `order "4711" <paid>`)
	typed.Set("payload", `{"amount": 9007199254740993}`)
	typed.Set("do", "act")
	if out := b.do("POST", "/ui/sign-out", url.Values{}); out.status != 303 {
		t.Fatalf("signing out: %d", out.status)
	}

	kept := b.do("POST", path, typed)
	b.wants("a form after its session", kept, 401, "is kept", `target="_blank">Sign in with Keycloak`)
	_, link, _ := strings.Cut(kept.page, `<p><a href="`)
	link, _, _ = strings.Cut(link, `"`)
	in := b.back(b.begin(html.UnescapeString(link)))
	b.wants("signed in", in, 200, "You are signed in")
	next, _ := strings.CutPrefix(in.header.Get("Refresh"), "0; url=")
	b.wants("the other tab", b.get(next), 200, "Go back to the tab with your form")

	_, form, _ := strings.Cut(kept.page, `<form method="post" action="`+path+`">`)
	form, _, found := strings.Cut(form, "</form>")
	if !found || !strings.Contains(form, "Back to the form") {
		t.Fatalf("the first tab leads not back to the form:\n%s", kept.page)
	}
	back := uitest.Form(form)
	for name := range typed {
		if got := back.Get(name); name != "do" && got != typed.Get(name) {
			t.Errorf("the field %s comes back as %q, want %q", name, got, typed.Get(name))
		}
	}
	again := b.do("POST", path, back)
	b.wants("the form again", again, 200, `value="order &#34;4711&#34; &lt;paid&gt;"`, "9007199254740993", "jwt:alice")
	if events := b.get("/ui/jobs/events").page; strings.Contains(events, "4711") {
		t.Errorf("the form was sent before it was seen again:\n%s", events)
	}
	sent := uitest.Form(again.page)
	sent.Set("event_type", "order-paid")
	sent.Set("payload", typed.Get("payload"))
	sent.Set("do", "act")
	if got := b.do("POST", path, sent); got.status != 303 {
		t.Errorf("the form is then answered with %d\n%s", got.status, got.page)
	}
	b.wants("the events", b.get("/ui/jobs/events"), 200, "order-paid")
}

// hostileNames checks that a person's name from the provider is shown as text on every page that
// contains it.
func hostileNames(t *testing.T, p *provider, s *uitest.Server) {
	t.Helper()
	b := newBrowser(t, s.URL)
	to := b.begin("/ui/sign-in/oidc")
	p.set(func() {
		p.claims = map[string]any{
			"sub": `"'><img src=x onerror=alert(1)></title></script>{{.}}`, "realm_access": map[string]any{"roles": "admin"},
		}
	})
	b.wants("a person with a hostile name", b.back(to), 200, "You are signed in")
	for _, path := range []string{"/ui/", "/ui/access", "/ui/access/sessions", "/ui/access/permissions", "/ui/audit"} {
		got := b.get(path)
		b.wants(path, got, 200, "&lt;img src=x onerror=alert(1)&gt;")
		if strings.Contains(got.page, "<img src=x") {
			t.Errorf("%s has an element that a name has made", path)
		}
	}
}

// refusedSignIns checks that responses that do not belong to a sign-in begun by this browser never
// create a session.
func refusedSignIns(t *testing.T, p *provider, s *uitest.Server) {
	t.Helper()
	const path = "/ui/sign-in/oidc"
	refuse := func(name string, got seen, status int, texts ...string) {
		t.Helper()
		b := newBrowser(t, s.URL)
		b.wants(name, got, status, append(texts, "Sign in with Keycloak")...)
		if set := strings.Join(got.header.Values("Set-Cookie"), "\n"); strings.Contains(set, "skald_session_") {
			t.Errorf("%s: a session was made: %s", name, set)
		}
	}
	attacker, victim := newBrowser(t, s.URL), newBrowser(t, s.URL)
	to := attacker.begin(path)
	refuse("an answer that another person sends", victim.back(to), 401, "not started in this browser")
	victim.begin(path)
	refuse("the same to somebody who is signing in", victim.back(to), 401, "a different sign-in")

	// The provider accepts a code only once, whatever the browser has kept.
	home, _ := url.Parse(s.URL)
	to = attacker.begin(path)
	kept := attacker.http.Jar.Cookies(home)
	if got := attacker.back(to); got.status != 200 {
		t.Fatalf("signing in: %d\n%s", got.status, got.page)
	}
	again := newBrowser(t, s.URL)
	again.http.Jar.SetCookies(home, kept)
	refuse("a code again", again.back(to), 401, "invalid_grant", "Code not &lt;b&gt;valid&lt;/b&gt;")

	// What the browser keeps cannot be forged or changed.
	b := newBrowser(t, s.URL)
	to = b.begin(path)
	content := b.http.Jar.Cookies(home)[0].Value
	for _, forged := range []string{"", "x", "e30.", "e30.e30", content[:len(content)-10],
		"f" + content[1:], "A" + content} {
		b.http.Jar.SetCookies(home, []*http.Cookie{{Name: "skald-sign-in", Value: forged, Path: "/"}})
		refuse("a forged sign-in", b.back(to), 401, "not started in this browser")
	}
	for name, query := range map[string]string{
		"no query": "", "two states": "state=STATE&state=STATE&code=CODE", "no code": "state=STATE",
		"an empty code": "state=STATE&code=",
		"two codes":     "state=STATE&code=CODE&code=b", "another issuer": "state=STATE&code=CODE&iss=https://evil.example",
		"an error":     "state=STATE&error=access_denied&error_description=%3Cscript%3Ealert(1)%3C/script%3E%00%ff",
		"a wrong code": "state=STATE&code=" + strings.Repeat("x", 5000), "a broken query": "state=%zz&code=a;b",
	} {
		back, _ := url.Parse(b.begin(path))
		got := b.get("/ui/sign-in/oidc/callback?" + strings.NewReplacer("STATE", back.Query().Get("state"),
			"CODE", back.Query().Get("code")).Replace(query))
		refuse(name, got, 401)
		if strings.Contains(got.page, "<script>alert") {
			t.Errorf("%s: what the provider said is not escaped", name)
		}
	}

	for name, claims := range map[string]map[string]any{
		"a different sign-in": {"nonce": "x"}, "belongs to a different sign-in": {"nonce": nil},
		"not accepted":      {"aud": "skald"},
		"not accepted here": {"exp": time.Now().Add(-time.Hour).Unix()}, "is not accepted": {"iss": "https://evil.example"},
		"gives you no role":                        {"realm_access": nil},
		"none of admin, operator, auditor, worker": {"realm_access": map[string]any{"roles": "boss"}},
		"no tenant_id":                             {"tenant_id": nil}, "a client other than": {"azp": "other"}, "1 to 200 bytes": {"sub": ""},
	} {
		b := newBrowser(t, s.URL)
		to := b.begin(path)
		p.set(func() { p.claims = claims })
		refuse("an ID token with "+name, b.back(to), 401, name)
	}

	// The visitor never returns to another site, whatever next contains.
	for _, next := range []string{"https://evil.example", "//evil.example/ui/", "/ui/../../x",
		`/ui/\evil`, "/api/v1/sagas"} {
		b := newBrowser(t, s.URL)
		if got := b.back(b.begin(path + "?next=" + url.QueryEscape(next))); got.header.Get("Refresh") != "0; url=/ui/" {
			t.Errorf("signing in leads from %q to %q", next, got.header.Get("Refresh"))
		}
	}

	b = newBrowser(t, s.URL)
	to = b.begin(path)
	p.set(func() { p.down = true })
	refuse("a provider that is down", b.back(to), 503, "AUTH_PROVIDER_UNAVAILABLE")
	p.set(func() { p.down = false })
}

func TestSigningInBehindAProxy(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	s := uitest.Start(t, withProvider(p, func(c *config.Config) {
		c.Server.BasePath, c.Server.PublicURL = "/skald", "https://skald.example/skald"
	}))
	b := newBrowser(t, s.URL)
	tls := []string{"X-Forwarded-Proto", "https", "Host", "skald.example"}
	begun := b.do("GET", "/ui/sign-in/oidc?next=/ui/sagas", nil, tls...)
	cookie := begun.header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "__Host-skald-sign-in=") || !strings.Contains(cookie, "Secure") {
		t.Errorf("over TLS the sign-in is kept in %q", cookie)
	}
	at := newBrowser(t, "").do("GET", begun.to, nil)
	rest, found := strings.CutPrefix(at.to, "https://skald.example/skald/ui/sign-in/oidc/callback?")
	if !found {
		t.Fatalf("the provider leads back to %q", at.to)
	}
	kept, _, _ := strings.Cut(cookie, ";")
	in := b.do("GET", "/skald/ui/sign-in/oidc/callback?"+rest, nil, append(tls, "Cookie", kept)...)
	b.wants("back behind a proxy", in, 200, `href="/skald/ui/sagas"`)
	if got := in.header.Get("Refresh"); got != "0; url=/skald/ui/sagas" {
		t.Errorf("the browser goes on to %q", got)
	}
	if set := strings.Join(in.header.Values("Set-Cookie"), "\n"); !strings.Contains(set, "__Host-skald=skald_session_") {
		t.Errorf("over TLS the session's cookies are %q", set)
	}

	// A URL with https means that the browser uses TLS, whatever the last hop uses.
	plain := b.do("GET", "/ui/sign-in/oidc", nil, "Host", "skald.example")
	if set := plain.header.Get("Set-Cookie"); plain.to == "" || !strings.HasPrefix(set, "__Host-skald-sign-in=") {
		t.Errorf("behind a proxy that says nothing of TLS the browser is led to %q with %q", plain.to, set)
	}

	// If the browser would not keep the cookie, no sign-in begins, and the page states the reason.
	s = uitest.Start(t, withProvider(p, func(c *config.Config) { c.Server.BasePath = "/skald" }))
	b = newBrowser(t, s.URL)
	plain = b.do("GET", "/ui/sign-in/oidc", nil, "Host", "skald.example")
	b.wants("over plain HTTP", plain, 200, "not loaded over HTTPS")
	if plain.to != "" {
		t.Errorf("over plain HTTP the browser is led to %q", plain.to)
	}
}
