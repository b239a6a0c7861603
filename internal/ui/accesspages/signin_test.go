package accesspages_test

import (
	"crypto/rand"
	"encoding/base64"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// newKey returns the text of an API key.
func newKey(t *testing.T) string {
	t.Helper()
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		t.Fatal(err)
	}
	return "skald_abcdefgh_" + base64.RawURLEncoding.EncodeToString(secret[:])
}

// browser keeps cookies and does not follow redirects.
type browser struct {
	t    *testing.T
	base string
	http http.Client
}

type seen struct {
	status int
	page   string
	to     string
	header http.Header
}

func newBrowser(t *testing.T, base string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t: t, base: base, http: http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (b *browser) do(method, path string, form url.Values, headers ...string) seen {
	b.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	res, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return seen{res.StatusCode, string(text), res.Header.Get("Location"), res.Header}
}

func (b *browser) get(path string) seen { b.t.Helper(); return b.do("GET", path, nil) }

func (b *browser) signIn(key, next string) seen {
	b.t.Helper()
	return b.do("POST", "/ui/sign-in", url.Values{"credential": {key}, "next": {next}})
}

func (b *browser) wants(what string, got seen, status int, texts ...string) {
	b.t.Helper()
	if got.status != status {
		b.t.Errorf("%s: %d to %q\n%s", what, got.status, got.to, got.page)
	}
	for _, text := range texts {
		if !strings.Contains(got.page, text) {
			b.t.Errorf("%s does not say %q\n%s", what, text, got.page)
		}
	}
}

func TestABrowserSignsInAndOut(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	s := uitest.Start(t, func(c *config.Config) { c.Auth.BootstrapAdminKey = config.Secret(key) })
	b := newBrowser(t, s.URL)

	b.wants("a page for a stranger", b.get("/ui/sagas?status=FAILED"), 401,
		`<input type="hidden" name="next" value="/ui/sagas?status=FAILED">`, `name="credential"`)
	b.wants("a wrong key", b.signIn(newKey(t), "/ui/"), 401, "AUTH_INVALID")
	b.wants("no key at all", b.signIn("x\r\nCookie: y", "/ui/"), 401, "not an API key")
	b.wants("a key from another site", b.do("POST", "/ui/sign-in", url.Values{"credential": {key}},
		"Sec-Fetch-Site", "cross-site"), 403, "AUTH_CROSS_SITE")

	// An id that a third party has put into the browser never becomes a session.
	chosen := "skald_session_" + strings.Repeat("A", 43)
	home, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	b.http.Jar.SetCookies(home, []*http.Cookie{{Name: "skald", Value: chosen, Path: "/"}})
	in := b.signIn(key, "/ui/sagas?status=FAILED")
	if in.status != 303 || in.to != "/ui/sagas?status=FAILED" {
		t.Fatalf("signing in: %d to %q\n%s", in.status, in.to, in.page)
	}
	cookie := in.header.Get("Set-Cookie")
	for _, want := range []string{"skald=skald_session_", "Path=/", "HttpOnly", "SameSite=Strict"} {
		if !strings.Contains(cookie, want) || strings.Contains(cookie, chosen) || strings.Contains(cookie, key) {
			t.Errorf("the cookie is %q", cookie)
		}
	}
	b.wants("a page for somebody", b.get("/ui/sagas?status=FAILED"), 200, "key:*:bootstrap", "Sign out")
	for next, want := range map[string]string{
		"https://evil.example": "/ui/", "//evil.example/ui/": "/ui/", "/ui/../../x": "/ui/", `/ui/\evil`: "/ui/",
		"/api/v1/sagas": "/ui/", "/ui/sign-in": "/ui/",
	} {
		if got := b.signIn(key, next); got.to != want {
			t.Errorf("signing in leads from %q to %q", next, got.to)
		}
	}

	// The API accepts the cookie, and for changes requires proof of where they come from.
	api := func(method, path string, headers ...string) int {
		t.Helper()
		return b.do(method, "/api/v1"+path, nil, headers...).status
	}
	if got := api("GET", "/sessions/current"); got != 200 {
		t.Errorf("the session itself: %d", got)
	}
	for site, want := range map[string]int{"": 403, "cross-site": 403, "same-site": 403, "same-origin": 404} {
		headers := []string{"Sec-Fetch-Site", site}
		if site == "" {
			headers = nil
		}
		if got := api("DELETE", "/sessions/01981d2e-0000-7000-8000-000000000001", headers...); got != want {
			t.Errorf("a change through the API from %q: %d", site, got)
		}
	}
	if got := api("POST", "/sessions", "Sec-Fetch-Site", "same-origin"); got != 409 {
		t.Errorf("a session made with a session: %d", got)
	}
	session := b.http.Jar.Cookies(home)[0].Value
	bare := newBrowser(t, s.URL)
	if got := bare.do("GET", "/api/v1/whoami", nil, "Authorization", "Bearer "+session).status; got != 401 {
		t.Errorf("a session as a bearer: %d", got)
	}
	plain := bare.do("GET", "/api/v1/whoami", nil, "Cookie", "skald="+session, "X-Forwarded-Proto", "https")
	if plain.status != 401 {
		t.Errorf("the cookie of plain HTTP over TLS: %d", plain.status)
	}

	out := b.do("POST", "/ui/sign-out", url.Values{})
	if out.status != 303 || !strings.Contains(out.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("signing out: %d %v", out.status, out.header)
	}
	if got := bare.do("GET", "/api/v1/whoami", nil, "Cookie", "skald="+session).status; got != 401 {
		t.Errorf("a stolen cookie after signing out: %d", got)
	}

	// Behind a proxy that terminates TLS, the cookie cannot have been set by anyone else.
	secure := bare.do("POST", "/ui/sign-in", url.Values{"credential": {key}}, "X-Forwarded-Proto", "https")
	got := secure.header.Get("Set-Cookie")
	if !strings.HasPrefix(got, "__Host-skald=") || !strings.Contains(got, "Secure") {
		t.Errorf("over TLS: %q", got)
	}

	revokedInMidForm(t, s, key)
}

// revokedInMidForm checks that revoking a key ends its sessions within five seconds, and that an
// open form is kept.
func revokedInMidForm(t *testing.T, s *uitest.Server, admin string) {
	t.Helper()
	root, b := newBrowser(t, s.URL), newBrowser(t, s.URL)
	root.signIn(admin, "")
	made := root.do("POST", "/ui/access/keys/new", url.Values{
		"name": {"clerk"}, "role": {"admin"}, "reason": {"to be revoked"}, "do": {"act"},
	})
	_, rest, found := strings.Cut(made.page, "<code class=\"copy\" id=\"secret\">")
	clerk, _, _ := strings.Cut(rest, "<")
	if made.status != 200 || !found {
		t.Fatalf("a new key: %d\n%s", made.status, made.page)
	}
	if got := b.signIn(clerk, ""); got.status != 303 {
		t.Fatalf("with a new key: %d\n%s", got.status, got.page)
	}
	who := root.get("/ui/access").page
	_, rest, _ = strings.Cut(who, "clerk")
	_, rest, _ = strings.Cut(rest, "/ui/access/keys/")
	id, _, _ := strings.Cut(rest, "/revoke")
	form := uitest.Form(root.get("/ui/access/keys/" + id + "/revoke").page)
	form.Set("reason", "left")
	form.Set("confirm", id[len(id)-6:])
	form.Set("do", "act")
	if got := root.do("POST", "/ui/access/keys/"+id+"/revoke", form); got.status != 303 {
		t.Fatalf("revoking %q: %d\n%s", id, got.status, got.page)
	}
	typed := url.Values{
		"name": {`a "name"`}, "role": {"operator"}, "reason": {"<script>alert(1)</script>"}, "key": {"made-once"},
		"next": {"a field of the form's own"}, "do": {"act"},
	}
	out := b.do("POST", "/ui/access/keys/new", typed)
	patience.Until(b.t, "the session of the revoked key no longer counts", func() bool {
		if out.status != 401 {
			form := maps.Clone(typed)
			form.Set("do", "preview")
			out = b.do("POST", "/ui/access/keys/new", form)
		}
		return out.status == 401
	})
	formComesBack(b, out, admin, typed)
}

// formComesBack checks that a person who signs in again, after a failed first attempt, gets the
// form as it was filled in, and that nothing was sent.
func formComesBack(b *browser, out seen, key string, typed url.Values) {
	b.t.Helper()
	b.wants("a form after its session", out, 401, "is kept", "&lt;script&gt;")
	if got := out.header.Get("Cache-Control"); got != "no-store" {
		b.t.Errorf("what was typed may be cached: %q", got)
	}
	form := uitest.Form(out.page)
	form.Set("credential", newKey(b.t))
	mistake := b.do("POST", "/ui/sign-in", form)
	b.wants("a wrong key", mistake, 401, "AUTH_INVALID")
	form = uitest.Form(mistake.page)
	form.Set("credential", key)
	in := b.do("POST", "/ui/sign-in", form)
	b.wants("signed in again", in, 200, "Back to the form", `action="/ui/access/keys/new"`)
	if strings.Contains(in.page, key) || strings.Contains(in.to+in.header.Get("Set-Cookie"), "script") {
		b.t.Error("the key is in the page, or what was typed in a URL or a cookie")
	}
	back := uitest.Form(in.page)
	for name := range typed {
		want := typed.Get(name)
		if name == "do" {
			want = "preview"
		}
		if got := back.Get(name); got != want {
			b.t.Errorf("the field %s comes back as %q", name, got)
		}
	}
	b.wants("the form again", b.do("POST", "/ui/access/keys/new", back), 200,
		`value="a &#34;name&#34;"`, "&lt;script&gt;", `name="key" value="made-once"`)
	b.wants("the keys", b.get("/ui/access"), 200, "clerk")
	if strings.Contains(b.get("/ui/access").page, "a &#34;name&#34;") {
		b.t.Error("the form was sent before it was seen again")
	}
	for _, to := range []string{"//evil.example/ui/", "https://evil.example", "/ui/sign-out", "/api/v1/sagas"} {
		form.Set("unsent", to)
		if got := b.do("POST", "/ui/sign-in", form); got.status != 303 {
			b.t.Errorf("a form for %q comes back: %d\n%s", to, got.status, got.page)
		}
	}
}

func TestAFileIsChosenAgainAfterSigningIn(t *testing.T) {
	t.Parallel()
	s := uitest.Start(t, func(c *config.Config) { c.Auth.BootstrapAdminKey = config.Secret(newKey(t)) })
	b := newBrowser(t, s.URL)
	out := b.do("POST", "/ui/dlq/import", url.Values{}, "Content-Type", "multipart/form-data; boundary=x")
	b.wants("a file after its session", out, 401, `name="next" value="/ui/dlq/import"`)
	if strings.Contains(out.page, "is kept") {
		t.Error("the page says that the file is kept")
	}
	b.wants("signing out without a session", b.do("POST", "/ui/sign-out", url.Values{"x": {"y"}}), 401,
		`name="next" value="/ui/"`)
}

// A form whose address was typed, bookmarked or pasted shows its preview. Browsers send no proof
// with such a request, but the dry run behind it changes nothing. The form must still be sent from
// a page.
func TestAFormWhoseAddressWasTypedShowsItsPreview(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	s := uitest.Start(t, func(c *config.Config) { c.Auth.BootstrapAdminKey = config.Secret(key) })
	b := newBrowser(t, s.URL)
	b.wants("sign-in", b.signIn(key, "/ui/"), 303)
	for _, path := range []string{
		"/ui/sagas/bulk/new?workflow_name=order&action=cancel", "/ui/run-bulks/new?queue=default&action=cancel",
		"/ui/redrives/new?topic=orders", "/ui/dlq/policy", "/ui/system/retention", "/ui/register-workflow",
	} {
		for _, site := range []string{"none", "same-origin"} {
			got := b.do("GET", path, nil, "Sec-Fetch-Site", site)
			if got.status != 200 || strings.Contains(got.page, "AUTH_CROSS_SITE") {
				t.Errorf("GET %s from %s: %d\n%s", path, site, got.status, got.page)
			}
		}
		got := b.do("POST", path, url.Values{"do": {"preview"}}, "Sec-Fetch-Site", "none")
		if got.status != 403 || !strings.Contains(got.page, "AUTH_CROSS_SITE") {
			t.Errorf("POST %s without a page: %d", path, got.status)
		}
	}
}
