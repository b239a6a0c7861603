package app_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/skald-saga/skald/internal/test/browser"
	"github.com/skald-saga/skald/internal/ui"
	"github.com/skald-saga/skald/internal/ui/web"
)

// TestHostileTextStaysText fills every field that a client can fill with what would run in a browser, and then reads
// all pages.
func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	a := newCanaryNode(t, &hostile{planted: map[string]bool{}, refused: map[string][]string{}})
	a.learn(contractOf(t, a.url))
	a.writeAll()
	if n := len(a.hostile.planted); n < 40 {
		t.Errorf("only %d fields took hostile text", n)
	}
	p := &hostilePages{
		a: a, seen: map[string]bool{}, shown: map[string]bool{}, kinds: map[string]int{}, left: map[string]bool{},
		long: os.Getenv("SKALD_UI") == "all",
	}
	p.otherWays()
	for _, pattern := range patterns(t) {
		for _, path := range p.pathsOf(pattern) {
			p.look(path)
		}
		p.name(pattern)
	}
	_, _, text := p.request(http.MethodGet, "/docs/?q="+url.QueryEscape(breaks), "", nil)
	p.check("what the manual finds", text)
	for len(p.next) > 0 {
		path := p.next[0]
		p.next = p.next[1:]
		p.read(path)
	}
	p.asAnyTenant()
	p.answers()
	if len(p.left) != len(linked) {
		t.Errorf("pages link with hostile text to %v, want %v", p.left, linked)
	}
	for _, line := range a.hostile.report(p.shown) {
		t.Log(line)
	}
	t.Logf("%d pages, %d of %d fields are shown", len(p.found), len(p.shown), len(a.hostile.planted))
	if len(p.found) < 150 || len(p.shown) < 30 {
		t.Errorf("only %d pages, which show %d fields", len(p.found), len(p.shown))
	}
	if p.long {
		p.inChromium()
	}
}

// patterns are those of all pages, from the kit itself.
func patterns(t *testing.T) []string {
	t.Helper()
	h, err := ui.New(ui.Config{API: http.NotFoundHandler(), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		NewID: func() string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	return h.(*web.Kit).Patterns
}

// hostilePages reads the pages of an installation whose every text is hostile.
type hostilePages struct {
	a     *canaryNode
	next  []string
	found []string        // paths that answered with a page
	seen  map[string]bool // paths and forms, without what makes no difference
	shown map[string]bool // fields whose text is on a page
	left  map[string]bool // hosts of other tools that pages link to with hostile text
	rich  []string        // paths of the owner's pages with much hostile text
	kinds map[string]int  // pages by their path and tab, whatever the ids
	long  bool            // all of them are read; else a few of each kind
}

// wildcards of patterns, and which parameters of the API's paths they are.
var wildcards = map[string]string{
	"saga": "saga_id", "workflow": "name", "letter": "message_id", "fingerprint": "fingerprint", "topic": "topic",
	"redrive": "redrive_id", "definition": "definition", "backfill": "backfill_id", "run": "run_id", "bulk": "bulk_id",
	"worker": "worker_id", "webhook": "webhook_id", "delivery": "delivery_id", "key": "key_id", "session": "session_id",
}

var wildcard = regexp.MustCompile(`\{(\w+)\}`)

// pathsOf a pattern are those with the ids of what the owner has. A path with a verb is found by its links.
func (p *hostilePages) pathsOf(pattern string) (all []string) {
	method, path, both := strings.Cut(pattern, " ")
	if !both {
		path = method
	} else if method != http.MethodGet {
		return nil
	}
	path = strings.TrimSuffix(path, "{$}")
	if strings.HasPrefix(path, "/docs/") || strings.HasPrefix(path, "/ui/of/") { // no client's; the API, for a tenant
		return nil
	}
	names := wildcard.FindAllStringSubmatch(path, -1)
	if len(names) == 0 {
		return []string{path}
	}
	if last := names[len(names)-1][1]; last == "verb" || last == "action" || last == "setting" {
		return nil
	}
	for _, n := range names {
		param, known := wildcards[n[1]]
		if strings.HasPrefix(path, "/ui/sagas/bulk/") {
			param = "saga_bulk_id"
		}
		if !known || p.a.ids[param] == "" {
			p.a.t.Errorf("%s: nothing is known for {%s}: add it to wildcards, and write one in writeAll", pattern, n[1])
			return nil
		}
		if len(names) == 1 {
			for _, other := range p.a.more[param] {
				all = append(all, strings.ReplaceAll(path, n[0], url.PathEscape(other)))
			}
		}
		path = strings.ReplaceAll(path, n[0], url.PathEscape(p.a.ids[param]))
	}
	return append(all, path)
}

// name reads the pages of a pattern for ids and names that are hostile themselves.
func (p *hostilePages) name(pattern string) {
	p.a.t.Helper()
	_, path, _ := strings.Cut(pattern, "/")
	for _, of := range []string{breaks, "javascript:alert(1)//zq", `..%2f..%2f"'><zq>`} {
		to := wildcard.ReplaceAllLiteralString("/"+strings.TrimSuffix(path, "{$}"), url.PathEscape(of))
		for _, to := range []string{to, to + "?tab=" + url.QueryEscape(of) + "&next=" + url.QueryEscape(of)} {
			status, header, text := p.request(http.MethodGet, to, p.a.owner, nil)
			if status >= 500 {
				p.a.t.Errorf("%s: %d", to, status)
			}
			if strings.HasPrefix(header.Get("Content-Type"), "text/html") {
				p.check(to, text)
			}
		}
	}
}

// look queues a path unless one like it has been read: the values of parameters make a difference in few of them.
func (p *hostilePages) look(path string) {
	u, err := url.Parse(path)
	if err != nil || u.Path == "" {
		return
	}
	key := ""
	for _, name := range []string{"tab", "step", "state", "kind", "view", "group"} {
		key += "&" + u.Query().Get(name)
	}
	for name := range u.Query() {
		key += "?" + name
	}
	kind := someUUID.ReplaceAllString(u.Path, "*") + u.Query().Get("tab")
	key = u.Path + key
	if !p.seen[key] && len(p.seen) < 3000 && !strings.HasPrefix(u.Path, "/docs/") && (p.long || p.kinds[kind] < 8) {
		p.seen[key] = true
		p.kinds[kind]++
		p.next = append(p.next, path)
	}
}

// request sends a request as the owner, or as the administrator of all tenants.
func (p *hostilePages) request(method, path, as string, form url.Values) (int, http.Header, string) {
	p.a.t.Helper()
	req, err := http.NewRequestWithContext(p.a.t.Context(), method, p.a.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		p.a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+as)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}).Do(req)
	if err != nil {
		p.a.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.a.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

// read gets a page, checks it, follows its links, and fills its forms.
func (p *hostilePages) read(path string) {
	p.a.t.Helper()
	as := p.a.owner
	if strings.HasPrefix(path, "/ui/system") {
		as = p.a.root
	}
	status, header, text := p.request(http.MethodGet, path, as, nil)
	if to := header.Get("Location"); to != "" && strings.HasPrefix(to, "/ui/") {
		p.look(to)
		return
	}
	if status >= 500 && !strings.Contains(text, "UNAVAILABLE") {
		p.a.t.Errorf("%s: %d", path, status)
	}
	if kind := header.Get("Content-Type"); !strings.HasPrefix(kind, "text/html") {
		p.download(path, header, text)
		return
	}
	p.found = append(p.found, path)
	if as == p.a.owner && strings.Count(text, "&lt;img zq") > 3 {
		p.rich = append(p.rich, path)
	}
	doc := p.check(path, text)
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "a" {
			if to := attribute(n, "href"); strings.HasPrefix(to, "/ui/") {
				p.look(to)
			} else if strings.HasPrefix(to, "?") {
				own, _, _ := strings.Cut(path, "?")
				p.look(own + to)
			}
		}
		if n.Type == html.ElementNode && n.Data == "form" {
			p.fill(path, as, n)
		}
	}
}

// fill sends a form as one that only looks, with hostile text in each field that a person can fill.
func (p *hostilePages) fill(path, as string, form *html.Node) {
	p.a.t.Helper()
	own, _, _ := strings.Cut(path, "?")
	to := attribute(form, "action")
	if to == "" {
		to = own
	}
	method := strings.ToUpper(attribute(form, "method"))
	key := "form " + method + someUUID.ReplaceAllString(to, "*")
	if p.seen[key] || strings.HasPrefix(to, "/ui/sign-") {
		return
	}
	p.seen[key] = true
	values := url.Values{}
	for n := range form.Descendants() {
		name := attribute(n, "name")
		if n.Type != html.ElementNode || name == "" || n.Data == "button" {
			continue
		}
		switch attribute(n, "type") {
		case "hidden":
			values.Set(name, attribute(n, "value"))
		default:
			values.Set(name, "zq "+breaks)
		}
	}
	if method == http.MethodPost {
		values.Set("do", "preview")
		_, _, text := p.request(method, to, as, values)
		p.check("the form of "+to, text)
		return
	}
	_, header, text := p.request(http.MethodGet, to+"?"+values.Encode(), as, nil)
	if strings.HasPrefix(header.Get("Content-Type"), "text/html") {
		p.check("the filters of "+to, text)
	}
}

var someUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}`)

// check reports everything on a page that is not text and should be.
func (p *hostilePages) check(path, text string) *html.Node {
	p.a.t.Helper()
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		p.a.t.Fatal(err)
	}
	for name := range p.a.hostile.planted {
		if !p.shown[name] && strings.Contains(text, canary+"~"+strings.ReplaceAll(name, "'", "&#39;")+"~") {
			p.shown[name] = true
		}
	}
	p.checkNodes(path, doc)
	return doc
}

// amiss says what is wrong with a node, whatever wrote it.
func amiss(n *html.Node) string {
	switch {
	case n.Type == html.CommentNode && strings.Contains(n.Data, "zq"):
		return "a comment: " + n.Data
	case n.Type != html.ElementNode:
		return ""
	case n.Data == "zq" || n.Data == "iframe" || n.Data == "object" || n.Data == "base" || n.Data == "style":
		return "an element: " + n.Data
	case n.Data == "script" && (n.FirstChild != nil || !strings.HasPrefix(attribute(n, "src"), "/")):
		return "a script that is not one of the pages' own"
	}
	for _, at := range n.Attr {
		value := strings.ToLower(strings.TrimSpace(at.Val))
		switch {
		case strings.HasPrefix(at.Key, "on") || at.Key == "zq" || at.Key == "style" || at.Key == "srcdoc" ||
			strings.ContainsAny(at.Key, `"'<`):
			return fmt.Sprintf("an attribute: %s=%q", at.Key, at.Val)
		case !slices.Contains([]string{"href", "src", "action", "formaction", "xlink:href", "poster", "data"}, at.Key):
		case strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "//"), value == "", value == "data:,",
			value[0] == '#', value[0] == '?',
			strings.HasPrefix(value, "https://"), strings.HasPrefix(value, "http://"):
		default:
			return fmt.Sprintf("a link: %s=%q", at.Key, at.Val)
		}
	}
	return ""
}

func attribute(n *html.Node, name string) string {
	for _, at := range n.Attr {
		if at.Key == name {
			return at.Val
		}
	}
	return ""
}

// download checks a file that a page offers.
func (p *hostilePages) download(path string, header http.Header, text string) {
	p.a.t.Helper()
	if strings.HasPrefix(path, "/ui/assets/") || strings.HasPrefix(path, "/docs/") {
		return
	}
	if !strings.HasPrefix(header.Get("Content-Disposition"), "attachment") ||
		header.Get("X-Content-Type-Options") != "nosniff" {
		p.a.t.Errorf("%s may be shown in the browser: %v", path, header)
	}
	if !strings.Contains(path, ".csv") {
		return
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) < 2 {
		p.a.t.Errorf("%s: %d rows, %v", path, len(rows), err)
	}
	for _, row := range rows {
		for _, cell := range row {
			if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
				p.a.t.Errorf("%s: a spreadsheet computes %q", path, cell)
			}
		}
	}
	if !strings.Contains(text, "'="+canary) {
		p.a.t.Errorf("%s has nothing hostile, so that this proves nothing", path)
	}
}

// inChromium opens a rich page of each kind: whatever ran would be an error of the policy in the console.
func (p *hostilePages) inChromium() {
	p.a.t.Helper()
	tab := browser.Open(p.a.t)
	tab.Header("Authorization", "Bearer "+p.a.owner)
	kinds := map[string]bool{}
	for _, path := range p.rich {
		if k := someUUID.ReplaceAllString(path, "*"); !kinds[k] {
			kinds[k] = true
			tab.Go(p.a.url + path)
			tab.Until("the page", `document.querySelector("main h1")`)
		}
	}
	if len(kinds) < 10 {
		p.a.t.Errorf("only %d kinds of pages", len(kinds))
	}
}
