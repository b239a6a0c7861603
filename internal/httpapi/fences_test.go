package httpapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/access"
)

const fencesPath = "/api/v1/fences"

func TestFencesAreShownAndReset(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, guarded)
	s.run(s.job)
	w := s.worker("", as("worker")...)
	c := s.claim(w, `{"slots":1}`, as("worker")...)[0]
	check := func(key, token string) reply {
		return s.send("POST", fencesPath+"/"+url.PathEscape(key)+"/check", `{"fencing_token":"`+token+`"}`, as("worker")...)
	}
	p := check("ledger", "999999.1").wants(http.StatusUnprocessableEntity, "JOB_FENCE_NOT_ISSUED")
	if !strings.Contains(p.Detail, "999999.1") || len(p.Errors) != 1 || p.Errors[0].Pointer != "/fencing_token" {
		t.Errorf("a token that nobody issued: %+v", p)
	}
	s.send("GET", fencesPath+"/ledger", "", as("auditor")...).wants(http.StatusNotFound, "JOB_FENCE_NOT_FOUND")
	for _, key := range []string{"ledger", "a/b ü"} {
		if r := check(key, c.FencingToken); r.status != 200 || !strings.Contains(string(r.body), `"ok":true`) {
			t.Fatalf("the genuine token: %d %s", r.status, r.body)
		}
	}
	var list client.FenceList
	r := s.send("GET", fencesPath+"?page_size=1", "", as("auditor")...)
	if r.into(&list); r.status != 200 || len(list.Fences) != 1 || list.Fences[0].FenceKey != "a/b ü" || list.Fences[0].FencingToken != c.FencingToken || list.Pagination.NextCursor == nil {
		t.Fatalf("the first page: %d %s", r.status, r.body)
	}
	r = s.send("GET", fencesPath+"?page_size=1&cursor="+*list.Pagination.NextCursor, "", as("auditor")...)
	if r.into(&list); len(list.Fences) != 1 || list.Fences[0].FenceKey != "ledger" || list.Pagination.HasNext {
		t.Fatalf("the second page: %d %s", r.status, r.body)
	}
	s.send("GET", fencesPath+"/ledger", "", as("foreign")...).wants(http.StatusNotFound, "JOB_FENCE_NOT_FOUND")
	s.send("DELETE", fencesPath+"/ledger?reason=r", "", as("foreign")...).wants(http.StatusNotFound, "JOB_FENCE_NOT_FOUND")
	s.send("DELETE", fencesPath+"/ledger?reason=r", "", as("operator")...).wants(http.StatusForbidden, access.CodeForbidden)
	for _, query := range []string{"", "?reason=", "?reason=%20"} {
		if p := s.send("DELETE", fencesPath+"/ledger"+query, "", as("admin")...).wants(422, "REQ_SCHEMA"); len(p.Errors) != 1 || p.Errors[0].Pointer != "reason" {
			t.Errorf("reset with %q: %+v", query, p.Errors)
		}
	}
	var f client.Fence
	if r := s.send("DELETE", fencesPath+"/"+url.PathEscape("a/b ü")+"?reason=poisoned", "", as("admin")...); r.status != 200 {
		t.Fatalf("reset: %d %s", r.status, r.body)
	} else if r.into(&f); f.FenceKey != "a/b ü" || f.FencingToken != c.FencingToken {
		t.Errorf("what was forgotten: %+v", f)
	}
	s.send("DELETE", fencesPath+"/"+url.PathEscape("a/b ü")+"?reason=again", "", as("admin")...).wants(http.StatusNotFound, "JOB_FENCE_NOT_FOUND")
	var who, why string
	if err := s.raw.QueryRowContext(t.Context(), `SELECT actor, reason FROM saga.audit_actions WHERE kind = 'job_fence' AND subject = 'a/b ü' AND detail->>'fencing_token' = $1`,
		c.FencingToken).Scan(&who, &why); err != nil || who != "key:admin" || why != "poisoned" {
		t.Errorf("on record: %q %q %v", who, why, err)
	}
}
