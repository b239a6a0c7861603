package manual

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
)

// pages signs a person in, once with a key and once at the identity provider.
func (e *entrance) pages() {
	base, _ := url.Parse(e.base)
	res, text := e.send("GET", "/ui/sign-in", "")
	e.want("the sign-in page", res.StatusCode == 200 && res.ProtoMajor == 2 &&
		!strings.Contains(text, "not loaded over HTTPS") &&
		strings.Contains(text, `action="`+base.Path+`/ui/sign-in"`), res, text)
	for _, m := range regexp.MustCompile(`(?:href|src)="([^"?]+\.(?:css|js|svg))`).FindAllStringSubmatch(text, -1) {
		part, body := e.send("GET", strings.TrimPrefix(m[1], base.Path), "")
		e.want(m[1], strings.HasPrefix(m[1], base.Path+"/ui/") && part.StatusCode == 200, part, body)
	}
	// Forwarding headers sent by the client are ignored.
	const form = "application/x-www-form-urlencoded"
	res, text = e.send("POST", "/ui/sign-in", url.Values{"credential": {e.key}, "next": {"/ui/sagas"}}.Encode(),
		"Content-Type", form, "Origin", published, "X-Forwarded-Proto", "http")
	cookies := res.Cookies()
	e.want("signing in", res.StatusCode == 303 && res.Header.Get("Location") == base.Path+"/ui/sagas" &&
		len(cookies) == 1 && cookies[0].Name == "__Host-skald" && cookies[0].Secure && cookies[0].Path == "/", res, text)
	session := cookies[0].Name + "=" + cookies[0].Value
	res, text = e.send("GET", "/ui/sagas", "", "Cookie", session)
	e.want("a page with the session", res.StatusCode == 200 && strings.Contains(text, "Sagas"), res, text)
	for origin, status := range map[string]int{published: 201, "https://other.example": 403} {
		res, text = e.send("POST", "/api/v1/sagas", e.saga(""), "Authorization", "", "Cookie", session,
			"Origin", origin)
		e.want("a change from a page of "+origin, res.StatusCode == status, res, text)
	}
	// This response has the largest headers: nginx has room for 4 KiB.
	long := "/ui/sagas?correlation_id=" + strings.Repeat("x", 1470)
	res, text = e.send("GET", "/ui/sign-in/oidc?next="+url.QueryEscape(long), "")
	at, _ := url.Parse(res.Header.Get("Location"))
	e.want("signing in at the provider", res.StatusCode == 303 &&
		at.Query().Get("redirect_uri") == e.base+"/ui/sign-in/oidc/callback" &&
		strings.Contains(res.Header.Get("Set-Cookie"), "__Host-skald-sign-in="), res, text)
}

// addresses follows the addresses in responses, and checks that paths arrive as they were sent.
func (e *entrance) addresses(skald, base string) {
	res, text := e.send("POST", "/api/v1/webhooks", `{"url": "`+e.participant+`"}`)
	at := res.Header.Get("Location")
	e.want("a webhook", res.StatusCode == 201 && strings.HasPrefix(at, base+"/api/v1/webhooks/"), res, text)
	path := strings.TrimPrefix(at, base)
	res, text = e.send("GET", path, "", "Accept-Encoding", "gzip")
	tag := res.Header.Get("ETag")
	e.want("the webhook where its Location says", res.StatusCode == 200 && strings.HasPrefix(tag, `"`), res, text)
	res, text = e.send("PATCH", path, `{"enabled": false}`, "If-Match", tag)
	e.want("the entity tag is the server's", res.StatusCode == 200, res, text)

	for _, odd := range []string{"/api/v1/workflows/a%2Fb%20c", "/api/v1/workflows/a%252F", "/api/v1/nothing/%C3%A4%3F"} {
		res, text = e.send("GET", odd+"?version=1", "")
		direct := e.t.Context()
		req, _ := http.NewRequestWithContext(direct, "GET", "http://"+skald+odd+"?version=1", http.NoBody)
		req.Header.Set("Authorization", "Bearer "+e.key)
		same, err := http.DefaultClient.Do(req)
		if err != nil {
			e.t.Fatal(err)
		}
		defer same.Body.Close()
		var got, want struct{ Instance, Code, Detail string }
		_ = json.Unmarshal([]byte(text), &got)
		_ = json.NewDecoder(same.Body).Decode(&want)
		e.want("the path "+odd, got == want && got.Code != "", res, text)
	}
	for _, path := range []string{"/metrics", "/%6detrics", "//metrics", "/./metrics"} {
		res, text = e.send("GET", path, "")
		e.want(path+" is not for clients", res.StatusCode != 200 && !strings.Contains(text, "skald_"), res, text)
	}
	if e.base != published {
		whole := *e
		whole.base = published
		if res, text = whole.send("GET", "/skald", ""); res.StatusCode/100 == 3 {
			at, _ := res.Location()
			e.want("without the slash", at.String() == published+"/skald/" || at.String() == published+"/skald/ui/", res, text)
		} else {
			e.want("without the slash", res.StatusCode == 200, res, text)
		}
		res, text = whole.send("GET", "/skaldic/readyz", "")
		e.want("another path", res.StatusCode != 200 || text == "", res, text)
	}
}

// bodies sends a letter of the maximum size, and a saga that is slightly too large.
func (e *entrance) bodies(most int) {
	const letter = `{"original_topic": "large", "error_message": "no", "payload": "`
	res, text := e.send("POST", "/api/v1/dlq/messages", letter+strings.Repeat("x", most-len(letter)-2)+`"}`)
	e.want("10 MiB", res.StatusCode == 201, res, text)
	res, text = e.send("POST", "/api/v1/sagas", e.saga(strings.Repeat("x", most)))
	e.want("more than 10 MiB", res.StatusCode == 413 && strings.Contains(text, `"code":"REQ_TOO_LARGE"`), res, text)
}

// events reads a stream while the event that it reports happens.
func (e *entrance) events() {
	id := uuid.NewString()
	stream := e.open("GET", "/api/v1/saga-events/stream?saga_id="+id, "")
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	lines.Scan()
	e.want("the stream begins", stream.StatusCode == 200 && lines.Text() == ": open",
		stream, lines.Text())
	res, text := e.send("POST", "/api/v1/sagas",
		strings.Replace(e.saga(""), "{", `{"saga_id": "`+id+`", `, 1))
	e.want("a saga", res.StatusCode == 201, res, text)
	arrived := make(chan string, 1)
	go func() {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "event: ") {
				break
			}
		}
		arrived <- lines.Text()
	}()
	if got := patience.Receive(e.t, "an event arrives while the stream is open", arrived); got != "event: saga.started" {
		e.t.Errorf("the stream tells %q", got)
	}
}

// saga returns a saga whose step fails and is retried after a minute.
func (e *entrance) saga(filling string) string {
	return `{"workflow_name": "through-a-proxy", "payload": {"filling": "` + filling + `"}, "steps": [
		{"name": "a", "action": {"http": {"url": "` + e.participant + `"}}, "compensation": "none",
			"retry": {"max_attempts": 2, "initial_interval_ms": 60000}}]}`
}

func randomBytes(t *testing.T, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBehindProxies runs the configurations of deploy/proxies in front of real servers, one of
// which has a base path.
func TestBehindProxies(t *testing.T) {
	t.Parallel()
	certificates := exampleCertificates(t)
	var provider *httptest.Server
	provider = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": provider.URL, "authorization_endpoint": provider.URL + "/auth", "token_endpoint": provider.URL + "/token",
			"jwks_uri": provider.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"},
		})
	}))
	t.Cleanup(provider.Close)
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	t.Cleanup(failing.Close)
	admin := "skald_abcdefgh_" + base64.RawURLEncoding.EncodeToString(randomBytes(t, 32))
	const most = 10 << 20
	given := []string{
		"SKALD_BOOTSTRAP_ADMIN_KEY=" + admin, "SKALD_SERVER_MAX_BODY_BYTES=" + fmt.Sprint(most),
		"SKALD_AUTH_JWT_ISSUER=" + provider.URL, "SKALD_AUTH_JWT_AUDIENCE=skald", "SKALD_AUTH_OIDC_CLIENT_ID=skald",
		"SKALD_AUTH_OIDC_CLIENT_SECRET=a secret of some length", "SKALD_EGRESS_ALLOW=" + strings.TrimPrefix(failing.URL, "http://"),
		"SKALD_SERVER_MAX_CONNECTIONS_PER_ADDRESS=0", "SKALD_SERVER_MAX_WAIT=1s",
	}
	servers := map[string]string{
		"": Serve(t, given...), "/skald": Serve(t, append(given, "SKALD_SERVER_BASE_PATH=/skald")...),
	}
	for i := range proxies {
		p := &proxies[i]
		for way, w := range ways {
			t.Run(p.program+" for "+w.name, func(t *testing.T) {
				t.Parallel()
				e := p.enter(t, servers[w.base], certificates, way, "")
				e.key, e.participant = admin, failing.URL
				e.pages()
				e.addresses(servers[w.base], w.base)
				e.events()
				if way == 0 { // once for each program
					e.bodies(most)
					res, text := e.send("POST", "/api/v1/sagas?wait=60s", e.saga(""))
					e.want("a wait that the server shortens", res.StatusCode == 201, res, text)
				}
			})
		}
		// If the server waited longer than the proxy, the client wouldn't even learn the saga's id.
		if p.timeout != "" {
			t.Run(p.program+" does not wait as long as the server", func(t *testing.T) {
				t.Parallel()
				e := p.enter(t, servers[""], certificates, 0, "100ms")
				e.key, e.participant = admin, failing.URL
				res, text := e.send("POST", "/api/v1/sagas?wait=60s", e.saga(""))
				e.want("a wait that the proxy cuts", res.StatusCode == 504, res, text)
			})
		}
	}
	server := config.Default(config.Prod).Server
	if longest := server.MaxWait + server.RequestTimeout; longest >= time.Minute {
		t.Errorf("a request may take %s, and the proxies wait for a minute", longest)
	}
	if server.IdleTimeout <= time.Minute {
		t.Errorf("the server closes idle connections after %s, and the proxies after a minute", server.IdleTimeout)
	}
}
