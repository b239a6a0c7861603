package ui_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/ui"
	"github.com/skald-saga/skald/internal/ui/web"
)

// newKit returns all pages on top of an API that always responds with 401, and counts the requests
// that would change something.
func newKit(t *testing.T, change ...func(*ui.Config)) (k *web.Kit, writes *int) {
	t.Helper()
	writes = new(int)
	cfg := ui.Config{
		API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				*writes++
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"type":"x","title":"Credential required","status":401,"code":"AUTH_REQUIRED","detail":"","request_id":""}`))
		}),
		Now: time.Now, NewID: func() string { return "key" }, Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	h, err := ui.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h.(*web.Kit), writes
}

func TestEveryPageCanBeMadeReady(t *testing.T) {
	k, _ := newKit(t)
	if err := k.Prepare(); err != nil {
		t.Error(err)
	}
}

var wildcard = regexp.MustCompile(`\{[^}]*\}`)

// paths returns the paths of all patterns for a method.
func paths(k *web.Kit, method string) (all []string) {
	for _, p := range k.Patterns {
		m, path, both := strings.Cut(p, " ")
		if !both {
			path = m
		} else if m != method {
			continue
		}
		all = append(all, wildcard.ReplaceAllString(strings.TrimSuffix(path, "{$}"), "01981d2e-0000-7000-8000-000000000001"))
	}
	return all
}

func TestNothingIsChangedForAnotherSite(t *testing.T) {
	k, writes := newKit(t)
	posts := paths(k, http.MethodPost)
	if len(posts) < 2 {
		t.Fatalf("only %q take a POST", posts)
	}
	foreign := []map[string]string{
		{}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"},
		{"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "none", "Origin": "https://evil.example"},
		{"Origin": "null"}, {"Sec-Fetch-Site": "cross-site", "Origin": "http://example.com"},
	}
	for _, path := range append(posts, "/ui/", "/ui/no-such-page") {
		for _, headers := range foreign {
			for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "PROPFIND"} {
				r := httptest.NewRequest(method, path, strings.NewReader("reason=x&do=act"))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				for name, value := range headers {
					r.Header.Set(name, value)
				}
				w := httptest.NewRecorder()
				k.ServeHTTP(w, r)
				if w.Code != http.StatusForbidden {
					t.Errorf("%s %s with %v: %d", method, path, headers, w.Code)
				}
			}
		}
		for _, headers := range []map[string]string{{"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://example.com"}} {
			r := httptest.NewRequest("POST", path, strings.NewReader("reason=x"))
			for name, value := range headers {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			if k.ServeHTTP(w, r); w.Code == http.StatusForbidden {
				t.Errorf("POST %s with %v is refused", path, headers)
			}
		}
	}
	if *writes != 0 {
		t.Errorf("the API got %d requests that change something", *writes)
	}
}

func TestPagesThatOnlyShowTakeNoAction(t *testing.T) {
	k, writes := newKit(t, func(c *ui.Config) { c.ReadOnly = true })
	for _, path := range paths(k, http.MethodPost) {
		r := httptest.NewRequest("POST", path, strings.NewReader(""))
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		w := httptest.NewRecorder()
		k.ServeHTTP(w, r)
		if signs := strings.HasPrefix(path, "/ui/sign-"); (w.Code == http.StatusForbidden) == signs {
			t.Errorf("POST %s: %d", path, w.Code)
		}
	}
	if *writes != 0 {
		t.Errorf("the API got %d requests that change something", *writes)
	}
}

func TestEveryAnswerOfThePagesHasTheHeaders(t *testing.T) {
	k, _ := newKit(t)
	const strict = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
	for _, path := range append(paths(k, http.MethodGet), "/ui/assets/nothing.js", "/ui//sagas", "/ui/../x",
		"/docs/api", "/docs/api/schemas/nothing", "/docs/api/nothing", "/docs/apis", "/docs/nothing",
		"/docs/images/nothing.png", "/docs/images/") {
		for _, method := range []string{"GET", "HEAD", "POST", "DELETE"} {
			w := httptest.NewRecorder()
			k.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			for name, want := range map[string]string{
				"Content-Security-Policy": strict,
				"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s %s: %s is %q", method, path, name, got)
				}
			}
			if body := w.Body.String(); strings.Contains(body, " style=") || strings.Contains(body, "<script>") ||
				strings.Contains(body, " onclick=") {
				t.Errorf("%s %s has an inline style or script", method, path)
			}
		}
	}
}

func TestLinksToOtherToolsAreMadeOfTheirTemplates(t *testing.T) {
	k, _ := newKit(t, func(c *ui.Config) {
		c.Links = []ui.Link{{Name: "Jaeger", URL: "https://j/{trace_id}"}, {Name: "Logs", URL: "https://l/?q={correlation_id}"}}
	})
	if got := k.Elsewhere("abc", ""); len(got) != 1 || got[0] != (web.Link{Name: "Jaeger", URL: "https://j/abc"}) {
		t.Errorf("of a trace: %v", got)
	}
	if got := k.Elsewhere("", `"&<x`); len(got) != 1 || got[0].URL != "https://l/?q=%22%26%3Cx" {
		t.Errorf("of a correlation: %v", got)
	}
}

func TestAPageThatNeedsPostgreSQLSaysSo(t *testing.T) {
	for code, want := range map[string][]string{
		"SYS_UNAVAILABLE":           {"needs PostgreSQL, which is not responding", `data-refresh="5"`, "Try again"},
		"JOB_UNAVAILABLE":           {"--store memory", "Try again"},
		"AUTH_PROVIDER_UNAVAILABLE": {"Try again"},
	} {
		k, _ := newKit(t, func(c *ui.Config) {
			c.API = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = w.Write([]byte(`{"type":"x","title":"Unavailable","status":503,"code":"` + code +
					`","detail":"","request_id":""}`))
			})
		})
		w := httptest.NewRecorder()
		k.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ui/sagas?state=failed", nil))
		page := w.Body.String()
		for _, text := range want {
			if w.Code != http.StatusServiceUnavailable || !strings.Contains(page, text) {
				t.Errorf("%s: %d without %s:\n%s", code, w.Code, text, page)
			}
		}
		if code != "SYS_UNAVAILABLE" &&
			(strings.Contains(page, "data-refresh") || strings.Contains(page, "does not answer")) {
			t.Errorf("%s promises that it passes:\n%s", code, page)
		}
	}
}
