package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// A participant accepts the work and answers 202. The server is killed and restarted; then the
// participant reports the outcome twice, and once more long after its wait has ended.
func TestAReportOutlivesTheServer(t *testing.T) {
	t.Parallel()
	callbacks := make(chan string, 10)
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		callbacks <- r.Header.Get("X-Saga-Callback")
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(participant.Close)
	dsn := testdb.DSN(t)
	killed, url, _ := launch(t, dsn, nil)
	t.Cleanup(func() {
		_ = killed.Process.Kill() // unless the test got so far
		_ = killed.Wait()
	})
	ready(t, url)
	must(t, "POST", url+"/api/v1/workflows", `{"name":"w","steps":[{"name":"charge","action":{"http":{"url":"`+
		participant.URL+`"}},"answer":{"later":"status == 202","output":"${body.id}"},"compensation":"none"}]}`)
	id := must(t, "POST", url+"/api/v1/sagas", `{"workflow_name":"w"}`)["saga_id"].(string)
	ended := must(t, "POST", url+"/api/v1/sagas", `{"workflow_name":"w"}`)["saga_id"].(string)
	calls := map[string]string{}
	for range 2 {
		at := patience.Receive(t, "the participant is called", callbacks)
		if !strings.HasPrefix(at, url+"/api/v1/step-callbacks/") {
			t.Fatalf("the callback URL is %q", at)
		}
		token := strings.TrimPrefix(at, url)
		patience.Until(t, "the wait is stored", func() bool { return report(t, at, `{"result":"heartbeat"}`).code == 200 })
		for _, saga := range []string{id, ended} {
			if strings.Contains(waitsOf(t, url, saga), "last heartbeat") && calls[saga] == "" {
				calls[saga] = token
			}
		}
	}
	if calls[id] == "" || calls[ended] == "" || calls[id] == calls[ended] {
		t.Fatalf("the calls of the sagas are %q", calls)
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	url, _ = serve(t, dsn, nil)

	done := report(t, url+calls[id], `{"result":"done","output":{"id":"ch_7"}}`)
	if done.code != 200 || done.doc["result"] != "done" || done.doc["repeated"] != false {
		t.Fatalf("the report is answered with %d, %v", done.code, done.doc)
	}
	saga := must(t, "GET", url+"/api/v1/sagas/"+id+"?wait=1m", "")
	if saga["status"] != "COMPLETED" {
		t.Errorf("after the report the saga is %v", saga["status"])
	}
	if doc, _ := json.Marshal(saga["result"]); string(doc) != `{"charge":"ch_7"}` {
		t.Errorf("its result is %s", doc)
	}
	again := report(t, url+calls[id], `{"result":"refused"}`)
	if again.code != 200 || again.doc["result"] != "done" || again.doc["repeated"] != true {
		t.Errorf("another report is answered with %d, %v", again.code, again.doc)
	}

	// The other wait ends without a report.
	must(t, "POST", url+"/api/v1/sagas/"+ended+"/cancel", `{}`)
	if saga := must(t, "GET", url+"/api/v1/sagas/"+ended+"?wait=1m", ""); saga["status"] != "CANCELLED" {
		t.Errorf("the canceled saga is %v", saga["status"])
	}
	for range 2 {
		late := report(t, url+calls[ended], `{"result":"done"}`)
		if late.code != 409 || late.doc["code"] != "SAGA_CALLBACK_LATE" {
			t.Errorf("a late report is answered with %d, %v", late.code, late.doc)
		}
	}
	events, _ := json.Marshal(must(t, "GET", url+"/api/v1/sagas/"+ended+"/events", ""))
	if n := strings.Count(string(events), "callback.orphaned"); n != 1 {
		t.Errorf("%d events of late reports, want 1: %s", n, events)
	}
	if forged := report(t, url+calls[id][:len(calls[id])-2]+"AA", `{"result":"done"}`); forged.code != 404 {
		t.Errorf("a forged token is answered with %d, %v", forged.code, forged.doc)
	}
}

// waitsOf returns what a saga is waiting for.
func waitsOf(t *testing.T, url, id string) string {
	t.Helper()
	summary, _ := must(t, "GET", url+"/api/v1/sagas/"+id+"/explain", "")["summary"].(string)
	return summary
}

type reportAnswer struct {
	code int
	doc  map[string]any
}

// report sends a report as a participant does, without a credential.
func report(t *testing.T, url, body string) (a reportAnswer) {
	t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	a.code = res.StatusCode
	if err := json.Unmarshal(text, &a.doc); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return a
}
