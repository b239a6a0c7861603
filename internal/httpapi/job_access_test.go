package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/jobrun"
)

func TestTheStoreInMemoryHasNoJobRuns(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	n := 0
	for _, op := range operations(t, strings.NewReplacer("{run_id}", uuid.NewString(), "{definition}", "x", "{backfill_id}", uuid.NewString(), "{bulk_id}", uuid.NewString())) {
		if !strings.HasPrefix(op.path, "/api/v1/job") && !strings.HasPrefix(op.path, "/api/v1/backfills") && !strings.HasPrefix(op.path, "/api/v1/schedules") {
			continue
		}
		if p := e.send(op.method, op.path, "").wants(http.StatusServiceUnavailable, "JOB_UNAVAILABLE"); !strings.Contains(p.Detail, "PostgreSQL") {
			t.Errorf("%s %s: %+v", op.method, op.path, p)
		}
		n++
	}
	if n < 20 {
		t.Errorf("only %d operations", n)
	}
}

func TestWhoLacksPayloadsReadSeesThatARunIsAndNotWhatIsInIt(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t, guarded)
	d := `{"name":"job","type":"manual","command_name":"report","default_args":{"a":"canary"},"args_schema":{"type":"object"},"labels":{"l":"shown"}}`
	e.send("POST", definitions, d, as("admin")...).definition(201)
	r := e.send("POST", definitions+"/job/runs", `{"args":{"b":"canary"}}`, as("operator")...).run(201)
	_, offers := e.claim(1, true)
	e.finish(&offers[0], &jobrun.Error{Code: "X", Message: "shown", Stack: "at canary"})
	path := jobRuns + "/" + r.ID.String()
	for _, path := range []string{path, jobRuns + "?view=full", definitions + "/job", definitions, definitions + "/job/versions", path + "/explain", path + "/events", path + "/attempts"} {
		open, covered := e.send("GET", path, "", as("operator")...), e.send("GET", path, "", as("auditor")...)
		if open.status != 200 || covered.status != 200 {
			t.Fatalf("%s: %d and %d %s", path, open.status, covered.status, covered.body)
		}
		if strings.Contains(string(covered.body), "canary") || strings.Contains(string(open.body), "***") {
			t.Errorf("%s shows an auditor %s and an operator %s", path, covered.body, open.body)
		}
	}
	got := e.send("GET", path, "", as("auditor")...).run(200)
	if string(got.Args) != `"***"` || got.Error.Message != "shown" || *got.Error.Stack != "***" || got.Labels["l"] != "shown" {
		t.Errorf("an auditor sees %+v", got)
	}
}

func TestRolesOfJobs(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t, guarded)
	body := `{"name":"job","type":"manual","command_name":"report"}`
	e.send("POST", definitions, body, as("operator")...).wants(http.StatusForbidden, access.CodeForbidden)
	e.send("POST", definitions, body, as("admin")...).definition(201)
	e.send("POST", definitions+"/job/runs", "", as("auditor")...).wants(http.StatusForbidden, access.CodeForbidden)
	e.send("POST", definitions+"/job/pause", "", as("operator")...).definition(200)
	r := e.send("POST", definitions+"/job/runs", "", as("operator")...).run(201)
	e.send("POST", jobRuns+"/bulk", `{"action":"CANCEL","filter":{"queue":"default"}}`, as("operator")...).wants(http.StatusForbidden, access.CodeForbidden)
	e.send("POST", jobRuns+"/"+r.ID.String()+"/cancel", "", as("auditor")...).wants(http.StatusForbidden, access.CodeForbidden)
	e.send("GET", jobRuns+"/"+r.ID.String(), "", as("auditor")...).run(200)
}

func TestWhatIsAnotherTenantsOfJobsDoesNotExist(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t, guarded)
	d := e.send("POST", definitions, `{"name":"job","type":"manual","command_name":"report"}`, as("admin")...).definition(201)
	r := e.send("POST", definitions+"/job/runs", `{"labels":{"a":"b"}}`, as("operator")...).run(201)
	var b client.JobBulk
	e.send("POST", jobRuns+"/bulk", `{"action":"CANCEL","filter":{"queue":"nothing"}}`, as("admin")...).into(&b)
	run := jobRuns + "/" + r.ID.String()
	for _, op := range []struct{ method, path, body string }{
		{"GET", definitions + "/job", ""}, {"GET", definitions + "/" + d.ID.String(), ""}, {"POST", definitions + "/job/runs", ""}, {"POST", definitions + "/job/pause", ""},
		{"GET", definitions + "/job/versions", ""}, {"GET", definitions + "/job/backfills", ""}, {"GET", run, ""}, {"GET", run + "/events", ""}, {"GET", run + "/attempts", ""},
		{"GET", run + "/explain", ""}, {"POST", run + "/cancel", ""}, {"POST", run + "/reassign", ""}, {"POST", run + "/rerun", ""},
	} {
		if got := e.send(op.method, op.path, op.body, as("foreign")...); got.status != http.StatusNotFound {
			t.Errorf("%s %s: %d %s", op.method, op.path, got.status, got.body)
		}
	}
	for _, query := range []string{"", "?label=a%3Db", "?root_run_id=" + r.ID.String(), "?state=PENDING"} {
		var l client.JobRunList
		if e.send("GET", jobRuns+query, "", as("foreign")...).into(&l); len(l.JobRuns) > 0 || *l.Pagination.TotalCount != 0 {
			t.Errorf("%s: %+v", query, l)
		}
	}
	e.send("GET", jobRuns+"?definition="+d.ID.String(), "", as("foreign")...).wants(http.StatusUnprocessableEntity, "JOB_DEFINITION_NOT_FOUND")
	e.sweep()
	if got := e.send("GET", run, "", as("operator")...).run(200); got.State != "PENDING" || got.Version != 1 {
		t.Errorf("%+v", got)
	}
}
