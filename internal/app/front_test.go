package app_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/config"
)

// This test is not parallel: there is one cache per process, and each node that starts replaces it.
func TestTheRootLeadsBrowsersToThePagesAndTellsOthersWhereTheAPIIs(t *testing.T) {
	visit := func(base string, change func(*config.Config)) func(path, accept string) (int, string, string) {
		n := start(t, "", "a", func(c *config.Config) {
			c.Store, c.Server.BasePath = config.Memory, base
			change(c)
		})
		return func(path, accept string) (int, string, string) {
			req, err := http.NewRequestWithContext(t.Context(), "GET", n.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", accept)
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			return res.StatusCode, res.Header.Get("Location"), string(body)
		}
	}
	const browser, program = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "*/*"
	get := visit("/skald", func(c *config.Config) { c.UI.Title, c.UI.Colour = "PRODUCTION", "red" })
	for _, at := range []string{"/", "/skald/", "/ui", "/skald/ui"} {
		if status, to, _ := get(at, browser); status != 303 || to != "/skald/ui/" {
			t.Errorf("a browser at %s: %d, to %q", at, status, to)
		}
	}
	for _, at := range []string{"/", "/skald/"} {
		status, _, body := get(at, program)
		for _, want := range []string{`"api":"/skald/api/v1"`, `"contract":"/skald/openapi.json"`,
			`"participants":"/skald/participant.openapi.json"`, `"ui":"/skald/ui/"`, `"docs":"/skald/docs/"`} {
			if status != 200 || !strings.Contains(body, want) {
				t.Errorf("a program at %s: %d %s, without %s", at, status, body, want)
			}
		}
	}
	for _, at := range []string{"/ui/", "/skald/ui/"} {
		status, _, page := get(at, browser)
		if status != 200 || !strings.Contains(page, `href="/skald/ui/sagas"`) || strings.Contains(page, `href="/ui/`) ||
			!strings.Contains(page, "PRODUCTION") {
			t.Errorf("%s: %d, with links beside the base path\n%s", at, status, page)
		}
	}
	for at, want := range map[string]int{
		"/skald/participant.openapi.json": 200, "/participant.openapi.json": 200,
		"/skald/api/v1/whoami": 200, "/api/v1/whoami": 200, "/skald/healthz": 200, "/skald": 303, "/skaldic/": 404,
	} {
		if status, _, body := get(at, program); status != want {
			t.Errorf("%s: %d %s", at, status, body)
		}
	}

	get = visit("", func(c *config.Config) { c.UI.Mode = config.UIOff })
	if status, _, body := get("/", browser); status != 200 || strings.Contains(body, `"ui"`) {
		t.Errorf("without pages, a browser at /: %d %s", status, body)
	}
	if status, _, body := get("/ui/", browser); status != 404 || !strings.Contains(body, "REQ_NOT_FOUND") {
		t.Errorf("pages that are off: %d %s", status, body)
	}
}

// Any prefix that a proxy adds to our paths appears exactly once in the addresses that we return.
func TestOurOwnAddressesIncludeTheBasePath(t *testing.T) {
	for _, tt := range []struct{ base, public, called, at, server string }{
		{"", "", "", "", "/"},
		{"/skald", "", "/skald", "/skald", "/skald"},
		{"/skald", "", "", "/skald", "/skald"}, // the proxy removes it
		{"/skald", "https://x.example/skald", "/skald", "/skald", "https://x.example/skald"},
		{"", "https://x.example", "", "", "https://x.example"},
		{"", "https://x.example/a/b", "", "https://x.example/a/b", "https://x.example/a/b"},
	} {
		n := start(t, "", "a", func(c *config.Config) {
			c.Store, c.Server.BasePath, c.Server.PublicURL = config.Memory, tt.base, tt.public
		})
		post := func(key string) *http.Response {
			req, err := http.NewRequestWithContext(t.Context(), "POST", n.url+tt.called+"/api/v1/webhooks",
				strings.NewReader(`{"url":"https://example.com/hook"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", key)
			res, _, err := answerOf(req)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		if at := post("k").Header.Get("Location"); !strings.HasPrefix(at, tt.at+"/api/v1/webhooks/") {
			t.Errorf("%+v: Location %s", tt, at)
		}
		_, missing := call(t, "GET", n.url+tt.called+"/api/v1/nothing", "")
		if missing["instance"] != tt.at+"/api/v1/nothing" {
			t.Errorf("%+v: instance %v", tt, missing["instance"])
		}
		docs := strings.TrimSuffix(tt.server, "/") + "/docs/problems#"
		if kind, _ := missing["type"].(string); !strings.HasPrefix(kind, docs) {
			t.Errorf("%+v: type %v", tt, kind)
		}
		_, contract := call(t, "GET", n.url+tt.called+"/openapi.json", "")
		servers, _ := contract["servers"].([]any)
		if len(servers) != 1 || servers[0].(map[string]any)["url"] != tt.server {
			t.Errorf("%+v: servers %v", tt, servers)
		}
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	}
}

// Where browsers reach the server over TLS, its cookies are Secure, whatever the proxy's last hop is.
func TestCookiesAreSecureBehindAnHTTPSAddress(t *testing.T) {
	token := newToken(t)
	for public, secure := range map[string]bool{"": false, "http://127.0.0.1:9": false, "https://x.example/skald": true} {
		n := start(t, "", "a", bootstrapped(token), func(c *config.Config) {
			c.Store, c.Server.PublicURL = config.Memory, public
		})
		req, err := http.NewRequestWithContext(t.Context(), "POST", n.url+"/api/v1/sessions", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		cookies := res.Cookies()
		if len(cookies) != 1 || cookies[0].Secure != secure || strings.HasPrefix(cookies[0].Name, "__Host-") != secure {
			t.Errorf("public_url %q: %d, cookies %v", public, res.StatusCode, cookies)
		}
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	}
}
