package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// visit makes a request as a browser with a session, and returns the response and its text.
func visit(t *testing.T, method, to, session string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if session != "" {
		req.AddCookie(&http.Cookie{Name: "skald", Value: session})
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req) // follows no redirects
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// signIn returns the session that a node creates from an API key.
func signIn(t *testing.T, n *node, key string) string {
	t.Helper()
	form := url.Values{"credential": {key}}
	req, err := http.NewRequestWithContext(t.Context(), "POST", n.url+"/ui/sign-in", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for _, c := range res.Cookies() {
		if c.Name == "skald" && c.Value != "" {
			return c.Value
		}
	}
	t.Fatalf("signing in: %d %v", res.StatusCode, res.Header)
	return ""
}

// The nodes share only the database. A test in the package identity shows with a fake clock that a
// node remembers a session for less than five seconds.
func TestASessionThatHasEndedIsRefusedByEveryNode(t *testing.T) {
	t.Parallel()
	dsn, root := testdb.DSN(t), newToken(t)
	a, b := start(t, dsn, "a", bootstrapped(root)), start(t, dsn, "b", bootstrapped(root))
	key := func(name string) (id, key string) {
		req, err := http.NewRequestWithContext(t.Context(), "POST", a.url+"/api/v1/api-keys",
			strings.NewReader(`{"name":"`+name+`","role":"auditor"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		made := do(t, req, root)
		return made["api_key"].(map[string]any)["id"].(string), made["key"].(string)
	}
	_, clerk := key("clerk")
	gone, left := key("left")
	signsOut, signsInAgain, loses := signIn(t, a, clerk), signIn(t, a, clerk), signIn(t, a, left)
	for _, n := range []*node{a, b} {
		for _, session := range []string{signsOut, signsInAgain, loses} {
			if res, text := visit(t, "GET", n.url+"/ui/sagas", session); res.StatusCode != 200 {
				t.Fatalf("a new session: %d %s", res.StatusCode, text)
			}
		}
	}
	out, text := visit(t, "POST", a.url+"/ui/sign-out", signsOut, "Sec-Fetch-Site", "same-origin")
	if out.StatusCode != 303 {
		t.Fatalf("signing out: %d %s", out.StatusCode, text)
	}
	again, err := http.NewRequestWithContext(t.Context(), "POST", a.url+"/ui/sign-in",
		strings.NewReader(url.Values{"credential": {clerk}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	again.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	again.Header.Set("Sec-Fetch-Site", "same-origin")
	again.AddCookie(&http.Cookie{Name: "skald", Value: signsInAgain})
	if res, err := http.DefaultTransport.RoundTrip(again); err != nil || res.StatusCode != 303 {
		t.Fatalf("signing in once more: %v %v", res, err)
	} else {
		res.Body.Close()
	}
	revoke(t, a, gone, root)
	for what, session := range map[string]string{
		"of somebody who signed out": signsOut, "of somebody who signed in again": signsInAgain, "of a revoked key": loses,
	} {
		for _, n := range []*node{a, b} {
			patience.Until(t, "the session "+what+" is refused", func() bool {
				page, _ := visit(t, "GET", n.url+"/ui/sagas", session)
				program, _ := visit(t, "GET", n.url+"/api/v1/sagas", session)
				return page.StatusCode == 401 && program.StatusCode == 401
			})
		}
	}
}

// Luring a signed-in person to another site changes nothing here: not by the pages, and not by any operation of the
// API, whatever the browser says of where the request comes from.
func TestNoOperationIsDoneForAnotherSiteWithASession(t *testing.T) {
	t.Parallel()
	root := newToken(t)
	n := start(t, testdb.DSN(t), "a", bootstrapped(root))
	session := signIn(t, n, root)
	foreign := map[string][]string{
		"nothing": nil, "another site": {"Sec-Fetch-Site", "cross-site"}, "a neighbour": {"Sec-Fetch-Site", "same-site"},
		"no page": {"Sec-Fetch-Site", "none"}, "an origin": {"Origin", "https://evil.example"},
		"a hidden origin": {"Origin", "null"},
		"both":            {"Sec-Fetch-Site", "cross-site", "Origin", n.url},
	}
	changes := 0
	for _, op := range contractOf(t, n.url).operations() {
		if op.method == http.MethodGet || op.sessionless { // another site has no use for the session
			continue
		}
		changes++
		path := wildcard.ReplaceAllLiteralString(op.path, uuid.NewString())
		for what, headers := range foreign {
			for _, at := range []string{path, "/ui/of/" + uuid.NewString() + path} {
				res, text := visit(t, op.method, n.url+at, session, headers...)
				if res.StatusCode != http.StatusForbidden || !strings.Contains(text, "AUTH_CROSS_SITE") {
					t.Errorf("%s: %s %s with %s: %d %s", op.id, op.method, at, what, res.StatusCode, text)
				}
			}
		}
		if res, text := visit(t, op.method, n.url+path, session, "Sec-Fetch-Site", "same-origin"); res.StatusCode == 403 {
			t.Errorf("%s from a page of this server: %d %s", op.id, res.StatusCode, text) // then the rest proves nothing
		}
	}
	if changes < 85 {
		t.Errorf("only %d operations change something", changes)
	}
}

// No answer is taken for a web page, or shown in another site's frame, whatever is at its path.
func TestEveryAnswerSaysHowABrowserMayShowIt(t *testing.T) {
	t.Parallel()
	root := newToken(t)
	n := start(t, testdb.DSN(t), "a", bootstrapped(root))
	session := signIn(t, n, root)
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
	paths := []string{
		"/", "/ui", "/docs", "/docs/", "/docs/nothing", "/docs/api", "/openapi.json", "/healthz", "/metrics", "/nothing",
		"/ui/nothing", "/ui//sagas", "/ui/../x", "/api/v1/nothing", "/%00", "/ui/%00", "/favicon.ico", "/robots.txt",
	}
	for _, op := range contractOf(t, n.url).operations() {
		if !strings.HasSuffix(op.path, "/stream") && op.path != "/api/v1/watch" {
			paths = append(paths, wildcard.ReplaceAllLiteralString(op.path, uuid.NewString()))
		}
	}
	for _, pattern := range patterns(t) {
		_, path, _ := strings.Cut(pattern, "/")
		paths = append(paths, "/"+wildcard.ReplaceAllLiteralString(strings.TrimSuffix(path, "{$}"), uuid.NewString()))
	}
	pages := 0
	for _, path := range paths {
		for _, method := range []string{"GET", "HEAD", "POST", "TRACE"} {
			for _, who := range []string{"", session} {
				res, text := visit(t, method, n.url+path, who, "Accept", "text/html", "X-Forwarded-Host", "evil.example")
				at := fmt.Sprint(method, " ", path, ": ", res.StatusCode)
				if got := res.Header.Values("X-Content-Type-Options"); len(got) != 1 || got[0] != "nosniff" {
					t.Errorf("%s: X-Content-Type-Options is %q", at, got)
				}
				if strings.Contains(text, "evil.example") || strings.Contains(res.Header.Get("Location"), "evil.example") {
					t.Errorf("%s believes the client's X-Forwarded-Host", at)
				}
				if res.StatusCode >= 500 && !strings.Contains(text, "UNAVAILABLE") {
					t.Errorf("%s: %s", at, text)
				}
				if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") || res.StatusCode/100 == 3 {
					continue
				}
				pages++
				for name, want := range map[string]string{
					"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
				} {
					if got := res.Header.Values(name); len(got) != 1 || got[0] != want {
						t.Errorf("%s: %s is %q", at, name, got)
					}
				}
			}
		}
	}
	if pages < 300 {
		t.Errorf("only %d pages", pages)
	}
}
