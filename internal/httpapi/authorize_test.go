package httpapi_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestServerRequiresAuthenticationOrDevelopmentMode(t *testing.T) {
	e := apitest.NewEdge(t)
	for name, change := range map[string]func(*httpapi.Config){
		"neither": func(c *httpapi.Config) { c.Access.Development = false },
		"both":    func(c *httpapi.Config) { apitest.Guarded(c); c.Access.Development = true },
	} {
		cfg := e.Cfg
		change(&cfg)
		if _, err := httpapi.New(cfg); err == nil || !strings.Contains(err.Error(), "Identify") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCredentialIsAcceptedInSeveralHeadersButOnlyOnce(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	for _, tt := range []struct {
		name   string
		header []string
		status int
		code   string
	}{
		{"a bearer", apitest.As("operator"), 200, ""},
		{"a bearer in small letters", []string{"authorization", "bearer operator"}, 200, ""},
		{"an API key", []string{"X-API-Key", "operator"}, 200, ""},
		{"none", nil, 401, principal.CodeRequired},
		{"an unknown one", apitest.As("stranger"), 401, principal.CodeInvalid},
		{"an empty bearer", []string{"Authorization", "Bearer"}, 401, principal.CodeInvalid},
		{"an empty key", []string{"X-API-Key", ""}, 401, principal.CodeInvalid},
		{"another scheme", []string{"Authorization", "Basic b3A6b3A="}, 401, principal.CodeInvalid},
		{"both", append(apitest.As("operator"), "X-API-Key", "operator"), 401, principal.CodeInvalid},
		{"while nothing can be known", apitest.As("outage"), 503, "SYS_UNAVAILABLE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := e.Send("GET", "/api/v1/whoami", "", tt.header...)
			if tt.code == "" {
				if r.Status != 200 || r.Header.Get("Cache-Control") != "private, no-cache" {
					t.Fatalf("got %d %s, Cache-Control %q", r.Status, r.Body, r.Header.Get("Cache-Control"))
				}
				return
			}
			r.Wants(tt.status, tt.code)
			challenge := map[string]string{
				principal.CodeRequired: `Bearer realm="skald"`, principal.CodeInvalid: `Bearer realm="skald", error="invalid_token"`,
			}[tt.code]
			if got := r.Header.Get("WWW-Authenticate"); got != challenge {
				t.Errorf("WWW-Authenticate = %q, want %q", got, challenge)
			}
			if strings.Contains(string(r.Body), "revoked-in-secret") {
				t.Errorf("the response contains the cause: %s", r.Body)
			}
		})
	}
	if !strings.Contains(e.Log.String(), "revoked-in-secret") {
		t.Error("the log lacks the cause")
	}
	if strings.Contains(e.Log.String(), "stranger") {
		t.Error("the log contains a credential")
	}
}

func TestHealthAndContractNeedNoCredential(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	for _, path := range []string{"/healthz", "/readyz", "/version", "/openapi.json"} {
		for _, header := range [][]string{nil, apitest.As("stranger")} {
			if r := e.Send("GET", path, "", header...); r.Status != 200 {
				t.Errorf("%s: %d %s", path, r.Status, r.Body)
			}
		}
	}
}

func TestAuthenticationComesBeforeAllOtherChecks(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	for _, tt := range []struct{ method, path, body string }{
		{"GET", "/api/v1/sagas?colour=red", ""},
		{"GET", "/api/v1/sagas/not-a-uuid", ""},
		{"POST", "/api/v1/sagas", "{"},
		{"GET", "/api/v1/sagas/01234567-89ab-7def-8123-456789abcdef", ""},
	} {
		e.Send(tt.method, tt.path, tt.body).Wants(401, principal.CodeRequired)
	}
}

// ofAllTenants are the operations on all tenants that work with the store in memory.
var ofAllTenants = map[string]bool{
	"GET /api/v1/nodes": true, "GET /api/v1/tenants": true, "GET /api/v1/admin/storage": true}

// TestEveryOperationForEveryRole checks for every operation and role that the server enforces what
// the contract declares.
func TestEveryOperationForEveryRole(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	const id = "01234567-89ab-7def-8123-456789abcdef"
	replace := strings.NewReplacer("{saga_id}", id, "{key_id}", id, "{message_id}", id, "{session_id}", id,
		"{topic}", "orders", "{name}", "order",
		"{version}", "1", "{step}", "0")
	all := apitest.Operations(t, replace)
	if len(all) < 20 {
		t.Fatalf("only %d operations", len(all))
	}
	checked := 0
	for _, op := range all {
		for _, who := range append(slices.Sorted(maps.Keys(apitest.People)), "stranger", "") {
			header := apitest.As(who)
			if who == "" {
				header = nil
			}
			allowed := op.Permission == "anybody" || apitest.People[who].Role.Allows(principal.Permission(op.Permission))
			r := e.Send(op.Method, op.Path, "", header...)
			checked++
			switch {
			case who == "":
				r.Wants(401, principal.CodeRequired)
			case who == "stranger":
				r.Wants(401, principal.CodeInvalid)
			case !allowed:
				if p := r.Wants(403, principal.CodeForbidden); !strings.Contains(p.Detail, op.Permission) {
					t.Errorf("%s %s as %s: %q does not name %s", op.Method, op.Path, who, p.Detail, op.Permission)
				}
			case ofAllTenants[op.Method+" "+op.Path] && !apitest.People[who].AnyTenant:
				if p := r.Wants(403, principal.CodeForbidden); !strings.Contains(p.Detail, "all tenants") {
					t.Errorf("%s %s as %s: %q does not mention all tenants", op.Method, op.Path, who, p.Detail)
				}
			case r.Status == 401 || r.Status == 403 || r.Status >= 500 && !noQueue(r):
				t.Errorf("%s %s as %s: %d %s", op.Method, op.Path, who, r.Status, r.Body)
			}
			if who == "" || who == "stranger" {
				continue
			}
			// A caller that is bound to a tenant cannot choose another one.
			r = e.Send(op.Method, op.Path, "", append(header, "X-Tenant-Id", uuid.NewString())...)
			switch {
			case !allowed:
				r.Wants(403, principal.CodeForbidden)
			case !apitest.People[who].AnyTenant:
				r.Wants(403, principal.CodeTenantMismatch)
			case r.Status == 401 || r.Status == 403 || r.Status >= 500 && !noQueue(r):
				t.Errorf("%s %s as %s for another tenant: %d %s", op.Method, op.Path, who, r.Status, r.Body)
			}
		}
	}
	t.Logf("%d operations, %d pairs of operation and credential", len(all), checked)
}

// noQueue reports whether an operation needs the dead-letter queue or job runs, which do not
// exist with the store in memory.
func noQueue(r apitest.Reply) bool {
	code := ""
	if r.Status == 503 {
		code = r.Problem().Code
	}
	return code == "DLQ_UNAVAILABLE" || code == "JOB_UNAVAILABLE"
}

// TestResourcesOfAnotherTenantAreNotFound compares responses to requests for another tenant's
// resources with those for resources that do not exist.
func TestResourcesOfAnotherTenantAreNotFound(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	if r := e.Send("POST", "/api/v1/workflows", apitest.Definition("order", "a"),
		apitest.As("admin")...); r.Status != 201 {
		t.Fatalf("register: %d %s", r.Status, r.Body)
	}
	sg := e.Start(`{"workflow_name":"order","payload":{"secret":"canary"}}`, apitest.As("operator")...)
	var key client.CreatedAPIKey
	e.Send("POST", "/api/v1/api-keys", `{"name":"a","role":"auditor"}`, apitest.As("admin")...).Into(&key)
	with := func(sagaID, keyID, name string) *strings.Replacer {
		return strings.NewReplacer("{saga_id}", sagaID, "{key_id}", keyID, "{name}", name, "{version}", "1", "{step}", "0")
	}
	nobodys := uuid.Must(uuid.NewV7()).String()
	real := apitest.Operations(t, with(sg.SagaID.String(), key.APIKey.ID.String(), "order"))
	none := apitest.Operations(t, with(nobodys, nobodys, "ordinary"))
	same := strings.NewReplacer(nobodys, "ID", sg.SagaID.String(), "ID", key.APIKey.ID.String(), "ID", "ordinary", "NAME",
		"order", "NAME")
	compared := 0
	for i, op := range real {
		if !strings.Contains(op.Path, "order") && !strings.Contains(op.Path, sg.SagaID.String()) &&
			!strings.Contains(op.Path, key.APIKey.ID.String()) {
			continue
		}
		if op.Method == "PUT" && strings.HasPrefix(op.Path, "/api/v1/participants/") {
			continue // it registers one of this name for the caller's tenant
		}
		id := append(apitest.As("foreign"), "X-Request-Id", "r", "If-Match", "*")
		theirs, nothing := e.Send(op.Method, op.Path, op.Body(), id...), e.Send(none[i].Method, none[i].Path,
			op.Body(), id...)
		if theirs.Status != 404 || strings.Contains(string(theirs.Body), "canary") {
			t.Errorf("%s %s: %d %s, want 404", op.Method, op.Path, theirs.Status, theirs.Body)
		}
		if diff := cmp.Diff(same.Replace(string(nothing.Body)), same.Replace(string(theirs.Body))); diff != "" {
			t.Errorf("%s %s (-nonexistent +another tenant's):\n%s", op.Method, op.Path, diff)
		}
		compared++
	}
	if compared < 10 {
		t.Errorf("only %d operations have an id in their path", compared)
	}
	for _, list := range []string{"/api/v1/sagas?view=full", "/api/v1/workflows", "/api/v1/api-keys"} {
		r := e.Send("GET", list, "", apitest.As("foreign")...)
		if r.Status != 200 || !strings.Contains(string(r.Body), `:[]`) || strings.Contains(string(r.Body), "canary") {
			t.Errorf("%s: %d %s, want an empty list", list, r.Status, r.Body)
		}
	}
}

func TestServerRefusesAContractWithAnUnguardedOperation(t *testing.T) {
	for name, tt := range map[string]struct{ path, security, permission, want string }{
		"no permission":                       {"/api/v1/x", `[{"bearer":[]}]`, `null`, "x-permission"},
		"a permission that is none":           {"/api/v1/x", `[{"bearer":[]}]`, `"sagas:delete"`, "not a permission"},
		"open in spite of its path":           {"/api/v1/x", `[]`, `null`, "x-permission"},
		"a permission without a credential":   {"/api/v1/x", `[]`, `"sagas:read"`, "security"},
		"a credential without a permission":   {"/x", `[{"bearer":[]}]`, `null`, "security"},
		"all right, and open":                 {"/x", `[]`, `null`, ""},
		"all right, with one elsewhere":       {"/x", `[{"bearer":[]}]`, `"sagas:read"`, ""},
		"all right, for anybody who is known": {"/api/v1/x", `[{"bearer":[]}]`, `"anybody"`, ""},
	} {
		err := httpapi.GuardOf(t, tt.path, tt.security, tt.permission)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestInDevelopmentModeWebPagesOfOtherSitesAreNotTrusted(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "a")
	port := e.URL[strings.LastIndex(e.URL, ":"):]
	for _, tt := range []struct {
		name, method, host, header, value string
		refused                           bool
	}{
		{"a program", "POST", "127.0.0.1" + port, "", "", false},
		{"a program that says localhost", "POST", "localhost" + port, "", "", false},
		{"a program over IPv6", "POST", "[::1]" + port, "", "", false},
		{"without a port", "POST", "[::1]", "", "", false},
		{"a page of this server", "POST", "127.0.0.1" + port, "Sec-Fetch-Site", "same-origin", false},
		{"a page of another site", "POST", "127.0.0.1" + port, "Sec-Fetch-Site", "cross-site", true},
		{"a page of another site in an old browser", "POST", "127.0.0.1" + port, "Origin", "https://evil.example", true},
		{"a page whose name leads here", "POST", "evil.example" + port, "", "", true},
		{"a page whose name leads here, reading", "GET", "evil.example" + port, "", "", true},
		{"another address of this machine", "GET", "10.0.0.1" + port, "", "", true},
	} {
		path := "/api/v1/workflows/order"
		if tt.method == "POST" {
			path += "/disable"
		}
		req, err := http.NewRequestWithContext(t.Context(), tt.method, e.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tt.host
		if tt.header != "" {
			req.Header.Set(tt.header, tt.value)
		}
		if r := e.Do(req); tt.refused {
			r.Wants(403, "AUTH_CROSS_SITE")
		} else if r.Status != 200 {
			t.Errorf("%s: %d %s", tt.name, r.Status, r.Body)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", apitest.NewEdge(t, apitest.Guarded).URL+
		"/api/v1/whoami", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "skald.example"
	req.Header.Set("Authorization", "Bearer root")
	if r := e.Do(req); r.Status != 200 {
		t.Errorf("with a credential the host name must not matter: %d %s", r.Status, r.Body)
	}
}

// Operations that change something require the permission to write, to work or to administer; a
// GET has no body and no idempotency key, which only a change could use.
func TestNoGetRequiresAWritePermission(t *testing.T) {
	t.Parallel()
	gets := 0
	for path, item := range apitest.OpenapiYAML(t).Paths.Map() {
		op := item.Get
		if op == nil {
			continue
		}
		gets++
		permission, _ := op.Extensions["x-permission"].(string)
		if strings.HasSuffix(permission, ":write") || strings.HasSuffix(permission, ":work") {
			t.Errorf("GET %s needs %s", path, permission)
		}
		if op.RequestBody != nil || op.Parameters.GetByInAndName("header", "Idempotency-Key") != nil {
			t.Errorf("GET %s has a body or an Idempotency-Key", path)
		}
	}
	if gets < 50 {
		t.Errorf("only %d operations with GET", gets)
	}
}
