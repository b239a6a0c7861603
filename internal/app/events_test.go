package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// event contains the fields of an audit event that the test needs.
type event struct {
	ID       string
	SagaID   string `json:"saga_id"`
	Type     string `json:"event_type"`
	OldState string `json:"old_state"`
	NewState string `json:"new_state"`
}

// stream reads n events of a live stream, from the beginning.
func stream(t *testing.T, url string, n int) []event {
	t.Helper()
	res, err := http.Get(url + "/api/v1/saga-events/stream?from_start=true")
	if err != nil {
		t.Error(err)
		return nil
	}
	defer res.Body.Close()
	var out []event
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 1<<20)
	for len(out) < n && in.Scan() {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			var e event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Error(err)
			}
			out = append(out, e)
		}
	}
	return out
}

// feed reads the whole feed, page by page.
func feed(t *testing.T, url string) []event {
	t.Helper()
	var out []event
	for cursor := ""; ; {
		_, doc := call(t, "GET", url+"/api/v1/saga-events?page_size=50"+cursor, "")
		text, _ := json.Marshal(doc["events"])
		var page []event
		if err := json.Unmarshal(text, &page); err != nil {
			t.Fatal(err)
		}
		out = append(out, page...)
		p := doc["pagination"].(map[string]any)
		if p["has_next"] != true {
			return out
		}
		cursor = "&cursor=" + p["next_cursor"].(string)
	}
}

// Two nodes on one database drive sagas to every kind of end while both are streamed from. The
// events must suffice to derive each saga's state.
func TestTheAuditTrailShowsEveryState(t *testing.T) {
	t.Parallel()
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/two" && strings.Contains(string(body), `"refuse":true`):
			w.WriteHeader(http.StatusConflict)
		case r.URL.Path == "/one/undo" && strings.Contains(string(body), `"dirty":true`):
			w.WriteHeader(http.StatusUnprocessableEntity)
		default:
			io.WriteString(w, `{"ok":true}`)
		}
	}))
	defer participant.Close()
	dsn := testdb.DSN(t)
	a, b := start(t, dsn, "a"), start(t, dsn, "b")
	call(t, "POST", a.url+"/api/v1/workflows", strings.ReplaceAll(twoSteps, "URL", participant.URL))
	payloads := []string{`{}`, `{"refuse":true}`, `{"refuse":true,"dirty":true}`, `{"cancel":true}`}
	var mu sync.Mutex
	states := map[string]string{} // by saga, from the API at the end
	var clients sync.WaitGroup
	for i := range 16 {
		node := []*node{a, b}[i%2]
		clients.Go(func() {
			for range 3 {
				payload := payloads[i%len(payloads)]
				status, doc := call(t, "POST", node.url+"/api/v1/sagas", `{"workflow_name":"pair","payload":`+payload+`}`)
				if status != 201 {
					t.Errorf("create: %d %v", status, doc)
					return
				}
				id := doc["saga_id"].(string)
				if strings.Contains(payload, "cancel") {
					call(t, "POST", node.url+"/api/v1/sagas/"+id+"/cancel", `{}`)
				}
				_, doc = call(t, "GET", node.url+"/api/v1/sagas/"+id+"?wait=4m", "")
				mu.Lock()
				states[id] = fmt.Sprint(doc["state"])
				mu.Unlock()
			}
		})
	}
	live := make(chan []event, 2)
	for _, n := range []*node{a, b} {
		go func() { live <- stream(t, n.url, 48*3) }() // there are always more events than this
	}
	clients.Wait()
	told := feed(t, a.url)
	patience.Until(t, "no older transaction of the test server is open", func() bool {
		told = feed(t, a.url)
		return len(ends(told)) >= len(states)
	})
	replayed := map[string]string{}
	for _, e := range told {
		if e.NewState == "" {
			continue
		}
		if replayed[e.SagaID] != e.OldState {
			t.Errorf("saga %s: %s tells of %q to %q, after %q", e.SagaID, e.Type, e.OldState, e.NewState, replayed[e.SagaID])
		}
		replayed[e.SagaID] = e.NewState
	}
	if diff := cmp.Diff(states, replayed); diff != "" {
		t.Errorf("states (-sagas +replayed):\n%s", diff)
	}
	for range 2 {
		if diff := cmp.Diff(told[:48*3], <-live); diff != "" {
			t.Errorf("(-feed +stream):\n%s", diff)
		}
	}
	verified(t, a.url, len(told))
}

// ends returns the sagas that have an event of their end.
func ends(events []event) map[string]bool {
	out := map[string]bool{}
	for _, e := range events {
		switch e.NewState {
		case "completed", "compensated", "failed", "cancelled", "timed_out":
			out[e.SagaID] = true
		}
	}
	return out
}

// verified waits until everything is sealed and checks the chain.
func verified(t *testing.T, url string, events int) {
	t.Helper()
	patience.Until(t, "all events are sealed", func() bool {
		_, doc := call(t, "GET", url+"/api/v1/audit/verify?limit=1000", "")
		if doc["ok"] != true || doc["next_seq"] != nil || doc["checked_events"] != float64(events) {
			t.Fatalf("the chain: %v; want %d events", doc, events)
		}
		return doc["unsealed_events"] == 0.0
	})
	res, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, _ := io.ReadAll(res.Body)
	for _, want := range []string{"skald_audit_events_written_total", "skald_audit_events_sealed_total", "skald_audit_feed_lag_seconds", "skald_event_streams"} {
		if !strings.Contains(string(metrics), "\n"+want+" ") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
