package jobapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestTheStoreInMemoryHasNoJobRuns(t *testing.T) {
	t.Parallel()
	e := apitest.NewEdge(t)
	n := 0
	for _, op := range apitest.Operations(t, strings.NewReplacer("{run_id}", uuid.NewString(), "{definition}", "x",
		"{backfill_id}", uuid.NewString(), "{bulk_id}", uuid.NewString())) {
		if !strings.HasPrefix(op.Path, "/api/v1/job") && !strings.HasPrefix(op.Path, "/api/v1/backfills") &&
			!strings.HasPrefix(op.Path, "/api/v1/schedules") {
			continue
		}
		if p := e.Send(op.Method, op.Path, "").Wants(http.StatusServiceUnavailable,
			"JOB_UNAVAILABLE"); !strings.Contains(p.Detail, "PostgreSQL") {
			t.Errorf("%s %s: %+v", op.Method, op.Path, p)
		}
		n++
	}
	if n < 20 {
		t.Errorf("only %d operations", n)
	}
}

func TestWithoutPayloadsReadARunIsShownWithoutItsContent(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t, apitest.Guarded)
	d := `{"name":"job","type":"manual","command_name":"report","default_args":{"a":"canary"},"args_schema":{"type":"object"},"labels":{"l":"shown"}}`
	e.Send("POST", definitions, d, apitest.As("admin")...).Definition(201)
	r := e.Send("POST", definitions+"/job/runs", `{"args":{"b":"canary"}}`, apitest.As("operator")...).Run(201)
	_, offers := e.claim(1, true)
	e.finish(&offers[0], &jobrun.Error{Code: "X", Message: "shown", Stack: "at canary"})
	path := jobRuns + "/" + r.ID.String()
	for _, path := range []string{path, jobRuns + "?view=full", definitions + "/job", definitions,
		definitions + "/job/versions", path + "/explain", path + "/events", path + "/attempts"} {
		open, covered := e.Send("GET", path, "", apitest.As("operator")...), e.Send("GET", path, "", apitest.As("auditor")...)
		if open.Status != 200 || covered.Status != 200 {
			t.Fatalf("%s: %d and %d %s", path, open.Status, covered.Status, covered.Body)
		}
		if strings.Contains(string(covered.Body), "canary") || strings.Contains(string(open.Body), "***") {
			t.Errorf("%s shows an auditor %s and an operator %s", path, covered.Body, open.Body)
		}
	}
	got := e.Send("GET", path, "", apitest.As("auditor")...).Run(200)
	if string(got.Args) != `"***"` || got.Error.Message != "shown" || *got.Error.Stack != "***" ||
		got.Labels["l"] != "shown" {
		t.Errorf("an auditor sees %+v", got)
	}
}

// A log cannot be redacted, so a caller without payloads:read is refused before it occupies a
// stream.
func TestALogThatIsRefusedHoldsNoStream(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t, apitest.Guarded, func(c *httpapi.Config) { c.Limits.MaxStreams = 1 })
	e.Send("POST", definitions, `{"name":"job","type":"manual","command_name":"report"}`, apitest.As("admin")...).Definition(201)
	r := e.Send("POST", definitions+"/job/runs", "", apitest.As("operator")...).Run(201)
	_, offers := e.claim(1, true)
	e.finish(&offers[0], nil)
	follow := jobRuns + "/" + r.ID.String() + "/logs?follow=true"
	for range 2 {
		e.Send("GET", follow, "", apitest.As("auditor")...).Wants(http.StatusForbidden, "AUTH_FORBIDDEN")
	}
	if got := e.Send("GET", follow, "", apitest.As("operator")...); got.Status != http.StatusOK {
		t.Errorf("after two refusals the log is %d %s", got.Status, got.Body)
	}
}

func TestRolesOfJobs(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t, apitest.Guarded)
	body := `{"name":"job","type":"manual","command_name":"report"}`
	e.Send("POST", definitions, body, apitest.As("operator")...).Wants(http.StatusForbidden, principal.CodeForbidden)
	e.Send("POST", definitions, body, apitest.As("admin")...).Definition(201)
	e.Send("POST", definitions+"/job/runs", "", apitest.As("auditor")...).Wants(http.StatusForbidden,
		principal.CodeForbidden)
	e.Send("POST", definitions+"/job/pause", "", apitest.As("operator")...).Definition(200)
	r := e.Send("POST", definitions+"/job/runs", "", apitest.As("operator")...).Run(201)
	e.Send("POST", jobRuns+"/bulk", `{"action":"cancel","filter":{"queue":"default"}}`, apitest.As("operator")...).Wants(http.StatusForbidden, principal.CodeForbidden)
	e.Send("POST", jobRuns+"/"+r.ID.String()+"/cancel", "", apitest.As("auditor")...).Wants(http.StatusForbidden,
		principal.CodeForbidden)
	e.Send("GET", jobRuns+"/"+r.ID.String(), "", apitest.As("auditor")...).Run(200)
}

func TestJobsOfAnotherTenantAreNotFound(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t, apitest.Guarded)
	d := e.Send("POST", definitions, `{"name":"job","type":"manual","command_name":"report"}`, apitest.As("admin")...).Definition(201)
	r := e.Send("POST", definitions+"/job/runs", `{"labels":{"a":"b"}}`, apitest.As("operator")...).Run(201)
	var b client.JobBulk
	e.Send("POST", jobRuns+"/bulk", `{"action":"cancel","filter":{"queue":"nothing"}}`, apitest.As("admin")...).Into(&b)
	run := jobRuns + "/" + r.ID.String()
	for _, op := range []struct{ method, path, body string }{
		{"GET", definitions + "/job", ""}, {"GET", definitions + "/" + d.ID.String(), ""}, {"POST", definitions + "/job/runs", ""}, {"POST", definitions + "/job/pause", ""},
		{"GET", definitions + "/job/versions", ""}, {"GET", definitions + "/job/backfills", ""}, {"GET", run, ""}, {"GET", run + "/events", ""}, {"GET", run + "/attempts", ""},
		{"GET", run + "/explain", ""}, {"POST", run + "/cancel", ""}, {"POST", run + "/reassign", ""}, {"POST", run + "/rerun", ""},
	} {
		if got := e.Send(op.method, op.path, op.body, apitest.As("foreign")...); got.Status != http.StatusNotFound {
			t.Errorf("%s %s: %d %s", op.method, op.path, got.Status, got.Body)
		}
	}
	for _, query := range []string{"", "?label=a%3Db", "?root_run_id=" + r.ID.String(), "?state=PENDING"} {
		var l client.JobRunList
		if e.Send("GET", jobRuns+query, "", apitest.As("foreign")...).Into(&l); len(l.JobRuns) > 0 ||
			*l.Pagination.TotalCount != 0 {
			t.Errorf("%s: %+v", query, l)
		}
	}
	e.Send("GET", jobRuns+"?definition="+d.ID.String(), "", apitest.As("foreign")...).Wants(http.StatusUnprocessableEntity,
		"JOB_DEFINITION_NOT_FOUND")
	e.sweep()
	if got := e.Send("GET", run, "", apitest.As("operator")...).Run(200); got.State != "PENDING" || got.Version != 1 {
		t.Errorf("%+v", got)
	}
}
