package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/access"
)

func TestAKeyIsShownOnceAndFoundAgain(t *testing.T) {
	e := newEdge(t, guarded)
	r := e.send("POST", apiKeys, `{"name":"orders","role":"operator","expires_at":"2027-01-01T00:00:00+01:00"}`, as("admin")...)
	var made client.CreatedAPIKey
	r.into(&made)
	if r.status != 201 || r.header.Get("Location") != apiKeys+"/"+made.APIKey.ID.String() || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d, Location %q, Cache-Control %q", r.status, r.header.Get("Location"), r.header.Get("Cache-Control"))
	}
	token, ok := access.ParseToken(made.Key)
	stored, err := e.store.Keys.Get(t.Context(), nil, made.APIKey.ID)
	if !ok || err != nil || stored.Check(token, time.Date(2026, 12, 31, 22, 59, 59, 0, time.UTC)) != nil || stored.Check(token, time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)) == nil {
		t.Errorf("the key %q is not what is stored: %v", made.Key, err)
	}
	want := client.APIKey{
		ID: made.APIKey.ID, Name: "orders", Prefix: token.Prefix(), Role: client.RoleOperator, Active: true,
		TenantID: &tenant.ID, TenantRegion: new(""), TenantMajor: new(0), TenantMinor: new(0),
		CreatedBy: "key:admin", CreatedAt: made.APIKey.CreatedAt, ExpiresAt: new(time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)),
	}
	if diff := cmp.Diff(want, made.APIKey); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, path := range []string{r.header.Get("Location"), apiKeys} {
		again := e.send("GET", path, "", as("admin")...)
		if again.status != 200 || !strings.Contains(string(again.body), token.Prefix()) || strings.Contains(string(again.body), made.Key[16:]) {
			t.Errorf("%s: %d %s", path, again.status, again.body)
		}
	}
	if strings.Contains(e.log.String(), made.Key[16:]) {
		t.Error("the log holds the key")
	}
}

func TestWhatAKeyMayNotBeIsToldWithEveryMistake(t *testing.T) {
	e := newEdge(t, guarded)
	for _, tt := range []struct {
		name, who, body string
		status          int
		code, pointers  string
	}{
		{"no name and no role", "admin", `{}`, 422, "REQ_SCHEMA", "/name /role"},
		{"an unknown role", "admin", `{"name":"a","role":"root"}`, 422, "REQ_SCHEMA", "/role"},
		{"an unknown member", "admin", `{"name":"a","role":"admin","key":"mine"}`, 422, "REQ_SCHEMA", "/key"},
		{"a name with a colon, already expired", "admin", `{"name":"a:b","role":"admin","expires_at":"2020-01-01T00:00:00Z"}`, 422, access.CodeKeyRefused, "/name /expires_at"},
		{"a line end in the name", "admin", `{"name":"a\n","role":"admin"}`, 422, access.CodeKeyRefused, "/name"},
		{"an operator of any tenant", "root", `{"name":"a","role":"operator","any_tenant":true}`, 422, access.CodeKeyRefused, "/any_tenant"},
		{"any tenant and one", "root", `{"name":"a","role":"admin","any_tenant":true,"tenant_id":"00000000-0000-0000-0000-00000000000f"}`, 422, "REQ_SCHEMA", "/tenant_id"},
		{"a region of no tenant", "root", `{"name":"a","role":"admin","tenant_region":"eu"}`, 422, "REQ_SCHEMA", "/tenant_id"},
		{"the tenant of zeros", "root", `{"name":"a","role":"admin","tenant_id":"00000000-0000-0000-0000-000000000000"}`, 422, access.CodeKeyRefused, "/tenant_id"},
		{"any tenant by one who has one", "admin", `{"name":"a","role":"admin","any_tenant":true}`, 403, access.CodeTenantMismatch, ""},
		{"another tenant", "admin", `{"name":"a","role":"admin","tenant_id":"00000000-0000-0000-0000-00000000000f"}`, 403, access.CodeTenantMismatch, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := e.send("POST", apiKeys, tt.body, as(tt.who)...).wants(tt.status, tt.code)
			var pointers []string
			for _, f := range p.Errors {
				pointers = append(pointers, f.Pointer)
			}
			if got := strings.Join(pointers, " "); got != tt.pointers {
				t.Errorf("mistakes in %q, want %q", got, tt.pointers)
			}
		})
	}
	if page, err := e.store.Keys.List(t.Context(), nil, access.Filter{Limit: 9}); err != nil || len(page.Keys) > 0 {
		t.Errorf("%d keys were stored, %v", len(page.Keys), err)
	}
}

func TestEachSeesTheKeysItMayGive(t *testing.T) {
	e := newEdge(t, guarded)
	e.makeKey("root", `{"name":"free","role":"admin","any_tenant":true}`)
	e.makeKey("root", `{"name":"theirs","role":"operator","tenant_id":"00000000-0000-0000-0000-00000000000f","tenant_region":"us","tenant_major":1,"tenant_minor":2}`)
	ours := e.makeKey("admin", `{"name":"ours","role":"operator"}`)
	for _, tt := range []struct{ who, query, want string }{
		{"root", "", "ours theirs free"},
		{"root", "?tenant_id=00000000-0000-0000-0000-00000000000f", "theirs"},
		{"admin", "", "ours"},
		{"admin", "?tenant_id=" + tenant.ID.String(), "ours"},
		{"admin", "?active=false", ""},
		{"foreign", "?active=true", "theirs"},
	} {
		var list client.APIKeyList
		e.send("GET", apiKeys+tt.query, "", as(tt.who)...).into(&list)
		var got []string
		for _, k := range list.APIKeys {
			got = append(got, k.Name)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s%s sees %q, want %q", tt.who, tt.query, got, tt.want)
		}
	}
	e.send("GET", apiKeys+"?tenant_id="+foreignTenant.ID.String(), "", as("admin")...).wants(403, access.CodeTenantMismatch)
	e.send("POST", apiKeys+"/"+ours.APIKey.ID.String()+"/revoke", `{"reason":"lost"}`, as("foreign")...).wants(404, access.CodeKeyNotFound)
}

func TestKeysAreListedInPages(t *testing.T) {
	e := newEdge(t, guarded)
	for i := range 5 {
		e.makeKey("admin", fmt.Sprintf(`{"name":"k%d","role":"auditor"}`, i))
	}
	var got []string
	query := "?page_size=2&active=true"
	for pages := 0; ; pages++ {
		var list client.APIKeyList
		e.send("GET", apiKeys+query, "", as("admin")...).into(&list)
		for _, k := range list.APIKeys {
			got = append(got, k.Name)
		}
		if !list.Pagination.HasNext || pages > 5 {
			break
		}
		query = "?page_size=2&active=true&cursor=" + url.QueryEscape(*list.Pagination.NextCursor)
	}
	if diff := cmp.Diff([]string{"k4", "k3", "k2", "k1", "k0"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	e.send("GET", apiKeys+strings.Replace(query, "active=true", "active=false", 1), "", as("admin")...).wants(400, "REQ_INVALID_PARAMETER")
}

func TestAKeyIsRevokedOnceAndForGood(t *testing.T) {
	e := newEdge(t, guarded)
	path := apiKeys + "/" + e.makeKey("admin", `{"name":"a","role":"auditor"}`).APIKey.ID.String()
	var first, again client.APIKey
	for _, body := range []string{"", `{}`, `{"reason":" "}`} {
		wantsReason(t, e.send("POST", path+"/revoke", body, as("admin")...))
	}
	const lost = `{"reason":"lost"}`
	r := e.send("POST", path+"/revoke", lost, as("admin")...)
	r.into(&first)
	if r.status != 200 || first.Active || first.RevokedAt == nil || *first.RevokedBy != "key:admin" {
		t.Errorf("%d %s", r.status, r.body)
	}
	e.send("POST", path+"/revoke", lost, as("root")...).into(&again)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("again (-first +second):\n%s", diff)
	}
	e.send("GET", apiKeys+"/"+uuid.NewString(), "", as("root")...).wants(404, access.CodeKeyNotFound)
	e.send("GET", apiKeys+"/x", "", as("root")...).wants(400, "REQ_INVALID_PARAMETER")
}

func TestWhoIsWho(t *testing.T) {
	e := newEdge(t, guarded)
	whoami := func(header ...string) client.CallerIdentity {
		t.Helper()
		r := e.send("GET", "/api/v1/whoami", "", header...)
		if r.status != 200 {
			t.Fatalf("%v: %d %s", header, r.status, r.body)
		}
		var w client.CallerIdentity
		r.into(&w)
		return w
	}
	if w := whoami(as("auditor")...); w.Subject != "key:auditor" || *w.Role != client.RoleAuditor || w.TenantID != tenant.ID || w.Development ||
		strings.Join(w.Permissions, " ") != "sagas:read workflows:read dlq:read jobs:read" {
		t.Errorf("an auditor: %+v", w)
	}
	if w := whoami(as("foreign")...); w.TenantID != foreignTenant.ID || w.TenantRegion != "us" || w.TenantMajor != 1 || w.TenantMinor != 2 || w.AnyTenant {
		t.Errorf("an admin of another tenant: %+v", w)
	}
	if w := whoami(as("nobody")...); w.Role != nil || len(w.Permissions) != 0 {
		t.Errorf("one without a role: %+v", w)
	}
	other := uuid.NewString()
	if w := whoami(append(as("root"), "X-Tenant-Id", other, "X-Tenant-Region", "ap", "X-Tenant-Major", "3", "X-Tenant-Minor", "65535")...); w.TenantID.String() != other || w.TenantRegion != "ap" || w.TenantMajor != 3 || w.TenantMinor != 65535 || !w.AnyTenant {
		t.Errorf("one for any tenant: %+v", w)
	}
	dev := newEdge(t)
	var w client.CallerIdentity
	dev.send("GET", "/api/v1/whoami", "", "X-Tenant-Id", other).into(&w)
	if w.Subject != "anonymous" || !w.Development || w.TenantID.String() != other {
		t.Errorf("in development mode: %+v", w)
	}
}

func TestTenantHeadersAreReadStrictly(t *testing.T) {
	e := newEdge(t, guarded)
	for _, tt := range []struct{ header, value string }{
		{"X-Tenant-Id", "acme"}, {"X-Tenant-Id", ""}, {"X-Tenant-Id", "00000000-0000-0000-0000-000000000000"},
		{"X-Tenant-Id", "{00000000-0000-0000-0000-00000000000a}"}, {"X-Tenant-Id", "0000000000000000000000000000000a"},
		{"X-Tenant-Region", strings.Repeat("r", 33)}, {"X-Tenant-Region", "\xff"},
		{"X-Tenant-Major", "-1"}, {"X-Tenant-Major", "65536"}, {"X-Tenant-Major", ""}, {"X-Tenant-Minor", "1.0"},
	} {
		for _, who := range []string{"root", "operator"} {
			p := e.send("GET", "/api/v1/sagas", "", append(as(who), tt.header, tt.value)...).wants(400, "REQ_INVALID_PARAMETER")
			if len(p.Errors) != 1 || p.Errors[0].Pointer != tt.header {
				t.Errorf("%s: %q: %+v", tt.header, tt.value, p.Errors)
			}
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", e.url+"/api/v1/sagas", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer root"}, "X-Tenant-Id": {uuid.NewString(), uuid.NewString()}}
	e.do(req).wants(400, "REQ_INVALID_PARAMETER")
}

func TestWhatIsDoneForATenantIsItsAndBearsWhoDidIt(t *testing.T) {
	e := newEdge(t, guarded)
	header := append(as("root"), "X-Tenant-Id", foreignTenant.ID.String(), "X-Tenant-Region", "us")
	if r := e.send("POST", "/api/v1/workflows", definition("order", "a"), header...); r.status != 201 {
		t.Fatalf("register: %d %s", r.status, r.body)
	}
	sg := e.start(`{"workflow_name":"order"}`, header...)
	if sg.InitiatedBy != "key:*:root" {
		t.Errorf("initiated by %q", sg.InitiatedBy)
	}
	stored, err := e.store.Sagas.Get(t.Context(), foreignTenant.ID, sg.SagaID)
	if err != nil || stored.Region != "us" || stored.Major != 0 {
		t.Errorf("stored for %+v, %v", stored.Tenant, err)
	}
	if r := e.send("GET", "/api/v1/sagas/"+sg.SagaID.String(), "", as("foreign")...); r.status != 200 {
		t.Errorf("its own tenant: %d %s", r.status, r.body)
	}
	e.send("GET", "/api/v1/sagas/"+sg.SagaID.String(), "", as("root")...).wants(404, "SAGA_NOT_FOUND")
}

func TestIdempotencyKeysAreEachSubjectsOwn(t *testing.T) {
	e := newEdge(t, guarded)
	if r := e.send("POST", "/api/v1/workflows", definition("order", "a"), as("admin")...); r.status != 201 {
		t.Fatalf("register: %d %s", r.status, r.body)
	}
	body := `{"workflow_name":"order"}`
	first := e.start(body, append(as("operator"), "Idempotency-Key", "k")...)
	again := e.start(body, append(as("operator"), "Idempotency-Key", "k")...)
	other := e.start(body, append(as("admin"), "Idempotency-Key", "k")...)
	if first.SagaID != again.SagaID || first.SagaID == other.SagaID {
		t.Errorf("the sagas are %s, %s and %s; want the first two the same", first.SagaID, again.SagaID, other.SagaID)
	}
}

func TestTheRecordOfTheDeploymentIsForCredentialsOfAnyTenant(t *testing.T) {
	e := newQueueEdge(t, guarded)
	const path = "/api/v1/audit?scope=deployment"
	e.send("GET", path, "", as("admin")...).wants(403, access.CodeForbidden)
	for path, who := range map[string]string{path: "root", "/api/v1/audit?scope=tenant": "admin"} {
		if r := e.send("GET", path, "", as(who)...); r.status != 200 {
			t.Errorf("%s as %s: %d %s", path, who, r.status, r.body)
		}
	}
}
