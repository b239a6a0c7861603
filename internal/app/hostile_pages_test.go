package app_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/skald-saga/skald/internal/test/browser"
)

// TestHostileTextStaysText fills every field that a client can fill with text that would run in a
// browser if it were not escaped, and then reads all pages.
func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	a := newCanaryNode(t, &hostile{planted: map[string]bool{}, refused: map[string][]string{}})
	a.learn(contractOf(t, a.url))
	a.writeAll()
	if n := len(a.hostile.planted); n < 40 {
		t.Errorf("only %d fields took hostile text", n)
	}
	p := &hostilePages{crawl: newCrawl(a, a.url, 8), shown: map[string]bool{}, left: map[string]bool{}}
	all := os.Getenv("TEST_UI") == "all"
	if all {
		p.each = 0
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
	p.readAll(p.as, p.read)
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
	if all {
		p.inChromium()
	}
}

// hostilePages reads the pages of an installation whose every text is hostile.
type hostilePages struct {
	*crawl
	found []string        // paths that answered with a page
	shown map[string]bool // fields whose text is on a page
	left  map[string]bool // hosts of other tools that pages link to with hostile text
	rich  []string        // paths of the owner's pages with much hostile text
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

// as returns the credential for a page.
func (p *hostilePages) as(path string) string {
	if strings.HasPrefix(path, "/ui/system") {
		return p.a.root
	}
	return p.a.owner
}

// read checks a page, follows its links, and fills its forms.
func (p *hostilePages) read(f *fetched) {
	p.a.t.Helper()
	path, status, header, text, as := f.path, f.status, f.header, f.text, p.as(f.path)
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
	p.follow(path, doc)
	for n := range doc.Descendants() {
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
	key := "form " + method + kindOf(to)
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
		if k := kindOf(path); !kinds[k] {
			kinds[k] = true
			tab.Go(p.a.url + path)
			tab.Until("the page", `document.querySelector("main h1")`)
		}
	}
	if len(kinds) < 10 {
		p.a.t.Errorf("only %d kinds of pages", len(kinds))
	}
}
