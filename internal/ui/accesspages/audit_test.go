package accesspages_test

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

func TestAuditAndSystemShowWhoChangedWhat(t *testing.T) {
	t.Parallel()
	const hostile = "<script>alert(1)</script>"
	s := uitest.Start(t)
	form := uitest.Form(pageOf(t, s, "/ui/system/settings/assign_ahead_seconds", 200, "assign_ahead_seconds"))
	form.Set("value", "no number")
	form.Set("reason", hostile)
	form.Set("do", "act")
	const setting = "/ui/system/settings/assign_ahead_seconds"
	if status, page, _ := s.Post(t, setting, form); !strings.Contains(page, "not a number") {
		t.Errorf("a value that is not a number: %d\n%s", status, page)
	}
	form.Set("value", "120")
	if status, page, to := s.Post(t, setting, form); status != 303 || to != "/ui/system" {
		t.Fatalf("changing a setting: %d to %q\n%s", status, to, page)
	}
	if status, page, _ := s.Post(t, setting, form); status != 412 {
		t.Errorf("a change of what has changed since: %d\n%s", status, page)
	}
	key := map[string]any{"name": "a", "role": "auditor", "reason": hostile}
	if status, doc := s.Call(t, "POST", "/api-keys", key); status != 201 {
		t.Fatalf("a key: %d %v", status, doc)
	}
	change := map[string]any{"max_retries": 7, "reason": hostile}
	if status, doc := s.Call(t, "PATCH", "/dlq/topics/orders/policy", change); status != 200 {
		t.Fatalf("a policy: %d %v", status, doc)
	}
	interventionsAreListed(t, s)
	pageOf(t, s, "/ui/audit?kind=topic_policy", 200, `max_retries: <code>3</code> → <code>7</code>`)
	pageOf(t, s, "/ui/audit?scope=deployment", 200, "assign_ahead_seconds: <code>default</code> → <code>120</code>")
	atTheEnd(t, s)
	for path, want := range map[string]string{
		"/ui/system":                  "&lt;script&gt;",
		"/ui/system/retention":        "No sagas would be archived",
		"/ui/audit":                   "&lt;script&gt;",
		"/ui/audit?verb=no-such-verb": "Clear filters",
		"/ui/audit?scope=deployment":  "assign_ahead_seconds",
		"/ui/audit/events?saga_id=00000000-0000-4000-8000-000000000001": "No entries match",
		"/ui/audit/verify?trail=actions":                                "No tampering was found",
		"/ui/access":                                                    "Revoke…",
		"/ui/access/sessions":                                           "No browser sessions",
		"/ui/access/permissions":                                        "createAPIKey",
	} {
		pageOf(t, s, path, 200, want)
	}
	pageOf(t, s, "/ui/audit?nothing=1", 400, "nothing")
	pageOf(t, s, "/ui/system/settings/none", 404, "no such page")
}

// interventionsAreListed checks that the list of actions contains what people did to sagas, newest
// first, with the person, the reason and a link that identifies the saga, exactly as returned by
// the API. A bulk operation is a single entry, and its sagas are listed on request.
func interventionsAreListed(t *testing.T, s *uitest.Server) {
	t.Helper()
	call := map[string]any{"http": map[string]any{"url": s.Participant + "/503/ping"}}
	s.Must(t, "POST", "/workflows", map[string]any{
		"name": "waits", "steps": []any{map[string]any{"name": "ping", "action": call, "compensation": "none"}},
		"retry": map[string]any{"initial_interval_ms": 600_000, "max_interval_ms": 600_000, "max_attempts": 3},
	})
	var ids []string
	for range 2 {
		saga := s.Must(t, "POST", "/sagas", map[string]any{"workflow_name": "waits", "payload": map[string]any{}})
		ids = append(ids, saga["saga_id"].(string))
	}
	s.Must(t, "POST", "/sagas/"+ids[0]+"/suspend", map[string]any{"reason": "payments are <down>"})
	s.Must(t, "POST", "/sagas/"+ids[0]+"/resume", map[string]any{"reason": "payments are up"})
	bulk := s.Must(t, "POST", "/sagas/bulk", map[string]any{
		"action": "cancel", "ids": ids, "reason": "the shop has closed",
	})["id"].(string)
	patience.Until(t, "the bulk ends", func() bool {
		return s.Must(t, "GET", "/sagas/bulk/"+bulk, nil)["state"] == "COMPLETED"
	})
	page := pageOf(t, s, "/ui/audit", 200, "payments are &lt;down&gt;")
	link := `<a href="/ui/sagas/` + ids[0] + `" title="` + ids[0] + `">waits `
	if n := strings.Count(page, link); n != 2 || !strings.Contains(page, `<a href="/ui/sagas/bulk/`+bulk) {
		t.Errorf("%d lines about the saga, or none about the bulk\n%s", n, page)
	}
	resumed, suspended := strings.Index(page, "payments are up"), strings.Index(page, "payments are &lt;")
	if resumed < 0 || resumed > suspended {
		t.Errorf("the newest is not first:\n%s", page)
	}
	for _, of := range []string{"/audit", "/audit?kind=saga", "/audit?subject=" + ids[0], "/audit?kind=saga&verb=cancel"} {
		_, page := s.Get(t, "/ui"+of)
		listed := s.Must(t, "GET", of, nil)["actions"].([]any)
		for _, a := range listed {
			if id := a.(map[string]any)["id"].(string); !strings.Contains(page, `data-key="`+id+`"`) {
				t.Errorf("%s: the page omits %v", of, a)
			}
		}
		got := strings.Count(page, "<tr data-key=")
		if got != len(listed) || (got == 0) != strings.Contains(of, "verb=") {
			t.Errorf("%s: %d lines on the page, %d in the API", of, got, len(listed))
		}
	}
	ofRuns := "/ui/run-bulks/" + s.Must(t, "POST", "/job-runs/bulk", map[string]any{
		"action": "cancel", "filter": map[string]any{"correlation_id": "none"}, "reason": "the shop has closed",
	})["id"].(string)
	pageOf(t, s, "/ui/audit?kind=job_bulk", 200, `<a href="`+ofRuns+`"`)
	pageOf(t, s, ofRuns, 200, "the shop has closed")
	page = pageOf(t, s, "/ui/audit?subject="+ids[0], 200, ">Cancel a saga</span>")
	suspend := s.Must(t, "GET", "/audit?subject="+ids[0]+"&verb=suspend", nil)["actions"].([]any)[0]
	request := suspend.(map[string]any)["request_id"].(string)
	if !strings.Contains(page, `<a class="quiet" href="?request_id=`+request+`" title="`+request+`"><code>`+request[:4]+"…") {
		t.Errorf("the request of an action is not a link:\n%s", page)
	}
	pageOf(t, s, "/ui/audit?request_id="+request, 200, "payments are &lt;down&gt;")
	if page := pageOf(t, s, "/ui/audit", 200, ">Create an API key</span>"); strings.Contains(page, ">createAPIKey") {
		t.Error("an action is called by the id of its operation")
	}
	if strings.Count(page, "<tr data-key=") != 3 {
		t.Errorf("the page of one saga omits what the bulk did to it:\n%s", page)
	}
}

// atTheEnd checks that the last page of events names a stream that continues from there, with the
// filters of the page.
func atTheEnd(t *testing.T, s *uitest.Server) {
	t.Helper()
	page := pageOf(t, s, "/ui/audit/events?from=-15m&workflow_name=order", 200, `id="live"`)
	_, rest, _ := strings.Cut(page, `data-stream="`)
	path, _, _ := strings.Cut(rest, `"`)
	path = html.UnescapeString(path)
	if !strings.Contains(path, "workflow_name=order") || !strings.Contains(path, "cursor=") {
		t.Errorf("the stream is %s", path)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() // the stream has no end
	if res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("%s answers %d, %s", path, res.StatusCode, res.Header.Get("Content-Type"))
	}
}

// pageOf returns a page that must contain a text, and must not contain text from a client as
// markup.
func pageOf(t *testing.T, s *uitest.Server, path string, status int, want string) string {
	t.Helper()
	got, page := s.Get(t, path)
	if got != status || !strings.Contains(page, want) {
		t.Errorf("%s: %d, without %q\n%s", path, got, want, page)
	}
	if strings.Contains(page, "<script>alert") || strings.Contains(page, " style=") {
		t.Errorf("%s contains text of a client as markup, or an inline style", path)
	}
	return page
}
