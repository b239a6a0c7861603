package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/access"
)

// TestWhatAWorkersCredentialOpens names every operation that a credential of the
// role worker may call: another one is a decision, and not an accident.
func TestWhatAWorkersCredentialOpens(t *testing.T) {
	t.Parallel()
	var open []string
	for _, op := range operations(t, strings.NewReplacer()) {
		if op.permission == "anybody" || access.Worker.Allows(access.Permission(op.permission)) {
			open = append(open, op.method+" "+strings.TrimPrefix(op.path, "/api/v1"))
		}
	}
	want := []string{
		"POST /fences/{fence_key}/check",
		"POST /job-runs/{run_id}/cancel-ack", "POST /job-runs/{run_id}/complete", "POST /job-runs/{run_id}/confirm-continuation",
		"POST /job-runs/{run_id}/fail", "POST /job-runs/{run_id}/logs", "POST /job-runs/{run_id}/progress", "POST /job-runs/{run_id}/release",
		"POST /job-runs/{run_id}/start",
		"GET /whoami",
		"POST /workers/{worker_id}/claim", "POST /workers/{worker_id}/complete", "POST /workers/{worker_id}/drain",
		"POST /workers/{worker_id}/heartbeat", "POST /workers/{worker_id}/start",
		"POST /workers",
	}
	if diff := cmp.Diff(want, open); diff != "" {
		t.Errorf("operations of a worker (-want +got):\n%s", diff)
	}
}

func TestAWorkersCredentialDoesARunFromBeginningToEnd(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, guarded)
	id := s.run(s.job)
	w := s.worker("", as("worker")...)
	runs := s.claim(w, `{"slots":1}`, as("worker")...)
	if len(runs) != 1 || string(runs[0].Args) != `{"n": 1}` {
		t.Fatalf("claimed %+v", runs)
	}
	c := runs[0]
	for _, step := range []struct{ call, more string }{
		{"start", ""}, {"progress", `,"percent":1`}, {"confirm-continuation", ""}, {"logs", `,"seq":0,"chunk":"x"`},
	} {
		if r := s.call(w, c, step.call, step.more, as("worker")...); r.status != 200 {
			t.Fatalf("%s: %d %s", step.call, r.status, r.body)
		}
	}
	beat := s.send("POST", workerPath(w, "heartbeat"), `{"seq":1,"running":[`+item(c, "")+`]}`, as("worker")...)
	var h client.Heartbeat
	if beat.into(&h); beat.status != 200 || len(h.Leases) != 1 || !h.Leases[0].Ok {
		t.Fatalf("heartbeat: %d %s", beat.status, beat.body)
	}
	// What a run leaves behind is published by whoever may publish.
	emit := `,"emit":[{"event":{"event_type":"a"}}]`
	if p := s.call(w, c, "complete", emit, as("worker")...).wants(http.StatusForbidden, access.CodeForbidden); !strings.Contains(p.Detail, "jobs:write") {
		t.Errorf("the refusal of emit: %+v", p)
	}
	other := s.run(s.job)
	d := s.claim(w, `{"slots":1,"start":true}`, as("worker")...)[0]
	batch := s.send("POST", workerPath(w, "complete"), `{"runs":[`+item(c, emit)+","+item(d, "")+`]}`, as("worker")...)
	var results client.RunResults
	if batch.into(&results); batch.status != 200 || len(results.Results) != 2 || results.Results[0].Status != 403 || results.Results[1].Status != 200 {
		t.Fatalf("a batch of one that emits and one that does not: %d %s", batch.status, batch.body)
	}
	if s.state(id) != "RUNNING" || s.state(other) != "SUCCEEDED" {
		t.Errorf("the runs are %s and %s", s.state(id), s.state(other))
	}
	s.send("POST", runPath(id, "complete"), fence(w, c, `,"result":{"a":1}`), as("worker")...).ended("SUCCEEDED", false)
	if r := s.send("POST", "/api/v1/fences/k/check", `{"fencing_token":"`+c.FencingToken+`"}`, as("worker")...); r.status != 200 {
		t.Errorf("check a fence: %d %s", r.status, r.body)
	}
	for path, body := range map[string]string{"/events": `{"event_type":"a"}`, "/job-runs/" + id.String() + "/cancel": "", "/sagas": "{}", "/workflows": "{}"} {
		s.send("POST", "/api/v1"+path, body, as("worker")...).wants(http.StatusForbidden, access.CodeForbidden)
	}
	for _, path := range []string{"/job-runs", "/job-runs/" + id.String(), "/job-runs/" + id.String() + "/logs", "/workers", "/sagas", "/events"} {
		s.send("GET", "/api/v1"+path, "", as("worker")...).wants(http.StatusForbidden, access.CodeForbidden)
	}
}

func TestAWorkersCredentialDrainsOnlyWhatItHasRegistered(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, guarded)
	own, others := s.worker("", as("worker")...), s.worker("", as("operator")...)
	if p := s.send("POST", workerPath(others, "drain"), "", as("worker")...).wants(http.StatusForbidden, access.CodeForbidden); !strings.Contains(p.Detail, "jobs:write") {
		t.Errorf("the refusal: %+v", p)
	}
	for _, who := range []string{"worker", "operator"} {
		r := s.send("POST", workerPath(own, "drain"), "", as(who)...)
		var w client.Worker
		if r.into(&w); r.status != 200 || w.State != "DRAINING" {
			t.Errorf("%s drains it: %d %s", who, r.status, r.body)
		}
	}
	s.send("POST", workerPath(own, "undrain"), "", as("worker")...).wants(http.StatusForbidden, access.CodeForbidden)
}
