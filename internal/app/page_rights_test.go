package app_test

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/skald-saga/skald/internal/principal"
)

// TestPagesOfferEachRoleWhatItMayDo compares, for each role, what pages offer with what the contract says that the
// role may do, and then does all of it: nothing is offered that the API refuses the role, nothing that another sees
// and the role may do as well is missing, and whatever the role may not do says which permission it needs.
func TestPagesOfferEachRoleWhatItMayDo(t *testing.T) {
	t.Parallel()
	a := newCanaryNode(t, nil)
	contract := contractOf(t, a.url)
	a.learn(contract)
	a.writeAll()
	m := &rights{crawl: newCrawl(a, a.url, 3), contract: contract, forms: formsOf(t), needs: map[string]string{},
		where: map[string][]string{}}
	for _, role := range principal.Roles {
		text := a.does("createAPIKey", `{"name":"`+string(role)+`","role":"`+string(role)+`","reason":"x"}`)
		m.visitors = append(m.visitors, a.visitor(string(role), field(text, "key")))
	}
	m.visitors = append(m.visitors, a.visitor("any tenant", a.root))
	pages := m.pages()
	seen := map[string][]*offers{}
	for _, path := range pages {
		seen[path] = m.compared(path)
	}
	kinds := sorted(m.where)
	last := func(kind string) int { // a deleted item has no forms, and a visitor whose key is revoked sees none
		return strings.Count(kind, "delete") + 2*strings.Count(kind, "revoke")
	}
	slices.SortStableFunc(kinds, func(a, b string) int { return last(a) - last(b) })
	for _, kind := range kinds {
		for _, to := range m.where[kind] {
			for _, who := range m.visitors {
				m.act(kind, to, who)
			}
		}
	}
	for path, all := range seen {
		m.judge(path, all)
	}
	if len(pages) < 150 || len(m.where) < 70 {
		t.Errorf("only %d pages with %d kinds of actions", len(pages), len(m.where))
	}
	t.Logf("%d pages, %d kinds of actions: %v", len(pages), len(m.where), sorted(m.where))
}

// rights visits the pages as each role.
type rights struct {
	*crawl
	contract apiDoc
	forms    *http.ServeMux // of the forms that change something
	visitors []visitor
	needs    map[string]string   // kind of action → the permission that its operation requires
	where    map[string][]string // kind of action → at most two of its forms
}

// visitor is a person who looks at the pages.
type visitor struct {
	name, key string
	may       []string // permissions, as the API says
	anyTenant bool
}

func (a *canaryNode) visitor(name, key string) visitor {
	a.t.Helper()
	_, text := a.send(key, "GET", "/api/v1/whoami", "")
	_, list, _ := strings.Cut(text, `"permissions":[`)
	list, _, found := strings.Cut(list, "]")
	if !found {
		a.t.Fatalf("who %s is: %s", name, text)
	}
	v := visitor{name: name, key: key, anyTenant: strings.Contains(text, `"any_tenant":true`)}
	for p := range strings.SplitSeq(list, ",") {
		v.may = append(v.may, strings.Trim(p, `"`))
	}
	return v
}

// offers are the actions that a page offers a visitor.
type offers struct {
	who      visitor
	status   int
	enabled  map[string]string // label and path of what a visitor can press → its kind
	disabled map[string]bool   // label and need of what is shown and cannot be pressed
	heading  string
	forms    []aForm // that it leads to
}

// aForm is where a form is, and what kind it is of.
type aForm struct{ kind, to string }

// simulation is a form that changes nothing.
const simulation = "/ui/simulate-workflow"

// formsOf is a router of the forms that change something.
func formsOf(t *testing.T) *http.ServeMux {
	mux := http.NewServeMux()
	for _, pattern := range patterns(t) {
		path, post := strings.CutPrefix(pattern, "POST ")
		if post && !strings.HasPrefix(path, "/ui/sign-") && path != simulation {
			mux.Handle(path, http.NotFoundHandler())
		}
	}
	return mux
}

// kind of the form that a URL leads to: its pattern, with the verb in it; empty: it leads to no form.
func (m *rights) kind(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Host != "" {
		return ""
	}
	_, pattern := m.forms.Handler(&http.Request{Method: http.MethodGet, URL: u})
	parts, own := strings.Split(pattern, "/"), strings.Split(u.EscapedPath(), "/")
	for i, p := range parts {
		if p == "{verb}" || p == "{action}" || p == "{setting}" {
			parts[i] = own[i]
		}
	}
	return strings.Join(parts, "/")
}

// pages are those that an administrator finds, without the forms.
func (m *rights) pages() (all []string) {
	for _, pattern := range patterns(m.a.t) {
		for _, path := range m.pathsOf(pattern) {
			m.look(path)
		}
	}
	m.readAll(func(string) string { return m.a.owner }, func(f *fetched) {
		if !strings.HasPrefix(f.header.Get("Content-Type"), "text/html") || f.status >= 300 && f.status < 400 {
			return
		}
		doc, err := html.Parse(strings.NewReader(f.text))
		if err != nil {
			m.a.t.Fatal(err)
		}
		m.follow(f.path, doc)
		if m.kind(f.path) == "" {
			all = append(all, f.path)
		}
	})
	return all
}

// compared is what a page offers each visitor. What sagas and runs do meanwhile makes a difference, so pages that
// differ for reasons of time are read again.
func (m *rights) compared(path string) (all []*offers) {
	for range 3 {
		all = together(m.a.t, len(m.visitors), func(i int) *offers { return m.offered(path, m.visitors[i]) })
		for _, o := range all {
			for _, f := range o.forms {
				if some := m.where[f.kind]; len(some) < 2 && !slices.Contains(some, f.to) {
					m.where[f.kind] = append(some, f.to)
				}
			}
		}
		if again := m.offered(path, m.visitors[adminAt]); maps.Equal(again.enabled, all[adminAt].enabled) {
			break
		}
	}
	return all
}

// asked is a page as a visitor sees it.
func (m *rights) asked(method, path string, who visitor, form url.Values) (int, *html.Node, string) {
	m.a.t.Helper()
	if who.anyTenant { // who looks at the owner's
		sign := "?"
		if strings.Contains(path, "?") {
			sign = "&"
		}
		path += sign + "tenant=" + m.a.tenant
	}
	status, _, text := m.request(method, path, who.key, form)
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		m.a.t.Fatal(err)
	}
	return status, doc, text
}

// adminAt is the index of a tenant's administrator among the visitors.
var adminAt = slices.Index(principal.Roles, principal.Admin)

func (m *rights) offered(path string, who visitor) *offers {
	m.a.t.Helper()
	o := &offers{who: who, enabled: map[string]string{}, disabled: map[string]bool{}}
	status, doc, text := m.asked(http.MethodGet, path, who, nil)
	o.status = status
	if status == http.StatusForbidden {
		m.readable(path, who, text)
		return o
	}
	own, _, _ := strings.Cut(path, "?")
	m.offersIn(doc, own, nil, o)
	return o
}

// offersIn finds what leads to a form that changes something, or is one. own is the path of the page; form is around
// n, nil: there is none.
func (m *rights) offersIn(n *html.Node, own string, form *html.Node, o *offers) {
	if needs := attribute(n, "title"); strings.HasPrefix(needs, "needs ") {
		o.disabled[strings.TrimSuffix(label(n), " ("+needs+")")+" "+needs] = true
	}
	switch n.Data {
	case "h1":
		o.heading = textOf(n)
	case "form":
		form = n
	case "a":
		m.offer(o, n, attribute(n, "href"))
	case "button":
		if form == nil || disabled(n) {
			break
		}
		to := cmp.Or(attribute(form, "action"), own)
		if !strings.EqualFold(attribute(form, "method"), "post") {
			to += "?" + ticked(form, n).Encode()
		}
		m.offer(o, n, to)
	}
	for c := range n.ChildNodes() {
		m.offersIn(c, own, form, o)
	}
}

// ticked is what a form with boxes sends when the first of them is ticked and a button is pressed.
func ticked(form, button *html.Node) url.Values {
	q := url.Values{}
	for n := range form.Descendants() {
		if name := attribute(n, "name"); attribute(n, "type") == "checkbox" && name != "" && !q.Has(name) {
			q.Set(name, attribute(n, "value"))
		}
	}
	if name := attribute(button, "name"); name != "" {
		q.Set(name, attribute(button, "value"))
	}
	return q
}

// offer records an element that leads to a form.
func (m *rights) offer(o *offers, n *html.Node, to string) {
	kind := m.kind(to)
	if kind == "" {
		return
	}
	path, _, _ := strings.Cut(to, "?")
	o.enabled[label(n)+" "+path] = kind
	plain := strings.NewReplacer("?tenant="+m.a.tenant+"&", "?", "?tenant="+m.a.tenant, "",
		"&tenant="+m.a.tenant, "").Replace(to)
	o.forms = append(o.forms, aForm{kind, plain})
}

func disabled(n *html.Node) bool {
	return slices.ContainsFunc(n.Attr, func(at html.Attribute) bool { return at.Key == "disabled" })
}

// label is the text of a node, without how many items it is about.
func label(n *html.Node) string {
	text := strings.TrimSuffix(strings.Join(strings.Fields(textOf(n)), " "), "…")
	return strings.TrimRight(howMany.ReplaceAllString(text, ""), " ")
}

var howMany = regexp.MustCompile(`\([0-9,+]+\)$`)

func textOf(n *html.Node) (text string) {
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			text += d.Data
		}
	}
	return text
}

// needed returns the permission named by a page that says that something is forbidden.
func needed(page string) string {
	_, rest, _ := strings.Cut(page, "this requires the permission ")
	permission, _, _ := strings.Cut(rest, ";")
	return permission
}

const forAnyTenant = "it requires a credential for all tenants"

// readable reports a page that does not say what the visitor lacks, or says something else.
func (m *rights) readable(path string, who visitor, page string) (permission string) {
	m.a.t.Helper()
	permission = needed(page)
	lacks := permission != "" && !slices.Contains(who.may, permission) ||
		!who.anyTenant && strings.Contains(page, forAnyTenant)
	if !lacks || !strings.Contains(page, "<h1") || !strings.Contains(page, "AUTH_FORBIDDEN") {
		m.a.t.Errorf("%s is refused to %s with\n%s", path, who.name, page)
	}
	return permission
}

// judge compares what a page offers each visitor with what the operations require. A visitor who sees a different
// page under the same path, with less in it, learns so from its heading.
func (m *rights) judge(path string, all []*offers) {
	m.a.t.Helper()
	union, admin := map[string]string{}, all[adminAt]
	for _, o := range all {
		if !o.who.anyTenant { // who sees more, such as keys for all tenants
			maps.Copy(union, o.enabled)
		}
	}
	for _, o := range all {
		if o.status == http.StatusForbidden || o.status == http.StatusSeeOther {
			continue
		}
		if o.status != admin.status && admin.status != http.StatusForbidden {
			m.a.t.Errorf("%s: %d for %s, %d for an administrator", path, o.status, o.who.name, admin.status)
		}
		for what, kind := range union {
			needs := m.needs[kind]
			allowed := slices.Contains(o.who.may, needs) || needs == "anybody"
			words, to, _ := cutLast(what, " ")
			switch {
			case needs == "":
				m.a.t.Errorf("%s: nothing says what %s (%s) needs", path, what, kind)
			case allowed && needs != "anybody" && o.enabled[what] == "" && o.heading == admin.heading:
				m.a.t.Errorf("%s hides %q (%s) from %s", path, words, to, o.who.name)
			case !allowed && o.enabled[what] != "":
				m.a.t.Errorf("%s offers %s %q (%s), which needs %s", path, o.who.name, words, to, needs)
			case !allowed && o.heading == admin.heading && !o.told(union, kind, needs) && reads(o.who):
				m.a.t.Errorf("%s does not tell %s that %q needs %s, only %v", path, o.who.name, words, needs, sorted(o.disabled))
			}
		}
	}
}

// told reports whether a page says what a visitor needs for a kind of action, at one of the places where it is
// offered to others.
func (o *offers) told(others map[string]string, kind, needs string) bool {
	for what, of := range others {
		if words, _, _ := cutLast(what, " "); of == kind && o.disabled[words+" needs "+needs] {
			return true
		}
	}
	return false
}

// reads reports whether a visitor may read anything; a worker sees pages without the items that have actions.
func reads(who visitor) bool {
	return slices.ContainsFunc(who.may, func(p string) bool { return strings.HasSuffix(p, ":read") })
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func sorted[V any](m map[string]V) (all []string) {
	for name := range m {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
