package uitest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// watched is a page in a browser, with a count of what the browser receives over the network.
type watched struct {
	url, tag, live string
	key            string // of its visitor; "": no key is needed
	bytes, changed int    // changed: number of responses other than 304
}

// refresh requests the page in the way assets/app.js does, and returns the body that the browser
// receives.
func (w *watched) refresh(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if w.key == "" {
		req.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	} else { // the body is read, not only measured
		req.Header.Set("Authorization", "Bearer "+w.key)
	}
	if w.live != "" {
		req.Header.Set("Skald-Live", w.live)
		req.Header.Set("If-None-Match", w.tag)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNotModified {
		t.Fatalf("%s: %d, %v", w.url, res.StatusCode, err)
	}
	headers := 0
	for name, values := range res.Header {
		for _, v := range values {
			headers += len(name) + len(v) + 4
		}
	}
	w.bytes += len(body) + headers
	w.tag = res.Header.Get("ETag")
	if res.StatusCode == http.StatusOK {
		w.changed++
		if w.live = res.Header.Get("Skald-Live"); w.live == "" {
			w.live = "-"
		}
	}
	return string(body)
}

// TestOpenOverviewsShareOnlyWhatTheirVisitorsMaySee: open overviews share API responses and charts,
// and yet each of them offers its visitor only the actions that this visitor may take.
func TestOpenOverviewsShareOnlyWhatTheirVisitorsMaySee(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	open := map[string]*watched{}
	for _, who := range []string{"operator", "second-operator", "auditor"} {
		key := object{"name": who, "role": strings.TrimPrefix(who, "second-"), "reason": "test"}
		open[who] = &watched{url: s.URL + "/ui/", key: s.Must(t, "POST", "/api-keys", key)["key"].(string)}
		open[who].refresh(t)
		open[who].refresh(t)
	}
	for _, topic := range []string{"payments", "orders"} {
		s.Must(t, "POST", "/dlq/messages", object{"original_topic": topic, "error_message": "timeout", "payload": object{},
			"target": object{"kind": "http", "url": s.Participant + "/ok"}})
		for who, page := range open {
			var got string
			patience.Until(t, who+" sees the letter of "+topic, func() bool {
				got = page.refresh(t)
				return strings.Contains(got, "A new error in "+topic)
			})
			may, not := "Retry", "needs dlq:"
			if who == "auditor" {
				may, not = not, `href="/ui/redrives/new`
			}
			if strings.Contains(got, "<footer") || !strings.Contains(got, may) || strings.Contains(got, not) {
				t.Errorf("%s sees, of the letter of %s:\n%s", who, topic, got)
			}
		}
	}
}

// waitsToRetry reports whether a saga waits for its next attempt. A saga that has not begun yet may
// be due, too.
func waitsToRetry(doc map[string]any) bool {
	return doc["state"] == "running" && doc["next_run_at"] != nil
}

// TestAMinuteOfAListCostsLittle counts the bytes of lists of 50 rows that are open for a minute,
// which means six refreshes: once while nothing happens, and once while rows change.
func TestAMinuteOfAListCostsLittle(t *testing.T) {
	t.Parallel()
	s := uitest.Start(t)
	s.Must(t, "POST", "/workflows", object{"name": "order", "steps": []any{object{
		"name": "reserve", "action": object{"http": object{"url": s.Participant + "/503/x"}},
		"compensation": "none"}},
		"retry": object{"initial_interval_ms": 3_600_000, "max_interval_ms": 3_600_000, "max_attempts": 3}})
	var ids []string // one page: a longer list shows "51+" if a busy server takes too long to count it
	for i := range 50 {
		ids = append(ids, fmt.Sprint(s.Must(t, "POST", "/sagas", object{
			"workflow_name": "order", "business_key": fmt.Sprintf("order-%d", i), "payload": object{"n": i}})["saga_id"]))
	}
	patience.Until(t, "all sagas wait for their retry", func() bool {
		for _, id := range ids {
			if !waitsToRetry(s.Must(t, "GET", "/sagas/"+id, nil)) {
				return false
			}
		}
		return true
	})
	for _, page := range []string{"/ui/", "/ui/sagas", "/ui/sagas?status=RUNNING", "/ui/sagas/errors", "/ui/workflows",
		"/ui/dlq/letters", "/ui/jobs", "/ui/runs", "/ui/workers", "/ui/webhooks", "/ui/audit"} {
		idle := watched{url: s.URL + page}
		idle.refresh(t)
		first := idle.bytes
		for range 6 {
			idle.refresh(t)
		}
		if minute := idle.bytes - first; minute > 6<<10 || idle.changed > 2 { // the unit of the overview's ages may change
			t.Errorf("a minute of %s, which is idle, costs %d bytes after %d; it was sent %d times",
				page, minute, first, idle.changed)
		}
	}
	list := watched{url: s.URL + "/ui/sagas"}
	list.refresh(t)
	first := list.bytes
	for i := range 6 {
		if i%3 == 1 { // the content of the page changes twice
			s.Must(t, "PATCH", "/sagas/"+ids[49-i], object{"assignee": "ann", "reason": "mine"})
		}
		list.refresh(t)
	}
	if minute := list.bytes - first; minute > 20<<10 || list.changed != 3 {
		t.Errorf("a minute of a list in which two rows change costs %d bytes after %d; it was sent %d times",
			minute, first, list.changed)
	}
}
