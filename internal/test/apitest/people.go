package apitest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
)

// ForeignTenant is a tenant other than Tenant.
var ForeignTenant = tenant.Tenant{ID: uuid.MustParse("00000000-0000-0000-0000-00000000000f"), Region: "us", Major: 1, Minor: 2}

// People maps the credentials of guarded edges to their principals.
var People = map[string]principal.Principal{
	"worker":   {Subject: "key:worker", Role: principal.Worker, Tenant: Tenant},
	"auditor":  {Subject: "key:auditor", Role: principal.Auditor, Tenant: Tenant},
	"operator": {Subject: "key:operator", Role: principal.Operator, Tenant: Tenant},
	"admin":    {Subject: "key:admin", Role: principal.Admin, Tenant: Tenant},
	"foreign":  {Subject: "key:admin", Role: principal.Admin, Tenant: ForeignTenant},
	"root":     {Subject: "key:*:root", Role: principal.Admin, AnyTenant: true},
	"nobody":   {Subject: "jwt:nobody"}, // known, but without a role
	"unnamed":  {Subject: "jwt:unnamed", Role: principal.Operator},
}

// Guarded makes an edge require credentials.
func Guarded(cfg *httpapi.Config) {
	cfg.Access.Development = false
	cfg.Limits.StreamAge = time.Millisecond // the walks through all operations wait for each stream to end
	cfg.Access.Identify = func(_ context.Context, credential string) (principal.Principal, error) {
		if credential == "outage" {
			return principal.Principal{}, errors.New("connection refused")
		}
		who, ok := People[credential]
		if !ok {
			return who, fault.New(fault.Unauthenticated, principal.CodeInvalid, "the credential is not valid here").Because(errors.New("revoked-in-secret"))
		}
		return who, nil
	}
}

// As returns the header that carries a credential.
func As(credential string) []string { return []string{"Authorization", "Bearer " + credential} }

// Operation is an operation of the contract.
type Operation struct{ Method, Path, Permission string }

// Body returns a body that the operation accepts, or "" if it takes none or the body is optional.
func (o Operation) Body() string {
	if o.Method == http.MethodPatch && strings.HasPrefix(o.Path, SagasPath) {
		return `{"note":"n"}`
	}
	for suffix, body := range map[string]string{
		"/extend-deadline": `{"reason":"r","timeout_ms":1000}`, "/redeliver": `{"since":"2026-01-01T00:00:00Z"}`,
		"/force-complete": `{"reason":"r"}`, "/force-fail": `{"reason":"r"}`, "/skip": `{"reason":"r"}`,
		"/complete": `{"reason":"r"}`, "/fail": `{"reason":"r"}`, "/revoke": `{"reason":"r"}`,
	} {
		if o.Method == http.MethodPost && strings.HasSuffix(o.Path, suffix) && !strings.Contains(o.Path, "/deliveries/") {
			return body
		}
	}
	return ""
}

// Operations lists all operations under /api/v1.
func Operations(t *testing.T, replace *strings.Replacer) []Operation {
	t.Helper()
	var out []Operation
	doc := OpenapiYAML(t)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.Extensions["x-credential"] != nil { // the token is in its path
				continue
			}
			permission, _ := op.Extensions["x-permission"].(string)
			needsOne := op.Security == nil && len(doc.Security) == 3
			if under := strings.HasPrefix(path, "/api/v1/"); under != (permission != "") || under != needsOne {
				t.Errorf("%s %s: x-permission %q, requires a credential: %t", method, path, permission, needsOne)
			}
			if permission != "" {
				query := ""
				if p := op.Parameters.GetByInAndName("query", "reason"); p != nil && p.Required {
					query = "?reason=r"
				}
				out = append(out, Operation{method, replace.Replace(path) + query, permission})
			}
		}
	}
	slices.SortFunc(out, func(a, b Operation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	return out
}

// MakeKey creates an API key on behalf of an account.
func (e *Edge) MakeKey(who, body string) client.CreatedAPIKey {
	e.T.Helper()
	r := e.Send("POST", KeysPath, body, As(who)...)
	if r.Status != http.StatusCreated {
		e.T.Fatalf("create %s as %s: %d %s", body, who, r.Status, r.Body)
	}
	var k client.CreatedAPIKey
	r.Into(&k)
	return k
}

// WantsReason fails the test unless a request was refused because it has no reason.
func WantsReason(t *testing.T, r Reply) {
	t.Helper()
	if p := r.Wants(422, "REQ_SCHEMA"); len(p.Errors) != 1 || p.Errors[0].Pointer != "/reason" {
		t.Errorf("a request without a reason: %+v", p.Errors)
	}
}

const KeysPath = "/api/v1/api-keys"
