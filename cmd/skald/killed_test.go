package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// A client waits at one node for a saga of another node, which is killed. Its own node then takes
// the saga over.
func TestAClientWaitsForASagaWhoseNodeIsKilled(t *testing.T) {
	t.Parallel()
	called, release := make(chan struct{}, 10), make(chan struct{})
	participant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done(): // its caller was killed
		}
		io.WriteString(w, `{}`)
	}))
	t.Cleanup(participant.Close)
	dsn := testdb.DSN(t)
	env := []string{"SKALD_LEASE_TTL=2s", "SKALD_SERVER_MAX_WAIT=10m", "SKALD_SERVER_WRITE_TIMEOUT=20m"}
	driving, url, _ := launch(t, dsn, env)
	t.Cleanup(func() {
		_ = driving.Process.Kill() // unless the test got this far
		_ = driving.Wait()
	})
	ready(t, url)
	other, _ := serve(t, dsn, env)
	must(t, "POST", url+"/api/v1/workflows", `{"name":"w","steps":[{"name":"one","action":{"http":{"url":"`+
		participant.URL+`"}},"compensation":"none"}]}`)
	id := must(t, "POST", url+"/api/v1/sagas", `{"workflow_name":"w"}`)["saga_id"].(string)
	<-called
	answer := make(chan string, 1)
	go func() {
		res, err := http.Get(other + "/api/v1/sagas/" + id + "?wait=10m") // at its end, the test has failed
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		doc, _ := io.ReadAll(res.Body)
		answer <- string(doc)
	}()
	// Only the metric shows it from outside.
	patience.Until(t, "the request waits", func() bool {
		return strings.Contains(metricsOf(t, other), "\nskald_waiting_requests 1\n")
	})
	if err := driving.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-called // by the other node
	close(release)
	got := patience.Receive(t, "the client is answered", answer)
	if !strings.Contains(got, `"status":"COMPLETED"`) || !strings.Contains(got, `"step_name":"one"`) {
		t.Errorf("the client that waits got %s", got)
	}
}

func metricsOf(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
