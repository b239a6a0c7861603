package web

import (
	"bytes"
	"html"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// tenantParameter is a parameter of a page's URL that selects the tenant of the page, for visitors
// with a credential for all tenants. Pages are not aware of it: it becomes the header X-Tenant-Id
// of each of their calls, and the links and forms in their output keep it.
const tenantParameter = "tenant"

const tenantHeader = "X-Tenant-Id"

// chosen returns r as passed to pages, and the tenant in its URL.
func chosen(r *http.Request) (*http.Request, string) {
	q := r.URL.Query()
	tenant := q.Get(tenantParameter)
	if tenant == "" {
		return r, ""
	}
	q.Del(tenantParameter)
	r = r.Clone(r.Context())
	r.URL.RawQuery = q.Encode()
	r.Header.Set(tenantHeader, tenant)
	return r, tenant
}

// within returns the URL of a page of this server with the tenant of v added, unless it already
// names one.
func (v *Visit) within(to string) string {
	if v.Tenant == "" {
		return to
	}
	path, fragment, _ := strings.Cut(to, "#")
	path, query, _ := strings.Cut(path, "?")
	if q, err := url.ParseQuery(query); err == nil && q.Has(tenantParameter) {
		return to
	}
	if query != "" {
		query += "&"
	}
	to = path + "?" + query + tenantParameter + "=" + url.QueryEscape(v.Tenant)
	if fragment != "" {
		to += "#" + fragment
	}
	return to
}

// Here returns the URL of the page as requested by the visitor.
func (v *Visit) Here() string { return v.within(v.URL.RequestURI()) }

// api returns the part before /api/v1 in URLs that the browser requests directly, because the
// browser sends no headers with a link.
func (v *Visit) api() string {
	if v.Tenant == "" {
		return v.Kit.Base
	}
	return v.Kit.Base + "/ui/of/" + url.PathEscape(v.Tenant)
}

// forTenant responds to a read request to the API for the tenant in the path, which is a download
// or a stream.
func (k *Kit) forTenant(w http.ResponseWriter, r *http.Request) {
	tenant := r.PathValue("tenant")
	_, rest, _ := strings.Cut(r.URL.EscapedPath(), tenant)
	to, err := url.ParseRequestURI(rest)
	if _, wrong := uuid.Parse(tenant); wrong != nil || err != nil {
		v := k.visit(r)
		k.render(w, v, k.problem(v, ErrNoPage))
		return
	}
	in := r.Clone(r.Context())
	in.URL.Path, in.URL.RawPath = to.Path, to.RawPath
	in.RequestURI = in.URL.RequestURI()
	in.Header.Set(tenantHeader, tenant)
	k.API.ServeHTTP(w, in)
}

// leading finds the destinations of the links and forms of a page, in the form in which
// html/template writes them.
var (
	leading = regexp.MustCompile(`<form\b[^>]*>|\b(?:href|action|formaction)="[^"]*"`)
	leads   = regexp.MustCompile(`\b(href|action|formaction)="([^"]*)"`)
)

// keepTenant returns a page whose links and forms lead to pages of v's tenant. Submitting a GET
// form replaces the query of its action, so such a form gets a hidden field, unless it already has
// one (data-tenant-form).
func (v *Visit) keepTenant(page []byte) []byte {
	return leading.ReplaceAllFunc(page, func(found []byte) []byte {
		found = leads.ReplaceAllFunc(found, v.lead)
		if bytes.HasPrefix(found, []byte("<form")) && !bytes.Contains(found, []byte(`method="post"`)) &&
			!bytes.Contains(found, []byte("data-tenant-form")) {
			field := `<input type="hidden" name="tenant" value="` + template.HTMLEscapeString(v.Tenant) + `">`
			return append(bytes.Clone(found), field...)
		}
		return found
	})
}

// lead handles one attribute for keepTenant.
func (v *Visit) lead(attribute []byte) []byte {
	name, value, _ := strings.Cut(strings.TrimSuffix(string(attribute), `"`), `="`)
	base, to := v.Kit.Base, html.UnescapeString(value)
	switch {
	case strings.HasPrefix(to, base+"/api/v1/"):
		to = v.api() + strings.TrimPrefix(to, base)
	case strings.HasPrefix(to, base+"/ui/assets/"), strings.HasPrefix(to, base+"/ui/of/"):
		return attribute
	case strings.HasPrefix(to, base+"/ui/"), strings.HasPrefix(to, "?"):
		to = v.within(to)
	default:
		return attribute
	}
	return []byte(name + `="` + template.HTMLEscapeString(to) + `"`)
}
