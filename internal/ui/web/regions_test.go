package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// TestOnlyRegionsThatDifferAreSentAgain checks that a page that requests its own URL gets only the
// regions that it does not show yet.
func TestOnlyRegionsThatDifferAreSentAgain(t *testing.T) {
	k, err := New(Config{API: http.NotFoundHandler(), Now: time.Now})
	if err == nil {
		err = k.Templates(fstest.MapFS{"templates/thing.html": {Data: []byte(`{{define "content"}}<h1>Frame</h1>
<div id="head" class="x" data-live><div>{{.Data.Head}}</div><br><time datetime="{{.Data.At}}">{{.Data.At}}</time></div>
<div id="quiet">never</div><section data-live id="tab"><p title="</section>">{{.Data.Tab}}</p></section>{{end}}`)}})
	}
	if err != nil {
		t.Fatal(err)
	}
	type state struct{ Head, Tab, At string }
	now, status := state{"one", "two", "0"}, 0
	k.OpenPage("GET /ui/thing", func(*Visit) (*Page, error) {
		return &Page{Template: "thing", Title: "A <thing>", Attention: 3, Refresh: 7, Status: status, Data: now}, nil
	})
	ask := func(had string) (page, all string) {
		r := httptest.NewRequest(http.MethodGet, "/ui/thing", http.NoBody)
		if had != "" {
			r.Header.Set("Skald-Live", had)
		}
		w := httptest.NewRecorder()
		k.ServeHTTP(w, r)
		return w.Body.String(), w.Header().Get("Skald-Live")
	}
	check := func(what, page string, wanted, unwanted []string) {
		t.Helper()
		for _, part := range wanted {
			if !strings.Contains(page, part) {
				t.Errorf("%s: without %s\n%s", what, part, page)
			}
		}
		for _, part := range unwanted {
			if strings.Contains(page, part) {
				t.Errorf("%s: with %s\n%s", what, part, page)
			}
		}
	}
	head, tab, frame := `<div id="head" class="x" data-live><div>`, `<section data-live id="tab"><p`, "<h1>Frame"
	title, every := "<title>(3) A &lt;thing&gt; · Skald</title>", `data-refresh="7"`
	page, all := ask("")
	check("a visit", page, []string{head, tab, frame, title, every}, nil)
	if all != "" {
		t.Errorf("a visit: %s", all)
	}
	page, all = ask("-")
	check("the first time", page, []string{head, tab, "</div>", "two</p></section>", title, every},
		[]string{frame, "never", "<footer", "stylesheet"})
	now.Tab = "three"
	page, then := ask(all)
	check("one has changed", page, []string{tab, "three", title}, []string{head, frame})
	now.At = "61"
	page, again := ask(then)
	check("only time has passed", page, []string{title, every}, []string{head, tab})
	if again != then || then == all {
		t.Errorf("the regions are %s, then %s, then %s", all, then, again)
	}
	now.Head = "four"
	page, _ = ask("tab=0,head=0, nonsense,,=")
	check("those of another page", page, []string{head, tab, "four"}, nil)
	status = http.StatusNotFound
	page, _ = ask(all)
	check("a page that fails", page, []string{head, tab, frame}, nil)
}

// TestRegionsAreSharedByWhoSeesTheSame: they are drawn once for all who see the same in one state of a page, and
// neither for a visit nor for anybody else.
func TestRegionsAreSharedByWhoSeesTheSame(t *testing.T) {
	k, err := New(Config{API: http.NotFoundHandler(), Now: time.Now})
	if err == nil {
		err = k.Templates(fstest.MapFS{"templates/thing.html": {Data: []byte(`{{define "content"}}
<p id="drawn" data-live>drawing {{.Data}}</p>{{end}}`)}})
	}
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	var sees, state string
	k.OpenPage("GET /ui/thing", func(*Visit) (*Page, error) {
		asked++
		return &Page{Template: "thing", Sees: sees, State: state, Data: asked}, nil
	})
	for i, c := range []struct{ sees, state, query, live, drawing string }{
		{"a", "1", "", "", "1"},
		{"a", "1", "", "-", "2"},
		{"a", "1", "", "-", "2"},
		{"b", "1", "", "-", "4"},
		{"a", "2", "", "-", "5"},
		{"a", "2", "?causes=all", "-", "6"},
		{"a", "2", "?tenant=018f0000-0000-7000-8000-000000000001", "-", "7"},
		{"a", "2", "", "-", "5"},
		{"a", "2", "", "", "9"},
		{"", "2", "", "-", "10"},
		{"", "2", "", "-", "11"},
		{"a", "", "", "-", "12"},
		{"a", "", "", "-", "13"},
	} {
		sees, state = c.sees, c.state
		r := httptest.NewRequest(http.MethodGet, "/ui/thing"+c.query, http.NoBody)
		if c.live != "" {
			r.Header.Set(liveHeader, c.live)
		}
		w := httptest.NewRecorder()
		k.ServeHTTP(w, r)
		if page := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(page, "drawing "+c.drawing+"<") {
			t.Errorf("%d: %+v: %d\n%s", i, c, w.Code, page)
		}
	}
}
