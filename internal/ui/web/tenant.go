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

// tenantParameter of a page's URL chooses the tenant that the page is about, for visitors with a credential for any
// tenant. Pages know nothing of it: it becomes the header X-Tenant-Id of each of their calls, and the links and forms
// of what they render keep it.
const tenantParameter = "tenant"

const tenantHeader = "X-Tenant-Id"

// chosen returns r as pages see it, and the tenant that its URL names.
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

// within returns a URL of a page of this server with the tenant of v, unless it names one.
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

// Here is the URL of the page as the visitor has asked for it.
func (v *Visit) Here() string { return v.within(v.URL.RequestURI()) }

// api is what comes before /api/v1 in URLs that the browser asks for itself: it sends no headers with a link.
func (v *Visit) api() string {
	if v.Tenant == "" {
		return v.Kit.Base
	}
	return v.Kit.Base + "/ui/of/" + url.PathEscape(v.Tenant)
}

// forTenant answers a read of the API for the tenant of the path: a download or a stream.
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

// leading finds where the links and forms of a page lead, as html/template writes them.
var (
	leading = regexp.MustCompile(`<form\b[^>]*>|\b(?:href|action|formaction)="[^"]*"`)
	leads   = regexp.MustCompile(`\b(href|action|formaction)="([^"]*)"`)
)

// keepTenant returns a page whose links and forms lead to pages of the tenant of v. A form that is sent as a query
// replaces the one of its action, so it gets a field, unless it has one itself (data-tenant-form).
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

// lead is one attribute of keepTenant.
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
