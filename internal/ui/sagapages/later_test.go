package sagapages_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// TestAStepThatWaitsForAReportSaysSinceAndUntilWhen covers forward execution and compensation, with
// the last heartbeat.
func TestAStepThatWaitsForAReportSaysSinceAndUntilWhen(t *testing.T) {
	t.Parallel()
	s := uitest.Start(t)
	callbacks := make(chan string, 10)
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		callbacks <- r.Header.Get("X-Saga-Callback")
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(participant.Close)
	later := map[string]any{"later": "status == 202", "later_ms": 3_600_000}
	s.Must(t, "POST", "/workflows", map[string]any{"name": "visa", "steps": []map[string]any{
		{"name": "apply", "action": map[string]any{"http": map[string]any{"url": participant.URL}}, "answer": later,
			"compensation": map[string]any{"http": map[string]any{"url": participant.URL}, "answer": later}},
	}})
	saga := s.Must(t, "POST", "/sagas", map[string]any{"workflow_name": "visa"})["saga_id"].(string)
	says := func(texts ...string) {
		t.Helper()
		_, page := s.Get(t, "/ui/sagas/"+saga)
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("without %q:\n%s", text, page)
			}
		}
	}
	waits := func() {
		t.Helper()
		patience.Until(t, "it waits for a report", func() bool {
			return s.Must(t, "GET", "/sagas/"+saga+"/explain", nil)["waits_for"] == "report"
		})
	}
	waits()
	says("waits for a report", ">called <time", ", the wait ends <time", "no heartbeat yet")

	to, err := url.Parse(patience.Receive(t, "the call", callbacks))
	if err != nil {
		t.Fatal(err)
	}
	s.Must(t, "POST", strings.TrimPrefix(to.Path, "/api/v1"), map[string]any{"result": "heartbeat",
		"progress": map[string]any{"percent": 40, "message": "at the <consulate>"}})
	says("last heartbeat <time", ", 40 %</span>", "40 %: at the &lt;consulate&gt;.")

	s.Must(t, "POST", "/sagas/"+saga+"/cancel", nil)
	patience.Receive(t, "the compensation", callbacks)
	waits()
	says("undo waits for a report", ">called <time", ", the wait ends <time", "no heartbeat yet")
}
