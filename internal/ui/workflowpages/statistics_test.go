package workflowpages_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/uitest"
)

func TestPagesOfStatistics(t *testing.T) {
	s := uitest.Start(t)
	get := func(path string, want int, texts ...string) string {
		t.Helper()
		status, page := s.Get(t, path)
		has(t, status, page, want, texts...)
		return page
	}
	get("/ui/statistics", 200, "No saga was created in this period")
	step := func(name, path string) map[string]any {
		return map[string]any{
			"name": name, "action": map[string]any{"http": map[string]any{"url": s.Participant + path}},
			"compensation": map[string]any{"http": map[string]any{"url": s.Participant + "/ok/undo"}},
		}
	}
	for name, last := range map[string]string{"order": "/409/charge", "refund": "/ok/charge"} {
		def := map[string]any{"name": name, "steps": []any{step("reserve", "/ok/reserve"), step("charge", last)}}
		if status, doc := s.Call(t, "POST", "/workflows", def); status != 201 {
			t.Fatalf("%d %v", status, doc)
		}
	}
	get("/ui/workflows/order?tab=performance", 200, "No saga was created in this period")
	var failed string
	for _, name := range []string{"order", "order", "refund"} {
		status, doc := s.Call(t, "POST", "/sagas?wait=30s", map[string]any{"workflow_name": name})
		if status != 201 && status != 200 {
			t.Fatalf("%d %v", status, doc)
		}
		if name == "order" {
			failed = doc["saga_id"].(string)
		}
	}

	get("/ui/statistics", 200, "This covers all 3 sagas", "compensated 2", "completed 1", "/ui/sagas?created_from=",
		"<svg")
	get("/ui/statistics?window=1h", 200, "Sagas by minute", "This covers all 3 sagas")
	get("/ui/statistics?window=30d", 200, "Sagas by day")
	over := get("/ui/workflows/order?tab=over-time", 200, "This covers all 2 sagas", "workflow_name=order", "95 % within")
	if strings.Contains(over, "completed 1") {
		t.Error("the series of a workflow counts sagas of another")
	}
	// A bar links to exactly its sagas.
	_, link, _ := strings.Cut(over, `<a href="/ui/sagas?created_from=`)
	link, _, _ = strings.Cut(link, `"`)
	list := get("/ui/sagas?created_from="+strings.ReplaceAll(link, "&amp;", "&"), 200, failed)
	if strings.Contains(list, ">refund<") {
		t.Error("the list of a bar has sagas of another workflow")
	}

	perf := get("/ui/workflows/order?tab=performance", 200, "This covers the", "undo of", "reserve", "http_409", "100.0 %",
		"median ", "/ui/sagas/"+failed, "status=FAILED")
	// An error code links to the sagas that failed with it.
	_, link, _ = strings.Cut(perf, `<a href="/ui/sagas?created_from=`)
	link, _, _ = strings.Cut(link, `">sagas that failed`)
	if !strings.Contains(link, "error_code=http_409") {
		t.Errorf("the list of what failed is %q", link)
	}
	get("/ui/sagas?created_from="+strings.ReplaceAll(link, "&amp;", "&"), 200, failed)
	other := strings.ReplaceAll(strings.ReplaceAll(link, "&amp;", "&"), "http_409", "http_503")
	if strings.Contains(get("/ui/sagas?created_from="+other, 200), failed) {
		t.Error("the list has sagas that failed otherwise")
	}
	if !strings.Contains(perf, "one attempt took") {
		t.Error("what is measured is not said")
	}
	get("/ui/workflows/order?tab=performance&measure=step&versions=this&window=1h", 200, "including the waits in between", "All versions combined")
	get("/ui/workflows/refund?tab=performance", 200, "No attempts failed")
	earlier := url.QueryEscape(time.Now().Add(-3 * time.Hour).UTC().Format(time.RFC3339))
	get("/ui/workflows/order?tab=over-time&until="+earlier, 200, "No saga of order was created in this period", "up to now")
	get("/ui/statistics?window=1h&until="+url.QueryEscape(time.Now().AddDate(0, 0, -9).UTC().Format(time.RFC3339)), 400, "3 days")
	for _, wrong := range []string{"window=2h", "window=" + url.QueryEscape(hostile), "until=yesterday"} {
		get("/ui/statistics?"+wrong, 400)
		get("/ui/workflows/order?tab=performance&"+wrong, 400)
	}
	get("/ui/workflows", 200, `href="/ui/statistics"`)
}
