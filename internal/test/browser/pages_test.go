package browser_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/app/demo"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/browser"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/uitest"
)

func TestMain(m *testing.M) { browser.Main(m) }

// all reports whether slow tests run as well.
func all() bool { return os.Getenv("TEST_UI") == "all" }

// startDemo runs the demo with resources in every state.
func startDemo(t *testing.T) demo.Place {
	t.Helper()
	cfg := config.Default(config.Dev)
	cfg.Database.URL = config.Secret(testdb.DSN(t))
	cfg.Server.ListenAddr = "127.0.0.1:0"
	ready, ended := make(chan demo.Place, 1), make(chan error, 1)
	ctx := t.Context() // it is canceled before the cleanups run
	go func() {
		ended <- demo.Keep(ctx, demo.KeepConfig{
			Skald: cfg, Scale: 0.05, Dir: t.TempDir(), Out: io.Discard, Log: slog.New(slog.DiscardHandler),
			Ready: func(p demo.Place) { ready <- p },
		})
	}()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("the demo ended with %v", err)
		}
	})
	select {
	case p := <-ready:
		return p
	case err := <-ended:
		ended <- nil
		t.Fatalf("the demo: %v", err)
	}
	return demo.Place{}
}

// signOn opens a tab for a person of the demo, who signs in at the demo's identity provider.
func signOn(t *testing.T, at demo.Place, person string) *browser.Tab {
	t.Helper()
	tab := browser.Open(t)
	tab.Expect("a request to another server: " + at.Participants + "/people/")
	tab.Expect("a request to another server: " + at.URL) // for a tab that starts at the provider
	tab.Go(at.Participants + "/people/as/" + person)
	tab.Until("the overview, signed in", `location.pathname === "/ui/" && document.querySelector("h1")`)
	tab.Go(at.URL + "/ui/")
	return tab
}

// get reads a page as the person signed in to the tab. It returns "" for a download.
func get(tab *browser.Tab, path string) (status int, page string) {
	tab.Helper()
	var answer struct {
		Status int
		Page   string
	}
	tab.Await(fmt.Sprintf(`fetch(%q).then(async r => ({Status: r.status,
		Page: r.headers.get("Content-Type").startsWith("text/html") ? await r.text() : (r.body?.cancel(), "")}))`, path), &answer)
	return answer.Status, answer.Page
}

var (
	href     = regexp.MustCompile(`href="(/(?:ui|docs)[^"#]*)`)
	someID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}`)
	ofNoView = regexp.MustCompile(`^/ui/assets/|^/docs/(api|images)|/export|/raw|/download`)
)

// kind returns the kind of a page: two pages of one kind differ only in their content.
func kind(path string) string {
	u, err := url.Parse(path)
	if err != nil {
		return path
	}
	parts := strings.Split(someID.ReplaceAllString(u.Path, "*"), "/")
	if slices.Contains(parts, "actions") { // the action forms of a subject count as one kind
		return strings.Join(parts[:3], "/") + "/actions"
	}
	switch {
	case len(parts) > 4 && (parts[3] == "topics" || parts[3] == "settings"):
		parts[4] = "*"
	case len(parts) > 3 && slices.Contains([]string{"workflows", "jobs", "runs"}, parts[2]) && parts[3] != "new":
		parts[3] = "*"
	case parts[1] == "docs" && len(parts) > 2 && parts[2] != "" && parts[2] != "problems":
		parts[2] = "*"
	}
	return strings.Join(parts, "/") + "?" + u.Query().Get("tab")
}

// pages follows links from the overview, which the tab shows, and returns one page of each kind.
func pages(t *testing.T, tab *browser.Tab) (found []string) {
	t.Helper()
	tab.Expect("404")
	seen := map[string]bool{}
	for next := []string{"/ui/", "/ui/sagas", "/docs/", "/ui/dlq/letters"}; len(next) > 0; next = next[1:] {
		path := strings.ReplaceAll(next[0], "&amp;", "&")
		if k := kind(path); seen[k] || ofNoView.MatchString(path) {
			continue
		} else {
			seen[k] = true
		}
		status, page := get(tab, path)
		if status == http.StatusNotFound && !strings.Contains(path, "/sagas") { // a page that doesn't exist yet
			t.Logf("%s is not there", path)
			continue
		}
		if status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
			continue
		}
		if page == "" { // a download
			continue
		}
		found = append(found, path)
		for _, m := range href.FindAllStringSubmatch(page, -1) {
			next = append(next, m[1])
		}
	}
	slices.Sort(found)
	return found
}

var sizes = []struct {
	name          string
	width, height int64
}{{"wide", 1440, 900}, {"phone", 390, 844},
	{"small", 320, 640}} // a window of 1280 pixels at a zoom of 400%

var themes = []string{"light", "dark"}

// amiss lists pages that show a problem.
var amiss = []string{
	"/ui/no-such-page", "/ui/sagas/01981d2e-0000-7000-8000-000000000001", "/ui/sagas?state=nothing",
	"/ui/dlq/letters/01981d2e-0000-7000-8000-000000000001", "/ui/jobs/no-such-job", "/docs/no-such-chapter",
}

// checkEveryPage looks for problems that affect people with poor eyesight, a phone or a metered
// connection.
func checkEveryPage(t *testing.T, at demo.Place) {
	tab := signOn(t, at, "ada")
	tab.Expect("404")
	tab.Expect("400")
	for _, path := range append(pages(t, tab), amiss...) {
		check(t, tab, at.URL, path)
	}
}

// TestPagesWithNothingOnThemCanBeUsedByEverybody checks the pages of a new server.
func TestPagesWithNothingOnThemCanBeUsedByEverybody(t *testing.T) {
	if !all() {
		return // make test-ui
	}
	s := uitest.Start(t)
	tab := browser.Open(t)
	tab.Go(s.URL + "/ui/")
	for _, path := range pages(t, tab) {
		if !strings.HasPrefix(path, "/docs/") {
			check(t, tab, s.URL, path)
		}
	}
}

func check(t *testing.T, tab *browser.Tab, server, path string) {
	t.Helper()
	tab.Look(1440, 900, "light")
	tab.Go(server + path)
	if got := tab.Transferred(); got > 40_000 {
		t.Errorf("%s: scripts and styles take %d bytes, more than 40,000", path, got)
	}
	for _, e := range tab.Unfollowed() {
		t.Errorf("%s: what it says here never follows: %s", path, e)
	}
	for _, theme := range themes {
		tab.Look(1440, 900, theme)
		violations(t, tab, path+", "+theme)
	}
	tab.LookInForcedColors()
	var moving, bare []string
	tab.Eval(`document.getAnimations().map(a => a.effect.target.outerHTML.slice(0, 160))`, &moving)
	if len(moving) > 0 {
		t.Errorf("%s moves for people who want no motion: %s", path, moving)
	}
	tab.Eval(`[...document.querySelectorAll(".badge")].filter(e => !e.innerText.trim()).map(e => e.outerHTML)`, &bare)
	if len(bare) > 0 {
		t.Errorf("%s says states by color alone: %s", path, bare)
	}
	violations(t, tab, path+", forced colors")
	for _, s := range sizes {
		tab.Look(s.width, s.height, "light")
		for _, m := range tab.Misplaced() {
			t.Errorf("%s, %d pixels wide: %s", path, s.width, m)
		}
		if s.name != "wide" {
			violations(t, tab, fmt.Sprintf("%s, %d pixels wide", path, s.width))
		}
	}
}

// violations reports WCAG violations on the page in the tab.
func violations(t *testing.T, tab *browser.Tab, what string) {
	t.Helper()
	for _, v := range tab.Violations() {
		t.Errorf("%s: %s", what, v)
	}
}

// checkMainPages is the part of checkEveryPage that every test run can afford.
func checkMainPages(t *testing.T, at demo.Place) {
	tab := signOn(t, at, "kim")
	for _, path := range []string{"/ui/", "/ui/sagas", "/ui/workflows", "/ui/dlq", "/ui/redrives", "/ui/jobs",
		"/ui/workers", "/ui/webhooks", "/ui/audit", "/ui/system"} {
		tab.Look(1280, 900, "light")
		tab.Go(at.URL + path)
		violations(t, tab, path)
		for _, e := range tab.Unfollowed() {
			t.Errorf("%s: what it says here never follows: %s", path, e)
		}
		for _, s := range sizes {
			tab.Look(s.width, s.height, "light")
			for _, m := range tab.Misplaced() {
				t.Errorf("%s, %d pixels wide: %s", path, s.width, m)
			}
			var at struct {
				Words  []string
				Height float64
			}
			tab.Eval(`({words: [...document.querySelectorAll(".top nav > a, .top nav > details > summary")]
				.filter(e => e.checkVisibility()).map(e => e.innerText.trim().split("\n").pop()),
				height: document.querySelector(".top").offsetHeight})`, &at)
			var title string
			tab.Eval(`document.title.replace(/^\(\d+\) /, "").split(" · ")[0]`, &title)
			if len(at.Words) > 6 || !slices.Contains(at.Words, title) || at.Height > 60 && s.name != "small" {
				t.Errorf("%s (%s), %d pixels wide: the header has %q and is %.0f pixels high",
					path, title, s.width, at.Words, at.Height)
			}
		}
	}
	checkLongValues(t, at, tab)
	for at, want := range map[string]string{
		"[": "/a", "1": "/a/0", "{}": "/a/1", "true": "/b~1c~0/x\"y", "]": "/a", "last": "/z",
	} {
		const text = "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b/c~\": " +
			"{\n    \"x\\\"y\": true\n  },\n  \"z\": \"last\"\n}"
		var got string
		tab.Await(fmt.Sprintf(`import(document.querySelector("script[src*='/json.']").src).then(m => m.pointerAt(%q, %d))`,
			text, strings.Index(text, at)), &got)
		if got != want {
			t.Errorf("the path of %s is %q, want %q", at, got, want)
		}
	}
}

// checkLongValues checks the pages of a saga with keys of 200 characters and a deadline in the
// distant future.
func checkLongValues(t *testing.T, at demo.Place, tab *browser.Tab) {
	t.Helper()
	key := strings.Repeat("key-", 50)
	status, text := ask(t, at, "POST", "/sagas", fmt.Sprintf(
		`{"workflow_name": "shipment", "business_key": %[1]q, "correlation_id": %[1]q, "timeout_ms": 604800000}`, key))
	var saga struct {
		ID string `json:"saga_id"`
	}
	if err := json.Unmarshal([]byte(text), &saga); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s, %v", status, text, err)
	}
	for _, path := range []string{
		"/ui/sagas?correlation_id=" + key, "/ui/sagas/" + saga.ID, "/ui/timeline?correlation_id=" + key,
		"/ui/workflows/shipment", "/ui/certifications/" + certified(t, at, key), "/ui/workflows/visa", awaiting(t, at),
	} {
		tab.Look(1440, 900, "light")
		tab.Go(at.URL + path)
		tab.Until("the page", `document.querySelector("main h1")`)
		var squeezed []string
		tab.Eval(`[...document.querySelectorAll("td:has(.clip)")].filter(e => e.offsetWidth > 300 || e.offsetHeight > 90
			|| e.querySelector(".clip").title.length !== 200).map(e => e.outerHTML.slice(0, 160))`, &squeezed)
		for _, e := range squeezed {
			t.Errorf("%s: a long key squeezes the columns beside it: %s", path, e)
		}
		for _, s := range sizes {
			tab.Look(s.width, s.height, "light")
			for _, m := range tab.Misplaced() {
				t.Errorf("%s, %d pixels wide: %s", path, s.width, m)
			}
			if s.name == "phone" {
				violations(t, tab, path+" on a phone")
				tab.Look(s.width, s.height, "dark")
				violations(t, tab, path+" on a phone, dark")
			}
		}
	}
}

// certified stores a certification report with long lines for a participant of the demo and returns
// the report's id.
func certified(t *testing.T, at demo.Place, long string) string {
	t.Helper()
	status, text := ask(t, at, "POST", "/participants/certifications", fmt.Sprintf(`{"report": {"url": "%s/{step}",
		"version": "1", "certified": false, "played": ["repeat"], "effects_counted": false,
		"findings": [{"code": "done_again", "rule": "1", "title": "A repeated call is applied again.", "why": "It charges twice.",
			"vector": "repeat", "vectors": ["repeat", "race"], "seen": %[2]q, "curl": [%[2]q, "curl"]}],
		"warnings": [{"code": "large_body", "text": %[2]q}],
		"not_tried": [{"vector": "restart", "reason": %[2]q, "inapplicable": false}]}}`, at.Participants, "curl "+long))
	var report struct{ ID string }
	if err := json.Unmarshal([]byte(text), &report); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s, %v", status, text, err)
	}
	return report.ID
}

// TestWhatCannotBeReadIsFound plants the layout defects that Misplaced has to find.
func TestWhatCannotBeReadIsFound(t *testing.T) {
	page := `<!doctype html><html lang="en"><title>Planted</title><link rel="icon" href="data:,"><style>body { margin: 0 }
		.cut { width: 40px; overflow: hidden; white-space: nowrap } .over { position: relative; top: -1em } .wide { width: 2000px }</style>%s`
	tab := browser.Open(t)
	for _, c := range []struct{ body, want string }{
		{`<p class="cut">a text that has no room</p>`, "cut off"},
		{`<div>one text</div><div class="over">another one</div>`, "over text"},
		{`<p class="wide">a page for large screens</p>`, "sideways"},
		{`<p>one text</p><p>another one</p>`, ""},
		{`<p class="cut" title="a text that has no room" style="text-overflow: ellipsis">a text that has no room</p>`, ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if r.URL.Path == "/" {
				fmt.Fprintf(w, page, c.body)
			}
		}))
		tab.Look(1280, 900, "light")
		tab.Go(server.URL + "/")
		got := tab.Misplaced()
		if (len(got) > 0) != (c.want != "") || len(got) > 0 && !strings.Contains(got[0], c.want) {
			t.Errorf("%s: found %q, want %q", c.body, got, c.want)
		}
		server.Close()
	}
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func TestScreenshots(t *testing.T) {
	dir := os.Getenv("TEST_SCREENSHOTS")
	if dir == "" {
		return // make screenshots
	}
	at := startDemo(t)
	tab := signOn(t, at, "ada")
	for _, path := range pages(t, tab) {
		for _, s := range sizes[:2] {
			for _, theme := range themes {
				tab.Look(s.width, s.height, theme)
				tab.Go(at.URL + path)
				name := strings.Trim(notInNames.ReplaceAllString(
					strings.ToLower(strings.ReplaceAll(kind(path), "*", "one")), "-"), "-")
				file := filepath.Join(dir, fmt.Sprintf("%s.%s.%s.png", name, s.name, theme))
				if err := os.WriteFile(file, tab.Screenshot(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
