package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// TestWhatIsUnchangedIsNotRendered checks that a page whose state the browser already has is not
// rendered, but that the advancing times are sent. The page is sent for another visitor, another
// URL or another process.
func TestWhatIsUnchangedIsNotRendered(t *testing.T) {
	rendered, at := 0, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	kit := func() *Kit {
		k, err := New(Config{API: http.NotFoundHandler(), Now: time.Now})
		if err == nil {
			err = k.Templates(fstest.MapFS{"templates/thing.html": {Data: []byte(`{{define "content"}}{{call .Data}}{{end}}`)}})
		}
		if err != nil {
			t.Fatal(err)
		}
		k.OpenPage("GET /ui/thing", func(v *Visit) (*Page, error) {
			if name := v.Header.Get("Authorization"); name != "" {
				v.Who = &client.CallerIdentity{Subject: name}
			}
			p := &Page{Template: "thing", Refresh: 7, State: "3", Times: map[string]time.Time{"seen": at}}
			if p.Data = func() string { rendered++; return "it" }; v.Had() == p.State {
				p.Data = Unchanged{}
			}
			return p, nil
		})
		return k
	}
	k := kit()
	ask := func(k *Kit, url, tag string, who ...string) *http.Response {
		r := httptest.NewRequest(http.MethodGet, url, http.NoBody)
		r.Header.Set("If-None-Match", tag)
		for _, name := range who {
			r.Header.Set("Authorization", name)
		}
		w := httptest.NewRecorder()
		k.ServeHTTP(w, r)
		return w.Result()
	}
	first := ask(k, "/ui/thing", "")
	tag := first.Header.Get("ETag")
	if first.StatusCode != http.StatusOK || rendered != 1 || !strings.HasPrefix(tag, `W/"3~`) {
		t.Fatalf("first: %d, rendered %d times, %s", first.StatusCode, rendered, tag)
	}
	again := ask(k, "/ui/thing", tag)
	if again.StatusCode != http.StatusNotModified || rendered != 1 || again.Header.Get("ETag") != tag {
		t.Errorf("again: %d, rendered %d times", again.StatusCode, rendered)
	}
	h := again.Header
	if h.Get("Skald-Times") != "seen=2026-01-02T03:04:05Z" || h.Get("Skald-Refresh") != "7" {
		t.Errorf("what goes on: %v", h)
	}
	for why, other := range map[string]*http.Response{
		"another URL": ask(k, "/ui/thing?tab=x", tag), "another process": ask(kit(), "/ui/thing", tag),
		"another state": ask(k, "/ui/thing", strings.Replace(tag, "3", "4", 1)), "no tag": ask(k, "/ui/thing", "*"),
		"another visitor": ask(k, "/ui/thing", tag, "alice"), "another tenant": ask(k, "/ui/thing?tenant=x", tag),
	} {
		if other.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", why, other.StatusCode)
		}
	}
}
