package httpapi_test

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
	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/saga"
)

var foreignTenant = saga.Tenant{ID: uuid.MustParse("00000000-0000-0000-0000-00000000000f"), Region: "us", Major: 1, Minor: 2}

// people are the credentials of guarded edges and who stands behind them.
var people = map[string]access.Principal{
	"worker":   {Subject: "key:worker", Role: access.Worker, Tenant: tenant},
	"auditor":  {Subject: "key:auditor", Role: access.Auditor, Tenant: tenant},
	"operator": {Subject: "key:operator", Role: access.Operator, Tenant: tenant},
	"admin":    {Subject: "key:admin", Role: access.Admin, Tenant: tenant},
	"foreign":  {Subject: "key:admin", Role: access.Admin, Tenant: foreignTenant},
	"root":     {Subject: "key:*:root", Role: access.Admin, AnyTenant: true},
	"nobody":   {Subject: "jwt:nobody"}, // known, without a role
	"unnamed":  {Subject: "jwt:unnamed", Role: access.Operator},
}

// guarded makes an edge ask for credentials.
func guarded(cfg *httpapi.Config) {
	cfg.Development = false
	cfg.Limits.StreamAge = time.Millisecond // the walks through all operations wait for each to end
	cfg.Identify = func(_ context.Context, credential string) (access.Principal, error) {
		if credential == "outage" {
			return access.Principal{}, errors.New("connection refused")
		}
		who, ok := people[credential]
		if !ok {
			return who, fault.New(fault.Unauthenticated, access.CodeInvalid, "the credential is not valid here").Because(errors.New("revoked-in-secret"))
		}
		return who, nil
	}
}

// as is the header of a credential.
func as(credential string) []string { return []string{"Authorization", "Bearer " + credential} }

// operation is one of the contract's.
type operation struct{ method, path, permission string }

// body is one that the operation takes, "" where it takes none or may go without.
func (o operation) body() string {
	for suffix, body := range map[string]string{
		"/extend-deadline": `{"reason":"r","timeout_ms":1000}`, "/redeliver": `{"since":"2026-01-01T00:00:00Z"}`,
		"/force-complete": `{"reason":"r"}`, "/force-fail": `{"reason":"r"}`, "/skip": `{"reason":"r"}`, "/complete": `{"reason":"r"}`, "/fail": `{"reason":"r"}`, "/revoke": `{"reason":"r"}`,
	} {
		if o.method == http.MethodPost && strings.HasSuffix(o.path, suffix) && !strings.Contains(o.path, "/deliveries/") {
			return body
		}
	}
	return ""
}

// operations lists all that are under /api/v1.
func operations(t *testing.T, replace *strings.Replacer) []operation {
	t.Helper()
	var out []operation
	doc := openapiYAML(t)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			permission, _ := op.Extensions["x-permission"].(string)
			needsOne := op.Security == nil && len(doc.Security) == 2
			if under := strings.HasPrefix(path, "/api/v1/"); under != (permission != "") || under != needsOne {
				t.Errorf("%s %s: x-permission %q, asks for a credential %t", method, path, permission, needsOne)
			}
			if permission != "" {
				query := ""
				if p := op.Parameters.GetByInAndName("query", "reason"); p != nil && p.Required {
					query = "?reason=r"
				}
				out = append(out, operation{method, replace.Replace(path) + query, permission})
			}
		}
	}
	slices.SortFunc(out, func(a, b operation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return out
}

func (e *edge) makeKey(who, body string) client.CreatedAPIKey {
	e.t.Helper()
	r := e.send("POST", apiKeys, body, as(who)...)
	if r.status != http.StatusCreated {
		e.t.Fatalf("create %s as %s: %d %s", body, who, r.status, r.body)
	}
	var k client.CreatedAPIKey
	r.into(&k)
	return k
}

// wantsReason fails the test unless a request was refused for the want of a reason.
func wantsReason(t *testing.T, r reply) {
	t.Helper()
	if p := r.wants(422, "REQ_SCHEMA"); len(p.Errors) != 1 || p.Errors[0].Pointer != "/reason" {
		t.Errorf("without a reason: %+v", p.Errors)
	}
}

const apiKeys = "/api/v1/api-keys"
