package manual

import (
	"bytes"
	"compress/gzip"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/docs"
	"github.com/skald-saga/skald/internal/httpapi/openapi"
	"github.com/skald-saga/skald/internal/ui/web"
)

func newManual(t *testing.T, base string, change ...func(*web.Config)) http.Handler {
	t.Helper()
	cfg := web.Config{
		API: http.NotFoundHandler(), Base: base, ManualOnly: true, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	k, err := web.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := Register(k); err != nil {
		t.Fatal(err)
	}
	return k
}

func get(h http.Handler, path string) (int, string, http.Header) {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Body)
	return w.Code, string(body), w.Header()
}

func TestAllPagesAreThereAndTheirLinksLeadSomewhere(t *testing.T) {
	m := newManual(t, "/skald")
	all, err := read(docs.Files, "/skald")
	if err != nil || len(all) < 20 {
		t.Fatalf("%d pages, %v", len(all), err)
	}
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(files) != len(all)+1 { // requirements.md is not a page
		t.Errorf("%d files in docs/ are %d pages: %v", len(files), len(all), err)
	}
	link := regexp.MustCompile(`href="/skald/docs/([^"#]*)(#[^"]*)?"`)
	for name := range all {
		status, page, _ := get(m, "/docs/"+name)
		if status != 200 || strings.Contains(page, "<script>") || strings.Contains(page, " style=") {
			t.Errorf("%s: %d, or an inline script or style", name, status)
		}
		for _, to := range link.FindAllStringSubmatch(page, -1) {
			if to[1] == "" || to[1] == "api" {
				continue
			}
			c := all[to[1]]
			if c == nil {
				t.Errorf("%s links to %q, which is not there", name, to[0])
			} else if id := strings.TrimPrefix(to[2], "#"); id != "" && !strings.Contains(string(c.Body), `id="`+id+`"`) {
				t.Errorf("%s links to %s, which has no such anchor", name, to[0])
			}
		}
	}
	if status, _, _ := get(m, "/docs/no-such-page"); status != 404 {
		t.Errorf("a page that is not there: %d", status)
	}
	if status, page, _ := get(m, "/docs/problems.md"); status != 200 || !strings.Contains(page, `id="req_schema"`) {
		t.Errorf("a name as in the repository: %d, or without the anchor of a code", status)
	}
}

// TestThePagesSuitThisServer checks that commands contain its address, links have titles, and only
// one link leads away.
func TestThePagesSuitThisServer(t *testing.T) {
	away := regexp.MustCompile(`<a [^>]*href="((?:[a-z]+:|//)[^"]*)"`)
	for _, c := range []struct{ base, public, host, forwarded, want string }{
		{"", "", "skald.test:8443", "", "http://skald.test:8443"},
		{"/skald", "", "skald.test", "https", "https://skald.test/skald"},
		{"/skald", "https://public.test/skald", "10.0.0.7:8080", "", "https://public.test/skald"},
		{"", "", "[::1]:8080", "", "http://[::1]:8080"},
		{"/skald", "", "x;reboot", "", "http://127.0.0.1:8080/skald"},
		{"", "", "", "", "http://127.0.0.1:8080"},
	} {
		m := newManual(t, c.base, func(cfg *web.Config) { cfg.PublicURL = c.public })
		all, err := read(docs.Files, c.base)
		if err != nil {
			t.Fatal(err)
		}
		all[""] = &chapter{Title: "Start here"}
		commands := 0
		for name, chapter := range all {
			r := httptest.NewRequest(http.MethodGet, "/docs/"+name, http.NoBody)
			r.Host = c.host
			r.Header.Set("X-Forwarded-Proto", c.forwarded)
			w := httptest.NewRecorder()
			m.ServeHTTP(w, r)
			page := w.Body.String()
			if strings.Contains(page, ">"+name+".md<") || strings.Contains(page, "docs/"+name+".md") ||
				!strings.Contains(page, template.HTMLEscapeString(chapter.Title)) {
				t.Errorf("%s is shown by the name of its file, or without its title", name)
			}
			if c.want != written && strings.Contains(strings.ReplaceAll(page, c.want, ""), written) {
				t.Errorf("%q: %s has the address of another server", c, name)
			}
			commands += strings.Count(page, "API="+c.want+"/api/v1")
			for _, to := range away.FindAllStringSubmatch(page, -1) {
				if to[1] != repository && !strings.HasPrefix(to[1], c.want+"/") {
					t.Errorf("%s leads to %s", name, to[1])
				}
			}
		}
		if commands < 10 {
			t.Errorf("%q: %d commands have the address of the server", c, commands)
		}
	}
}

// TestTheSearchToleratesTypos checks that if nothing contains a word, similar words are searched
// for and shown.
func TestTheSearchToleratesTypos(t *testing.T) {
	m := newManual(t, "")
	for typed, meant := range map[string]string{
		"compenzation": "compensation", "idempotancy": "idempotency", "redirve": "redrive", "webhok": "webhook",
		"kafak": "kafka", "compesnation undone": "compensation undone", "Heartbaet": "heartbeat", "tennant": "tenant",
		"REQ_SCHMEA": "req_schema", "participnat retry": "participant retry",
	} {
		status, page, _ := get(m, "/docs/?q="+url.QueryEscape(typed))
		if status != 200 || !strings.Contains(page, "<strong>"+meant) || !strings.Contains(page, "<mark>") {
			t.Errorf("%s: %d, not corrected to %s", typed, status, meant)
		}
	}
	for _, word := range []string{"compensation", "zebra", "xyz", "qqqqqqqqqqqqqqqqqqqq"} {
		if _, page, _ := get(m, "/docs/?q="+word); strings.Contains(page, "Results for") {
			t.Errorf("%s is corrected", word)
		}
	}
}

func TestTheSearchFindsCodesAndWords(t *testing.T) {
	m := newManual(t, "")
	for query, want := range map[string]string{
		"REQ_SCHEMA":                `href="/docs/problems#req_schema">REQ_SCHEMA</a>`,
		"server.base_path":          `href="/docs/configuration#server"`,
		"max_body_bytes":            "<mark>max_body_bytes</mark>",
		`"><script>alert(1)`:        "No section contains all these words",
		"zebra unicorn":             "No section contains all these words",
		"fencing token concurrency": `href="/docs/workers#`,
	} {
		status, page, _ := get(m, "/docs/?q="+url.QueryEscape(query))
		if status != 200 || !strings.Contains(page, want) {
			t.Errorf("%s: %d, without %s", query, status, want)
		}
		if strings.Contains(page, "<script>alert") {
			t.Errorf("%s is not escaped", query)
		}
	}
}

func TestExcerptsNeverCutALetter(t *testing.T) {
	text := strings.Repeat("ä", 100) + " Lease " + strings.Repeat("€", 100)
	got := string(excerpt(text, []string{"lease", "ä"}))
	if !strings.Contains(got, "Lease") || strings.Contains(got, "\uFFFD") {
		t.Errorf("%q", got)
	}
}

// TestTheReferenceShowsTheWholeContract checks that each operation is shown with its path and a
// command, and that each schema has its own page. There are no inline scripts or styles and no
// broken links, and the pages are small.
func TestTheReferenceShowsTheWholeContract(t *testing.T) {
	text, err := openapi.Contract()
	if err != nil {
		t.Fatal(err)
	}
	m := newManual(t, "/skald", func(cfg *web.Config) {
		cfg.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/openapi.json" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(text)
		})
	})
	c, err := readContract(text)
	if err != nil || len(c.Tags) < 10 || len(c.Components.Schemas) < 200 {
		t.Fatalf("%d groups, %v", len(c.Tags), err)
	}
	_, index, h := get(m, "/docs/api")
	if strings.Contains(h.Get("Content-Security-Policy"), "unsafe") {
		t.Errorf("the policy is %v", h)
	}
	packed := func(page string) int {
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		_, _ = io.WriteString(zip, page)
		_ = zip.Close()
		return out.Len()
	}
	size, link := packed(index), regexp.MustCompile(`href="/skald(/docs/api/[^"#]*)`)
	pages, asked := map[string]bool{"/docs/api": true}, []string{index}
	for len(asked) > 0 {
		page := asked[0]
		asked = asked[1:]
		for _, to := range link.FindAllStringSubmatch(page, -1) {
			if pages[to[1]] {
				continue
			}
			pages[to[1]] = true
			status, next, _ := get(m, to[1])
			if status != 200 || strings.Contains(next, " style=") || strings.Contains(next, "<script>") {
				t.Errorf("%s: %d", to[1], status)
			}
			if !strings.Contains(to[1], "/schemas/") {
				size += packed(next)
			}
			asked = append(asked, next)
		}
	}
	if size > 200<<10 {
		t.Errorf("the index and the operations are %d bytes", size)
	}
	for _, tag := range c.Tags {
		_, page, _ := get(m, "/docs/api/"+tag.Name)
		for _, op := range tag.Operations {
			for _, want := range []string{`id="` + op.OperationID + `"`, op.Path, "http://example.com/skald" + op.Path} {
				if !strings.Contains(page, want) {
					t.Errorf("%s is without %s", op.OperationID, want)
				}
			}
			for _, r := range op.Problems() {
				for _, code := range r.Codes {
					if !strings.Contains(page, `/docs/problems#`+strings.ToLower(code)+`"><code>`+code) {
						t.Errorf("%s is without %s", op.OperationID, code)
					}
				}
			}
		}
	}
	if !pages["/docs/api/schemas/Problem"] || !pages["/docs/api/schemas/Saga"] {
		t.Errorf("%d pages, without Problem or Saga", len(pages))
	}
	for _, path := range []string{"/docs/api/nothing", "/docs/api/schemas/Nothing", "/docs/api/schemas/"} {
		if status, _, _ := get(m, path); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
}
