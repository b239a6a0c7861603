package jobapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestAManualRunHasTheRequestedArguments(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	d := e.define("job", `"default_args":{"n":1},"labels":{"a":"1"},"args_schema":{"properties":{"n":{"type":"integer","minimum":1}},"additionalProperties":false}`)
	r := e.run("job", "")
	want := r
	want.State, want.Trigger, want.JobDefinition.ID, want.Args = "PENDING", "MANUAL", d.ID, client.AnyJSON(`{"n":1}`)
	if diff := cmp.Diff(want, r); diff != "" || r.AdmittedAt == nil || r.Labels["a"] != "1" {
		t.Errorf("admitted at %v, labels %v (-want +got):\n%s", r.AdmittedAt, r.Labels, diff)
	}
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	r = e.run(d.ID.String(), `{"args":{"n":5},"scheduled_for":"`+at.Format(time.RFC3339)+`","priority":-3,"labels":{"b":"2"},"correlation_id":"c-1","reason":"why not"}`)
	want = r
	want.ScheduledFor, want.Priority, want.Args = at, -3, client.AnyJSON(`{"n":5}`)
	want.AdmittedAt, want.CorrelationID = nil, new("c-1")
	if diff := cmp.Diff(want, r); diff != "" || r.Labels["b"] != "2" {
		t.Errorf("labels %v (-want +got):\n%s", r.Labels, diff)
	}
	if r := e.run("job", "", "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"); r.TraceID == nil || *r.TraceID != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("the run's trace is %v", r.TraceID)
	}
	r = e.run("job", "", "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate", "congo=t61", "baggage", "a=1")
	if n := e.ask(`SELECT count(*) FROM jobs.job_runs WHERE id = '` + r.ID.String() + `' AND tracestate = 'congo=t61' AND baggage = 'a=1'`); n != 1 {
		t.Error("the run has not what its client's trace carries")
	}
	if r := e.run("job", "", "traceparent", "nonsense"); r.TraceID != nil {
		t.Errorf("of nonsense the run has the trace %s", *r.TraceID)
	}
	p := e.Send("POST", definitions+"/job/runs", `{"args":{"n":0,"x":1}}`).Wants(http.StatusUnprocessableEntity,
		"JOB_INVALID")
	if len(p.Errors) != 2 || p.Errors[0].Pointer != "/args" && p.Errors[1].Pointer != "/args/n" {
		t.Errorf("errors %+v", p.Errors)
	}
	e.Send("POST", definitions+"/job/runs", `{"labels":{"a b":""}}`).Wants(http.StatusUnprocessableEntity, "JOB_INVALID")
	e.Send("POST", definitions+"/nobody/runs", "").Wants(http.StatusNotFound, "JOB_DEFINITION_NOT_FOUND")
	e.Send("GET", jobRuns+"/"+d.ID.String(), "").Wants(http.StatusNotFound, "JOB_RUN_NOT_FOUND")
	if n := e.ask(`SELECT count(*) FROM saga.audit_actions WHERE kind = 'job_run' AND verb = 'run'`); n != 5 {
		t.Errorf("%d actions on record, want 5", n)
	}
}

func TestAnIdempotencyKeyIdentifiesOneRun(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("job", "")
	e.define("other", "")
	key := []string{"Idempotency-Key", strings.Repeat("k", 255)}
	first := e.run("job", `{"args":{"a": 1.0}}`, key...)
	again := e.Send("POST", definitions+"/job/runs", `{"args":{"a": 1.0}}`, key...)
	if again.Run(http.StatusOK).ID != first.ID || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("again: %s", again.Body)
	}
	e.Send("POST", definitions+"/job/runs", `{"args":{"a": 2}}`, key...).Wants(http.StatusUnprocessableEntity,
		"REQ_IDEMPOTENCY_KEY_REUSED")
	e.Send("POST", definitions+"/other/runs", `{"args":{"a": 1.0}}`, key...).Wants(http.StatusUnprocessableEntity,
		"REQ_IDEMPOTENCY_KEY_REUSED")
	if n := e.ask(`SELECT count(*) FROM jobs.job_runs`); n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
}

func TestForbidRefusesASecondRunByHand(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("job", `"concurrency_policy":"forbid"`)
	first := e.run("job", "")
	p := e.Send("POST", definitions+"/job/runs", "").Wants(http.StatusConflict, "JOB_CONCURRENCY_FORBID")
	if !strings.Contains(p.Detail, first.ID.String()) {
		t.Errorf("%q does not name run %s", p.Detail, first.ID)
	}
	if r := e.run("job", `{"respect_concurrency":false}`); r.ConcurrencyKey != nil || r.AdmittedAt == nil {
		t.Errorf("beside it: %+v", r)
	}
	e.Send("POST", jobRuns+"/"+first.ID.String()+"/cancel", "").Run(http.StatusOK)
	e.run("job", "")
}

func TestACancelEndsUnstartedRunsAndRequestsTheRest(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("job", "")
	pending := e.run("job", "")
	path := jobRuns + "/" + pending.ID.String()
	canceled := e.Send("POST", path+"/cancel", `{"reason":"not needed"}`).Run(http.StatusOK)
	if canceled.State != "CANCELED" || canceled.FinishedAt == nil || len(canceled.AllowedActions) != 1 ||
		canceled.AllowedActions[0] != "rerun" {
		t.Errorf("%+v", canceled)
	}
	p := e.Send("POST", path+"/cancel", "").Wants(http.StatusConflict, "JOB_STATE_CONFLICT")
	if len(p.AllowedActions) != 1 || p.AllowedActions[0] != "rerun" {
		t.Errorf("allowed %v", p.AllowedActions)
	}
	running := e.run("job", "")
	_, offers := e.claim(1, true)
	path = jobRuns + "/" + running.ID.String()
	if asked := e.Send("POST", path+"/cancel", `{"reason":"stop"}`).Run(http.StatusAccepted); asked.State != "RUNNING" ||
		asked.CancelRequestedAt == nil || *asked.CancelReason != "stop" {
		t.Errorf("asked: %+v", asked)
	}
	e.Send("POST", path+"/cancel", "").Run(http.StatusAccepted)
	for _, body := range []string{`{"force":true}`, `{"force":true,"reason":" "}`} {
		apitest.WantsReason(t, e.Send("POST", path+"/cancel", body))
		apitest.WantsReason(t, e.Send("POST", path+"/reassign", body))
	}
	if forced := e.Send("POST", path+"/cancel", `{"force":true,"reason":"now"}`).Run(http.StatusOK); forced.State != "CANCELED" {
		t.Errorf("forced: %+v", forced)
	}
	done,
		err := e.work.Finish(t.Context(),
		[]jobrun.Result{{TenantID: apitest.Tenant.ID, RunID: offers[0].ID, Fence: offers[0].Fence()}})
	if err != nil || done[0].Err == nil {
		t.Errorf("the result of a canceled run is taken: %v %v", done, err)
	}
	if n := e.ask(`SELECT count(*) FROM saga.audit_actions WHERE verb = 'cancel'`); n != 3 {
		t.Errorf("%d actions on record, want 3: a repetition is none", n)
	}
}

func TestAReassignedRunIsUnownedAndClaimedAgain(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("job", "")
	r := e.run("job", "")
	path := jobRuns + "/" + r.ID.String()
	e.Send("POST", path+"/reassign", "").Wants(http.StatusConflict, "JOB_STATE_CONFLICT")
	_, first := e.claim(1, false)
	if back := e.Send("POST", path+"/reassign", `{"reason":"slow"}`).Run(http.StatusOK); back.State != "ORPHANED" ||
		back.AdmittedAt == nil || back.LossesUsed != 0 {
		t.Errorf("taken away: %+v", back)
	}
	_, second := e.claim(1, true)
	if second[0].ID != r.ID || second[0].Attempt != first[0].Attempt+1 {
		t.Fatalf("claimed anew: %+v", second)
	}
	e.Send("POST", path+"/reassign", "").Wants(http.StatusConflict, "JOB_STATE_CONFLICT")
	e.Send("POST", path+"/reassign", `{"force":true,"reason":"it hangs"}`).Run(http.StatusOK)
	_, third := e.claim(1, true)
	e.finish(&third[0], nil)
	var list client.JobAttemptList
	e.Send("GET", path+"/attempts", "").Into(&list)
	var got []string
	for _, a := range list.Attempts {
		got = append(got, *a.Outcome)
	}
	if strings.Join(got, " ") != "REASSIGNED REASSIGNED SUCCEEDED" || list.Attempts[0].EndedAt == nil || *list.Attempts[0].Reason != "slow" {
		t.Errorf("attempts %v", got)
	}
	var story client.JobEventList
	e.Send("GET", path+"/events", "").Into(&story)
	got = nil
	for _, ev := range story.Events {
		got = append(got, string(ev.Kind))
	}
	if want := "created assigned reassigned assigned started reassigned assigned started succeeded"; strings.Join(got, " ") != want {
		t.Errorf("the story is %v, want %s", got, want)
	}
}

func TestARerunIsANewRunLinkedToTheOld(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("job", `"args_schema":{"type":"object"}`)
	r := e.run("job", `{"args":{"a":1},"labels":{"x":"y"}}`)
	path := jobRuns + "/" + r.ID.String()
	e.Send("POST", path+"/rerun", "").Wants(http.StatusConflict, "JOB_STATE_CONFLICT")
	_, offers := e.claim(1, true)
	e.finish(&offers[0], &jobrun.Error{Code: "BOOM", Message: "no luck", Stack: "line 1"})
	failed := e.Send("GET", path+"?wait=1s", "").Run(http.StatusOK)
	if failed.State != "FAILED" || failed.Error.Code != "BOOM" || *failed.ErrorSummary != "BOOM: no luck" ||
		failed.FailuresUsed != 1 {
		t.Errorf("failed: %+v", failed)
	}
	again := e.Send("POST", path+"/rerun", "", "Idempotency-Key", "k").Run(http.StatusCreated)
	want := again
	want.RetryOfRunID, want.RootRunID, want.Args, want.FailuresUsed = &r.ID, r.ID, client.AnyJSON(`{"a":1}`), 0
	if diff := cmp.Diff(want, again); diff != "" || again.Labels["x"] != "y" {
		t.Errorf("once more, with the labels %v (-want +got):\n%s", again.Labels, diff)
	}
	if replay := e.Send("POST", path+"/rerun", "", "Idempotency-Key", "k").Run(http.StatusOK); replay.ID != again.ID {
		t.Errorf("replayed as %s", replay.ID)
	}
	if other := e.Send("POST", path+"/rerun", `{"args":{"a":2}}`).Run(http.StatusCreated); string(
		other.Args) != `{"a":2}` {
		t.Errorf("with other arguments: %+v", other)
	}
	e.Send("POST", path+"/rerun", `{"args":7}`).Wants(http.StatusUnprocessableEntity, "JOB_INVALID")
}

func TestAClientCanWaitForARun(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("job", "")
	r := e.run("job", "")
	_, offers := e.claim(1, true)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.finish(&offers[0], nil)
	}()
	got := e.Send("GET", jobRuns+"/"+r.ID.String(), "", "Prefer", "wait=30")
	<-ended
	if got.Run(200).State != "SUCCEEDED" || got.Header.Get("Preference-Applied") != "wait=30" {
		t.Errorf("awaited: %s", got.Body)
	}
}

func TestTheRequestForARunCanWaitForItsEnd(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("job", "")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, offers := e.claim(1, true); len(offers) > 0 {
				e.finish(&offers[0], nil)
				return
			}
		}
	}()
	got := e.Send("POST", definitions+"/job/runs", "", "Prefer", "wait=30")
	<-ended
	if got.Run(201).State != "SUCCEEDED" || got.Header.Get("Preference-Applied") != "wait=30" {
		t.Errorf("awaited: %s", got.Body)
	}
}

func TestADefinitionIsDeletedWithoutActiveRuns(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.define("job", "")
	running := e.run("job", "")
	e.claim(1, true)
	waiting := e.run("job", "")
	e.Send("DELETE", definitions+"/job", "").Wants(http.StatusConflict, "JOB_ACTIVE_RUNS")
	for _, query := range []string{"", "&reason=", "&reason=%20"} {
		if p := e.Send("DELETE", definitions+"/job?force=true"+query, "").Wants(422, "REQ_SCHEMA"); len(p.Errors) != 1 ||
			p.Errors[0].Parameter != "reason" {
			t.Errorf("force with %q: %+v", query, p.Errors)
		}
	}
	e.Send("DELETE", definitions+"/job?force=true&reason=old", "", "If-Match", `"7"`).Wants(http.StatusPreconditionFailed,
		"JOB_VERSION_CONFLICT")
	d := e.Send("DELETE", definitions+"/job?force=true&reason=old", "", "If-Match", `"1"`).Definition(200)
	if d.DeletedAt == nil || d.Version != 2 {
		t.Errorf("deleted: %+v", d)
	}
	if r := e.Send("GET", jobRuns+"/"+waiting.ID.String(), "").Run(200); r.State != "CANCELED" {
		t.Errorf("what waited is %s", r.State)
	}
	if r := e.Send("GET", jobRuns+"/"+running.ID.String(), "").Run(200); r.State != "RUNNING" ||
		r.CancelRequestedAt == nil {
		t.Errorf("what ran is %s, asked at %v", r.State, r.CancelRequestedAt)
	}
	e.Send("GET", definitions+"/job", "").Wants(http.StatusNotFound, "JOB_DEFINITION_NOT_FOUND")
	if gone := e.Send("GET", definitions+"/"+d.ID.String(), "").Definition(200); gone.DeletedAt == nil {
		t.Errorf("by its id: %+v", gone)
	}
	e.Send("POST", definitions+"/"+d.ID.String()+"/runs", "").Wants(http.StatusNotFound, "JOB_DEFINITION_NOT_FOUND")
	e.define("job", "") // the name can be used again
}
