package accessapi_test

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
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestTokenOfAKeyIsShownOnce(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	r := e.Send("POST", apitest.KeysPath, `{"name":"orders","role":"operator","expires_at":"2027-01-01T00:00:00+01:00"}`, apitest.As("admin")...)
	var made client.CreatedAPIKey
	r.Into(&made)
	if r.Status != 201 || r.Header.Get("Location") != apitest.KeysPath+"/"+made.APIKey.ID.String() ||
		r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d, Location %q, Cache-Control %q", r.Status, r.Header.Get("Location"), r.Header.Get("Cache-Control"))
	}
	token, ok := access.ParseToken(made.Key)
	stored, err := e.Store.Keys.Get(t.Context(), nil, made.APIKey.ID)
	if !ok || err != nil || stored.Check(token, time.Date(2026, 12, 31, 22, 59, 59, 0, time.UTC)) != nil ||
		stored.Check(token, time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)) == nil {
		t.Errorf("the key %q is not what is stored: %v", made.Key, err)
	}
	want := client.APIKey{
		ID: made.APIKey.ID, Name: "orders", Prefix: token.Prefix(), Role: client.RoleOperator, Active: true,
		TenantID: &apitest.Tenant.ID, TenantRegion: new(""), TenantMajor: new(0), TenantMinor: new(0),
		CreatedBy: "key:admin", CreatedAt: made.APIKey.CreatedAt,
		ExpiresAt: new(time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)),
	}
	if diff := cmp.Diff(want, made.APIKey); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, path := range []string{r.Header.Get("Location"), apitest.KeysPath} {
		again := e.Send("GET", path, "", apitest.As("admin")...)
		if again.Status != 200 || !strings.Contains(string(again.Body), token.Prefix()) ||
			strings.Contains(string(again.Body), made.Key[16:]) {
			t.Errorf("%s: %d %s", path, again.Status, again.Body)
		}
	}
	if strings.Contains(e.Log.String(), made.Key[16:]) {
		t.Error("the log holds the key")
	}
}

func TestAKeyShowsItsQueues(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	for body, want := range map[string][]string{
		`{"name":"a","role":"worker","queues":["b","a","b"]}`: {"a", "b"}, `{"name":"b","role":"worker"}`: nil,
	} {
		made := e.MakeKey("admin", body).APIKey
		var read client.APIKey
		e.Send("GET", apitest.KeysPath+"/"+made.ID.String(), "", apitest.As("admin")...).Into(&read)
		stored, err := e.Store.Keys.Get(t.Context(), nil, made.ID)
		for of, got := range map[string][]string{"created": made.Queues, "read": read.Queues, "stored": stored.Queues,
			"its caller": stored.Principal().Queues} {
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s, %s, %v (-want +got):\n%s", body, of, err, diff)
			}
		}
	}
}

func TestEveryMistakeInANewKeyIsReported(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
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
		{"an operator for queues", "admin", `{"name":"a","role":"operator","queues":["a"]}`, 422, access.CodeKeyRefused, "/queues"},
		{"a worker for no queue", "admin", `{"name":"a","role":"worker","queues":[]}`, 422, "REQ_SCHEMA", "/queues"},
		{"a worker for a queue without a name", "admin", `{"name":"a","role":"worker","queues":[""]}`, 422, "REQ_SCHEMA", "/queues/0"},
		{"any tenant and one", "root", `{"name":"a","role":"admin","any_tenant":true,"tenant_id":"00000000-0000-0000-0000-00000000000f"}`, 422, "REQ_SCHEMA", "/tenant_id"},
		{"a region of no tenant", "root", `{"name":"a","role":"admin","tenant_region":"eu"}`, 422, "REQ_SCHEMA", "/tenant_id"},
		{"the tenant of zeros", "root", `{"name":"a","role":"admin","tenant_id":"00000000-0000-0000-0000-000000000000"}`, 422, access.CodeKeyRefused, "/tenant_id"},
		{"any tenant by one who has one", "admin", `{"name":"a","role":"admin","any_tenant":true}`, 403, principal.CodeTenantMismatch, ""},
		{"another tenant", "admin", `{"name":"a","role":"admin","tenant_id":"00000000-0000-0000-0000-00000000000f"}`, 403, principal.CodeTenantMismatch, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := e.Send("POST", apitest.KeysPath, tt.body, apitest.As(tt.who)...).Wants(tt.status, tt.code)
			var pointers []string
			for _, f := range p.Errors {
				pointers = append(pointers, f.Pointer)
			}
			if got := strings.Join(pointers, " "); got != tt.pointers {
				t.Errorf("mistakes in %q, want %q", got, tt.pointers)
			}
		})
	}
	found, err := e.Store.Keys.List(t.Context(), nil, access.Filter{Request: page.Request[uuid.UUID]{Limit: 9}})
	if err != nil || len(found.Items) > 0 {
		t.Errorf("%d keys were stored, %v", len(found.Items), err)
	}
}

func TestCallersSeeTheKeysThatTheyMayCreate(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	e.MakeKey("root", `{"name":"free","role":"admin","any_tenant":true}`)
	e.MakeKey("root", `{"name":"theirs","role":"operator","tenant_id":"00000000-0000-0000-0000-00000000000f","tenant_region":"us","tenant_major":1,"tenant_minor":2}`)
	ours := e.MakeKey("admin", `{"name":"ours","role":"operator"}`)
	for _, tt := range []struct{ who, query, want string }{
		{"root", "", "ours theirs free"},
		{"root", "?tenant_id=00000000-0000-0000-0000-00000000000f", "theirs"},
		{"admin", "", "ours"},
		{"admin", "?tenant_id=" + apitest.Tenant.ID.String(), "ours"},
		{"admin", "?active=false", ""},
		{"foreign", "?active=true", "theirs"},
	} {
		var list client.APIKeyList
		e.Send("GET", apitest.KeysPath+tt.query, "", apitest.As(tt.who)...).Into(&list)
		var got []string
		for _, k := range list.APIKeys {
			got = append(got, k.Name)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s%s sees %q, want %q", tt.who, tt.query, got, tt.want)
		}
	}
	e.Send("GET", apitest.KeysPath+"?tenant_id="+apitest.ForeignTenant.ID.String(), "", apitest.As("admin")...).Wants(403,
		principal.CodeTenantMismatch)
	e.Send("POST", apitest.KeysPath+"/"+ours.APIKey.ID.String()+"/revoke", `{"reason":"lost"}`,
		apitest.As("foreign")...).Wants(404, access.CodeKeyNotFound)
}

func TestKeysAreListedInPages(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	for i := range 5 {
		e.MakeKey("admin", fmt.Sprintf(`{"name":"k%d","role":"auditor"}`, i))
	}
	var got []string
	query := "?page_size=2&active=true"
	for pages := 0; ; pages++ {
		var list client.APIKeyList
		e.Send("GET", apitest.KeysPath+query, "", apitest.As("admin")...).Into(&list)
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
	e.Send("GET", apitest.KeysPath+strings.Replace(query, "active=true", "active=false", 1), "",
		apitest.As("admin")...).Wants(400, "REQ_INVALID_PARAMETER")
}

func TestKeyIsRevokedOnceAndPermanently(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	path := apitest.KeysPath + "/" + e.MakeKey("admin", `{"name":"a","role":"auditor"}`).APIKey.ID.String()
	var first, again client.APIKey
	for _, body := range []string{"", `{}`, `{"reason":" "}`} {
		apitest.WantsReason(t, e.Send("POST", path+"/revoke", body, apitest.As("admin")...))
	}
	const lost = `{"reason":"lost"}`
	r := e.Send("POST", path+"/revoke", lost, apitest.As("admin")...)
	r.Into(&first)
	if r.Status != 200 || first.Active || first.RevokedAt == nil || *first.RevokedBy != "key:admin" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	e.Send("POST", path+"/revoke", lost, apitest.As("root")...).Into(&again)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("again (-first +second):\n%s", diff)
	}
	e.Send("GET", apitest.KeysPath+"/"+uuid.NewString(), "", apitest.As("root")...).Wants(404, access.CodeKeyNotFound)
	e.Send("GET", apitest.KeysPath+"/x", "", apitest.As("root")...).Wants(400, "REQ_INVALID_PARAMETER")
}

func TestWhoamiDescribesTheCaller(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	whoami := func(header ...string) client.CallerIdentity {
		t.Helper()
		r := e.Send("GET", "/api/v1/whoami", "", header...)
		if r.Status != 200 {
			t.Fatalf("%v: %d %s", header, r.Status, r.Body)
		}
		var w client.CallerIdentity
		r.Into(&w)
		return w
	}
	w := whoami(apitest.As("auditor")...)
	want := w
	want.Subject, want.Role = "key:auditor", new(client.RoleAuditor)
	want.TenantID, want.Development = apitest.Tenant.ID, false
	want.Permissions = strings.Fields("sagas:read workflows:read dlq:read jobs:read")
	if diff := cmp.Diff(want, w); diff != "" {
		t.Errorf("an auditor (-want +got):\n%s", diff)
	}
	w = whoami(apitest.As("foreign")...)
	want = w
	want.TenantID, want.TenantRegion, want.TenantMajor, want.TenantMinor = apitest.ForeignTenant.ID, "us", 1, 2
	want.AnyTenant = false
	if diff := cmp.Diff(want, w); diff != "" {
		t.Errorf("an admin of another tenant (-want +got):\n%s", diff)
	}
	if w := whoami(apitest.As("nobody")...); w.Role != nil || len(w.Permissions) != 0 {
		t.Errorf("one without a role: %+v", w)
	}
	other := uuid.NewString()
	w = whoami(append(apitest.As("root"), "X-Tenant-Id", other, "X-Tenant-Region", "ap", "X-Tenant-Major", "3",
		"X-Tenant-Minor", "65535")...)
	want = w
	want.TenantID, want.TenantRegion, want.TenantMajor, want.TenantMinor = uuid.MustParse(other), "ap", 3, 65535
	want.AnyTenant = true
	if diff := cmp.Diff(want, w); diff != "" {
		t.Errorf("one for all tenants (-want +got):\n%s", diff)
	}
	w = client.CallerIdentity{}
	apitest.NewEdge(t).Send("GET", "/api/v1/whoami", "", "X-Tenant-Id", other).Into(&w)
	if w.Subject != "anonymous" || !w.Development || w.TenantID.String() != other {
		t.Errorf("in development mode: %+v", w)
	}
}

func TestTenantHeadersAreReadStrictly(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	for _, tt := range []struct{ header, value string }{
		{"X-Tenant-Id", "acme"}, {"X-Tenant-Id", ""}, {"X-Tenant-Id", "00000000-0000-0000-0000-000000000000"},
		{"X-Tenant-Id", "{00000000-0000-0000-0000-00000000000a}"}, {"X-Tenant-Id", "0000000000000000000000000000000a"},
		{"X-Tenant-Region", strings.Repeat("r", 33)}, {"X-Tenant-Region", "\xff"},
		{"X-Tenant-Major", "-1"}, {"X-Tenant-Major", "65536"}, {"X-Tenant-Major", ""}, {"X-Tenant-Minor", "1.0"},
	} {
		for _, who := range []string{"root", "operator"} {
			p := e.Send("GET", "/api/v1/sagas", "", append(apitest.As(who), tt.header, tt.value)...).Wants(400,
				"REQ_INVALID_PARAMETER")
			if len(p.Errors) != 1 || p.Errors[0].Header != tt.header {
				t.Errorf("%s: %q: %+v", tt.header, tt.value, p.Errors)
			}
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", e.URL+"/api/v1/sagas", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer root"}, "X-Tenant-Id": {uuid.NewString(), uuid.NewString()}}
	e.Do(req).Wants(400, "REQ_INVALID_PARAMETER")
}

func TestActionsAreRecordedForTheChosenTenantWithTheirActor(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	header := append(apitest.As("root"), "X-Tenant-Id", apitest.ForeignTenant.ID.String(), "X-Tenant-Region", "us")
	if r := e.Send("POST", "/api/v1/workflows", apitest.Definition("order", "a"), header...); r.Status != 201 {
		t.Fatalf("register: %d %s", r.Status, r.Body)
	}
	sg := e.Start(`{"workflow_name":"order"}`, header...)
	if sg.InitiatedBy != "key:*:root" {
		t.Errorf("initiated by %q", sg.InitiatedBy)
	}
	stored, err := e.Store.Sagas.Get(t.Context(), apitest.ForeignTenant.ID, sg.SagaID)
	if err != nil || stored.Region != "us" || stored.Major != 0 {
		t.Errorf("stored for %+v, %v", stored.Tenant, err)
	}
	if r := e.Send("GET", "/api/v1/sagas/"+sg.SagaID.String(), "", apitest.As("foreign")...); r.Status != 200 {
		t.Errorf("its own tenant: %d %s", r.Status, r.Body)
	}
	e.Send("GET", "/api/v1/sagas/"+sg.SagaID.String(), "", apitest.As("root")...).Wants(404, "SAGA_NOT_FOUND")
}

func TestIdempotencyKeysAreScopedToTheSubject(t *testing.T) {
	e := apitest.NewEdge(t, apitest.Guarded)
	if r := e.Send("POST", "/api/v1/workflows", apitest.Definition("order", "a"),
		apitest.As("admin")...); r.Status != 201 {
		t.Fatalf("register: %d %s", r.Status, r.Body)
	}
	body := `{"workflow_name":"order"}`
	first := e.Start(body, append(apitest.As("operator"), "Idempotency-Key", "k")...)
	again := e.Start(body, append(apitest.As("operator"), "Idempotency-Key", "k")...)
	other := e.Start(body, append(apitest.As("admin"), "Idempotency-Key", "k")...)
	if first.SagaID != again.SagaID || first.SagaID == other.SagaID {
		t.Errorf("the sagas are %s, %s and %s; want the first two the same", first.SagaID, again.SagaID, other.SagaID)
	}
}
