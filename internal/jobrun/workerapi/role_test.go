package workerapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// TestWhatAWorkersCredentialOpens lists every operation that a credential of the role worker may
// call. Adding another operation must be a decision and not an accident.
func TestWhatAWorkersCredentialOpens(t *testing.T) {
	t.Parallel()
	var open []string
	for _, op := range apitest.Operations(t, strings.NewReplacer()) {
		if op.Permission == "anybody" || principal.Worker.Allows(principal.Permission(op.Permission)) {
			open = append(open, op.Method+" "+strings.TrimPrefix(op.Path, "/api/v1"))
		}
	}
	want := []string{
		"POST /fences/{fence_key}/check",
		"POST /job-runs/{run_id}/cancel-ack", "POST /job-runs/{run_id}/complete", "POST /job-runs/{run_id}/confirm-continuation",
		"POST /job-runs/{run_id}/fail", "POST /job-runs/{run_id}/logs", "POST /job-runs/{run_id}/progress", "POST /job-runs/{run_id}/release",
		"POST /job-runs/{run_id}/start",
		"GET /sessions/current", "DELETE /sessions/{session_id}", "GET /sessions", "POST /sessions", // its own
		"GET /whoami",
		"POST /workers/{worker_id}/claim", "POST /workers/{worker_id}/complete", "POST /workers/{worker_id}/drain",
		"POST /workers/{worker_id}/exchange", "POST /workers/{worker_id}/heartbeat", "POST /workers/{worker_id}/start",
		"POST /workers",
	}
	if diff := cmp.Diff(want, open); diff != "" {
		t.Errorf("operations of a worker (-want +got):\n%s", diff)
	}
}

func TestAWorkersCredentialDoesARunFromBeginningToEnd(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, apitest.Guarded)
	id := s.run(s.job)
	w := s.worker("", apitest.As("worker")...)
	runs := s.claim(w, `{"slots":1}`, apitest.As("worker")...)
	if len(runs) != 1 || string(runs[0].Args) != `{"n":1}` {
		t.Fatalf("claimed %+v", runs)
	}
	c := runs[0]
	for _, step := range []struct{ call, more string }{
		{"start", ""}, {"progress", `,"percent":1`}, {"confirm-continuation", ""}, {"logs", `,"seq":0,"chunk":"x"`},
	} {
		if r := s.call(w, c, step.call, step.more, apitest.As("worker")...); r.Status != 200 {
			t.Fatalf("%s: %d %s", step.call, r.Status, r.Body)
		}
	}
	beat := s.Send("POST", workerPath(w, "heartbeat"), `{"seq":1,"running":[`+item(c, "")+`]}`, apitest.As("worker")...)
	var h client.Heartbeat
	if beat.Into(&h); beat.Status != 200 || len(h.Leases) != 1 || !h.Leases[0].Ok {
		t.Fatalf("heartbeat: %d %s", beat.Status, beat.Body)
	}
	// Emissions of a run require the permission to publish.
	emit := `,"emit":[{"event":{"event_type":"a"}}]`
	if p := s.call(w, c, "complete", emit, apitest.As("worker")...).Wants(http.StatusForbidden,
		principal.CodeForbidden); !strings.Contains(p.Detail, "jobs:write") {
		t.Errorf("the refusal of emit: %+v", p)
	}
	other := s.run(s.job)
	d := s.claim(w, `{"slots":1,"start":true}`, apitest.As("worker")...)[0]
	batch := s.Send("POST", workerPath(w, "complete"), `{"runs":[`+item(c, emit)+","+item(d, "")+`]}`,
		apitest.As("worker")...)
	var results client.RunResults
	if batch.Into(&results); batch.Status != 200 || len(results.Results) != 2 || results.Results[0].Status != 403 ||
		results.Results[1].Status != 200 {
		t.Fatalf("a batch of one that emits and one that does not: %d %s", batch.Status, batch.Body)
	}
	if s.state(id) != "RUNNING" || s.state(other) != "SUCCEEDED" {
		t.Errorf("the runs are %s and %s", s.state(id), s.state(other))
	}
	s.Send("POST", runPath(id, "complete"), fence(w, c, `,"result":{"a":1}`), apitest.As("worker")...).Ended("SUCCEEDED",
		false)
	if r := s.Send("POST", "/api/v1/fences/k/check", `{"run_id":"`+id.String()+`","fencing_token":"`+c.FencingToken+`"}`,
		apitest.As("worker")...); r.Status != 200 {
		t.Errorf("check a fence: %d %s", r.Status, r.Body)
	}
	for path, body := range map[string]string{"/events": `{"event_type":"a"}`, "/job-runs/" + id.String() + "/cancel": "",
		"/sagas": "{}", "/workflows": "{}"} {
		s.Send("POST", "/api/v1"+path, body, apitest.As("worker")...).Wants(http.StatusForbidden, principal.CodeForbidden)
	}
	for _, path := range []string{"/job-runs", "/job-runs/" + id.String(), "/job-runs/" + id.String() + "/logs",
		"/workers", "/sagas", "/events"} {
		s.Send("GET", "/api/v1"+path, "", apitest.As("worker")...).Wants(http.StatusForbidden, principal.CodeForbidden)
	}
}

func TestAWorkersCredentialDrainsOnlyWhatItHasRegistered(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, apitest.Guarded)
	own, others := s.worker("", apitest.As("worker")...), s.worker("", apitest.As("operator")...)
	if p := s.Send("POST", workerPath(others, "drain"), "", apitest.As("worker")...).Wants(http.StatusForbidden,
		principal.CodeForbidden); !strings.Contains(p.Detail, "jobs:write") {
		t.Errorf("the refusal: %+v", p)
	}
	for _, who := range []string{"worker", "operator"} {
		r := s.Send("POST", workerPath(own, "drain"), "", apitest.As(who)...)
		var w client.Worker
		if r.Into(&w); r.Status != 200 || w.State != "DRAINING" {
			t.Errorf("%s drains it: %d %s", who, r.Status, r.Body)
		}
	}
	s.Send("POST", workerPath(own, "undrain"), "", apitest.As("worker")...).Wants(http.StatusForbidden,
		principal.CodeForbidden)
}
