package app_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/skald-saga/skald/internal/ui"
	"github.com/skald-saga/skald/internal/ui/web"
)

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

// crawl goes through the pages of an installation, from the ids that the owner of a canaryNode has and from link to
// link.
type crawl struct {
	a     *canaryNode
	url   string // of the node that serves the pages
	next  []string
	seen  map[string]bool // paths and forms, without what makes no difference
	kinds map[string]int  // pages by their path and tab, whatever the ids
	each  int             // at most so many pages of a kind are read; 0: all
}

func newCrawl(a *canaryNode, url string, each int) *crawl {
	return &crawl{a: a, url: url, each: each, seen: map[string]bool{}, kinds: map[string]int{}}
}

// kindOf returns the kind of a path, which is the same for every id.
func kindOf(path string) string { return someUUID.ReplaceAllString(path, "*") }

var someUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}`)

// wildcards of patterns, and which parameters of the API's paths they are.
var wildcards = map[string]string{
	"saga": "saga_id", "workflow": "name", "letter": "message_id", "fingerprint": "fingerprint", "topic": "topic",
	"redrive": "redrive_id", "definition": "definition", "backfill": "backfill_id", "run": "run_id", "bulk": "bulk_id",
	"worker": "worker_id", "webhook": "webhook_id", "delivery": "delivery_id", "key": "key_id", "session": "session_id",
	"certification": "certification_id", "participant": "participant", "queue": "queue",
}

var wildcard = regexp.MustCompile(`\{(\w+)\}`)

// pathsOf a pattern are those with the ids of what the owner has. A path with a verb is found by its links.
func (p *crawl) pathsOf(pattern string) (all []string) {
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

// look queues a path unless one like it has been read: the values of parameters make a difference in few of them.
func (p *crawl) look(path string) {
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
	kind := kindOf(u.Path) + u.Query().Get("tab")
	key = u.Path + key
	if few := p.each == 0 || p.kinds[kind] < p.each; few && !p.seen[key] && len(p.seen) < 3000 &&
		!strings.HasPrefix(u.Path, "/docs/") {
		p.seen[key] = true
		p.kinds[kind]++
		p.next = append(p.next, path)
	}
}

// request sends a request with a credential; a form as a page of the server does.
func (p *crawl) request(method, path, as string, form url.Values) (int, http.Header, string) {
	p.a.t.Helper()
	req, err := http.NewRequestWithContext(p.a.t.Context(), method, p.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		p.a.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return p.send(req, as)
}

func (p *crawl) send(req *http.Request, as string) (int, http.Header, string) {
	p.a.t.Helper()
	req.Header.Set("Authorization", "Bearer "+as)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
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

// fetched is the answer to the request for a page.
type fetched struct {
	path, text string
	status     int
	header     http.Header
}

// readAll gets the pages that are queued and those that read queues, a few at a time, each with the credential that as
// returns, and reads them one after the other, in the order in which they were queued.
func (p *crawl) readAll(as func(path string) string, read func(*fetched)) {
	p.a.t.Helper()
	for len(p.next) > 0 {
		paths, slots := p.next, make(chan struct{}, 4)
		p.next = nil
		for _, page := range together(p.a.t, len(paths), func(i int) *fetched {
			slots <- struct{}{}
			defer func() { <-slots }()
			f := &fetched{path: paths[i]}
			f.status, f.header, f.text = p.request(http.MethodGet, f.path, as(f.path), nil)
			return f
		}) {
			read(page)
		}
	}
}

// together calls f for 0 to n-1 at the same time.
func together[T any](t *testing.T, n int, f func(i int) *T) []*T {
	t.Helper()
	results := make([]*T, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { results[i] = f(i) })
	}
	all.Wait()
	if slices.Contains(results, nil) { // it has failed
		t.FailNow()
	}
	return results
}

// follow queues the pages that a page links to.
func (p *crawl) follow(path string, doc *html.Node) {
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != "a" {
			continue
		}
		if to := attribute(n, "href"); strings.HasPrefix(to, "/ui/") {
			p.look(to)
		} else if strings.HasPrefix(to, "?") {
			own, _, _ := strings.Cut(path, "?")
			p.look(own + to)
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, at := range n.Attr {
		if at.Key == name {
			return at.Val
		}
	}
	return ""
}
