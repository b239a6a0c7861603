package browser_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/browser"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestBehindAProxyAllLinksStayBelowItsPath opens pages through a proxy that strips a path prefix.
func TestBehindAProxyAllLinksStayBelowItsPath(t *testing.T) {
	if !all() {
		return // make test-ui
	}
	s := uitest.Start(t, func(c *config.Config) { c.Server.BasePath = "/skald" })
	target, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(http.StripPrefix("/skald", httputil.NewSingleHostReverseProxy(target)))
	defer front.Close()
	tab := browser.Open(t)
	tab.Go(front.URL + "/skald/ui/")
	for _, page := range []string{"Sagas", "Workflows", "Dead letters", "Manual"} {
		if page == "Manual" { // it is in the person's menu
			tab.Go(front.URL + "/skald/docs/")
		} else {
			tab.Click("header nav a", page)
		}
		tab.Until(page, `document.querySelector("header [aria-current]")?.textContent.trim() === "`+page+`"`)
		var astray []string
		tab.Eval(`[...document.querySelectorAll("a[href], form[action], link[href], script[src]")]
			.map(e => e.getAttribute("href") ?? e.getAttribute("action") ?? e.getAttribute("src"))
			.filter(u => u.startsWith("/") && !u.startsWith("/skald/"))`, &astray)
		if len(astray) > 0 {
			t.Errorf("%s leads elsewhere: %q", page, astray)
		}
	}
	tab.Fill("#q", "lease")
	tab.Press(kb.Enter)
	tab.Until("what was found", `document.querySelector(".hit mark")`)
	tab.Go(front.URL + "/skald/docs/api")
	tab.See("Rules for all operations")
}

// TestAPageThatTheBrowserHadKeptTellsThePresentTime: an unchanged page is answered with 304, so the
// browser shows the old copy. Its relative times must still be relative to the present.
func TestAPageThatTheBrowserHadKeptTellsThePresentTime(t *testing.T) {
	s := uitest.Start(t)
	s.Must(t, "POST", "/workflows", object{"name": "short", "steps": []any{
		object{"name": "only", "action": object{"http": object{"url": s.Participant + "/ok"}}, "compensation": "none"},
	}})
	saga, _ := s.Must(t, "POST", "/sagas?wait=30s", object{"workflow_name": "short"})["saga_id"].(string)
	target, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	var kept atomic.Int64
	var behind atomic.Bool // the server's clock is an hour behind
	behind.Store(true)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode == http.StatusNotModified && r.Request.Header.Get("Sec-Fetch-Mode") == "navigate" {
			kept.Add(1)
		}
		if !behind.Load() {
			return nil
		}
		then := time.Now().Add(-time.Hour).UTC()
		r.Header.Set("Date", then.Format(http.TimeFormat))
		if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
			return nil
		}
		page, err := io.ReadAll(r.Body)
		page = regexp.MustCompile(`data-now="[^"]*"`).ReplaceAll(page, []byte(`data-now="`+then.Format(time.RFC3339)+`"`))
		page = regexp.MustCompile(`(<time[^>]*>)[^<]*`).ReplaceAll(page, []byte("${1}until a script has run"))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(page)), int64(len(page))
		r.Header.Set("Content-Length", strconv.Itoa(len(page)))
		return err
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Accept-Encoding")
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	tab := browser.Open(t)
	const times = `document.querySelector("main time[datetime]:not([data-fixed])").textContent`
	look := func() (words string) {
		tab.Go(front.URL + "/ui/sagas/" + saga)
		tab.Until("the script runs", times+` !== "until a script has run"`)
		tab.Eval(times, &words)
		return words
	}
	if words := look(); !strings.HasPrefix(words, "in ") {
		t.Errorf("the clock of the server does not count: %s", words)
	}
	behind.Store(false)
	if words := look(); strings.HasPrefix(words, "in ") {
		t.Errorf("the page counts from when it was made: %s", words)
	}
	if kept.Load() == 0 {
		t.Error("the page was not kept")
	}
}
