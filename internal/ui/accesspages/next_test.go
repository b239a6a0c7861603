package accesspages

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// Whatever a request gives as the next page, a browser that follows it stays below /ui/ of this
// server.
func TestTheNextPageIsOneOfThisServer(t *testing.T) {
	const root = "https://skald.example"
	stays := []string{"/ui/", "/ui/sagas?status=FAILED&metadata=%7B%22a%22%3A1%7D", "/ui/jobs/a%20b?tab=runs#x",
		"/ui/audit?reason=//evil.example", "/ui/dlq/topics/a%2Fb"}
	leaves := []string{
		"", "x", "ui/", "https://evil.example", "https://evil.example/ui/", "//evil.example", "//evil.example/ui/",
		"///evil.example/ui/", "/\\evil.example", `\\evil.example`, `/ui/\evil.example`, `/ui\..\..\evil`,
		"/ui/..//evil.example",
		"/ui/../../evil", "/ui/%2e%2e//evil.example", "/ui/%2E%2E/%2E%2E/x", "/ui/.%2e/x", "/ui/..;/x", "/ui/./../x",
		"javascript:alert(1)", "JavaScript:/ui/", "data:text/html,/ui/", " /ui/", "\t/ui/", "/\t/evil.example",
		"/\n/evil.example",
		"/ui/\r\nSet-Cookie: a=b", "/ui/\x00", "/ui/\x7f", "/u\ti/", "/api/v1/sagas", "/docs/", "/ui", "/uix/",
		"/ui/sign-in", "/ui/sign-in?next=/ui/", "/ui/sign-out", "/ui/sign-in/oidc", "／／evil.example", "/／evil.example",
		"⁄⁄evil.example", "http:///ui/", "https:/ui/", "/ui/%zz",
	}
	browser := func(base, next string) (at *url.URL, header http.Header) {
		w := httptest.NewRecorder()
		http.Redirect(w, httptest.NewRequest("GET", root+base+"/ui/sign-in", nil), base+next, http.StatusSeeOther)
		to := w.Header().Get("Location")
		home, _ := url.Parse(root + base + "/ui/sign-in")
		// A browser treats \ as /, and ignores tabs and line endings.
		ref, err := url.Parse(strings.NewReplacer(`\`, "/", "\t", "", "\n", "", "\r", "").Replace(to))
		if err != nil {
			t.Fatalf("%q leads to %q: %v", next, to, err)
		}
		return home.ResolveReference(ref), w.Header()
	}
	for _, base := range []string{"", "/skald"} {
		for _, next := range append(stays, leaves...) {
			at, _ := browser(base, nextOf(next))
			if at.Scheme != "https" || at.Host != "skald.example" || !strings.HasPrefix(at.Path, base+"/ui/") ||
				strings.HasPrefix(at.Path, base+"/ui/sign-") {
				t.Errorf("below %q, %q leads to %q", base, next, at)
			}
		}
	}
	for _, next := range stays {
		if got := nextOf(next); got != next {
			t.Errorf("%q becomes %q", next, got)
		}
	}
	for _, next := range leaves {
		if got := nextOf(next); got != "/ui/" {
			t.Errorf("%q leads to %q", next, got)
		}
	}
	// Text that is harmless to this server may be a header to a proxy, so nothing that is let
	// through may end a line.
	for _, next := range []string{"/ui/%0d%0aSet-Cookie:a=b", "/ui/?x=%0d%0aSet-Cookie:a=b", "/ui/\u2028", "/ui/\u560a"} {
		at, header := browser("", nextOf(next))
		if at.Host != "skald.example" || strings.ContainsAny(header.Get("Location"), "\r\n") || len(header) != 2 {
			t.Errorf("%q makes %q", next, header)
		}
	}
}
