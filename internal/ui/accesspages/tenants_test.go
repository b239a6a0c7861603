package accesspages_test

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/uitest"
)

const otherTenant = "0198a5b0-0000-7000-8000-0000000000bb"

// asked decodes a response of the API.
func asked[T any](b *browser, path string) (out T) {
	b.t.Helper()
	got := b.get(path)
	if got.status != 200 {
		b.t.Fatalf("%s: %d\n%s", path, got.status, got.page)
	}
	if err := json.Unmarshal([]byte(got.page), &out); err != nil {
		b.t.Fatal(err)
	}
	return out
}

var pageLink = regexp.MustCompile(`(?:href|action)="(/ui/[^"]*|\?[^"]*)"`)

func TestAnAdministratorOfAllTenantsLooksAtOne(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	s := uitest.Start(t, func(c *config.Config) { c.Auth.BootstrapAdminKey = config.Secret(key) })
	root := newBrowser(t, s.URL)
	root.signIn(key, "")

	// A key of another tenant is the first trace of that tenant.
	made := root.do("POST", "/ui/access/keys/new?tenant="+otherTenant, url.Values{
		"name": {"clerk"}, "role": {"admin"}, "reason": {"theirs"}, "do": {"act"},
	})
	_, rest, found := strings.Cut(made.page, `<code class="copy" id="secret">`)
	theirs, _, _ := strings.Cut(rest, "<")
	if made.status != 200 || !found {
		t.Fatalf("a key of another tenant: %d\n%s", made.status, made.page)
	}
	seen := map[string]bool{}
	next := ""
	for {
		list := asked[client.TenantList](root, "/api/v1/tenants?page_size=1"+next)
		for _, one := range list.Tenants {
			seen[one.TenantID.String()] = true
		}
		if list.Pagination.NextCursor == nil {
			break
		}
		next = "&cursor=" + url.QueryEscape(*list.Pagination.NextCursor)
	}
	if !seen[otherTenant] {
		t.Errorf("the tenants are %v", seen)
	}
	nodes := asked[client.NodeList](root, "/api/v1/nodes")
	if len(nodes.Nodes) != 1 || !nodes.Nodes[0].Alive || nodes.Nodes[0].Incarnation < 1 || len(nodes.Loops) == 0 {
		t.Errorf("the nodes are %+v", nodes)
	}
	root.wants("the tenants", root.get("/ui/tenants"), 200, `href="/ui/?tenant=`+otherTenant+`"`)
	root.wants("the system", root.get("/ui/system"), 200, "<code>"+nodes.Nodes[0].Name+"</code>", "reaper", "on time")
	root.wants("the switch", root.get("/ui/sagas"), 200, `href="/ui/tenants"`)

	// Whatever is created for the other tenant belongs to it, and every link stays with that
	// tenant.
	workflow := `{"name":"theirs","steps":[{"name":"a","compensation":"none","action":{"http":{"method":"POST","url":"` +
		s.Participant + `/x"}}}]}`
	checked := root.do("POST", "/ui/register-workflow?tenant="+otherTenant,
		url.Values{"definition": {workflow}, "do": {"preview"}})
	form := uitest.Form(checked.page)
	form.Set("definition", workflow)
	form.Set("do", "act")
	registered := root.do("POST", "/ui/register-workflow?tenant="+otherTenant, form)
	if registered.status != 303 || !strings.Contains(registered.to, "tenant="+otherTenant) {
		t.Errorf("registering: %d to %q\n%s", registered.status, registered.to, registered.page)
	}
	for _, path := range []string{"/ui/", "/ui/workflows", "/ui/sagas?status=FAILED", "/ui/dlq/letters", "/ui/audit",
		"/ui/runs", "/ui/access", "/ui/system", "/ui/search?q=theirs"} {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		page := root.get(path + sep + "tenant=" + otherTenant)
		root.wants(path, page, 200, `data-tenant="`+otherTenant+`"`)
		for _, link := range pageLink.FindAllStringSubmatch(page.page, -1) {
			if !strings.Contains(link[1], "tenant="+otherTenant) && !strings.HasPrefix(link[1], "/ui/assets/") &&
				!strings.HasPrefix(link[1], "/ui/of/"+otherTenant) {
				t.Errorf("%s leads to %s, which is of another tenant", path, link[1])
			}
		}
		if !strings.Contains(page.page, `name="tenant" value="`+otherTenant+`"`) &&
			strings.Contains(page.page, `role="search"`) {
			t.Errorf("%s: its filters lose the tenant", path)
		}
	}
	root.wants("their workflows", root.get("/ui/workflows?tenant="+otherTenant), 200, ">theirs<",
		"X-Tenant-Id: "+otherTenant)
	if own := root.get("/ui/workflows"); strings.Contains(own.page, ">theirs<") {
		t.Error("the workflow of another tenant is in the own list")
	}
	root.wants("the API for a link", root.get("/ui/of/"+otherTenant+"/api/v1/workflows/theirs"), 200, `"theirs"`)
	root.wants("the API for no tenant", root.get("/ui/of/x/api/v1/workflows"), 404)
	root.wants("no tenant", root.get("/ui/sagas?tenant=x"), 400, "X-Tenant-Id")
	changed := root.do("POST", "/ui/of/"+otherTenant+"/api/v1/sagas", url.Values{})
	root.wants("a change through the path of links", changed, 404)

	// A user who belongs to one tenant has no switch and cannot view another tenant.
	clerk := newBrowser(t, s.URL)
	clerk.signIn(theirs, "")
	if page := clerk.get("/ui/sagas"); page.status != 200 || strings.Contains(page.page, "/ui/tenants") {
		t.Errorf("a visitor of one tenant: %d\n%s", page.status, page.page)
	}
	clerk.wants("another tenant", clerk.get("/ui/sagas?tenant="+tenantOfAlice), 403, "AUTH_TENANT_MISMATCH")
	for _, path := range []string{"/api/v1/tenants", "/api/v1/nodes", "/ui/tenants"} {
		clerk.wants(path, clerk.get(path), 403, "AUTH_FORBIDDEN")
	}
	clerk.wants("the system", clerk.get("/ui/system"), 200, "concerns all tenants")
	expired := newBrowser(t, s.URL).get("/ui/sagas?status=FAILED&tenant=" + otherTenant)
	clerk.wants("nobody", expired, 401, `value="/ui/sagas?status=FAILED&amp;tenant=`+otherTenant+`"`)
}
