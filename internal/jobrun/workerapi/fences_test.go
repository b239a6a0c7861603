package workerapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/test/apitest"
)

const fencesPath = "/api/v1/fences"

func TestFencesAreShownAndReset(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, apitest.Guarded)
	s.run(s.job)
	w := s.worker("", apitest.As("worker")...)
	c := s.claim(w, `{"slots":1}`, apitest.As("worker")...)[0]
	check := func(key, token string) apitest.Reply {
		return s.Send("POST", fencesPath+"/"+url.PathEscape(key)+"/check", `{"fencing_token":"`+token+`"}`,
			apitest.As("worker")...)
	}
	p := check("ledger", "999999.1").Wants(http.StatusUnprocessableEntity, "JOB_FENCE_NOT_ISSUED")
	if !strings.Contains(p.Detail, "999999.1") || len(p.Errors) != 1 || p.Errors[0].Pointer != "/fencing_token" {
		t.Errorf("a token that nobody issued: %+v", p)
	}
	s.Send("GET", fencesPath+"/ledger", "", apitest.As("auditor")...).Wants(http.StatusNotFound, "JOB_FENCE_NOT_FOUND")
	for _, key := range []string{"ledger", "a/b ü"} {
		if r := check(key, c.FencingToken); r.Status != 200 || !strings.Contains(string(r.Body), `"ok":true`) {
			t.Fatalf("the genuine token: %d %s", r.Status, r.Body)
		}
	}
	var list client.FenceList
	r := s.Send("GET", fencesPath+"?page_size=1", "", apitest.As("auditor")...)
	r.Reads(http.StatusOK, &list)
	if len(list.Fences) != 1 || list.Pagination.NextCursor == nil {
		t.Fatalf("the first page: %s", r.Body)
	}
	if f := list.Fences[0]; f.FenceKey != "a/b ü" || f.FencingToken != c.FencingToken {
		t.Fatalf("the first page: %s", r.Body)
	}
	r = s.Send("GET", fencesPath+"?page_size=1&cursor="+*list.Pagination.NextCursor, "", apitest.As("auditor")...)
	if r.Into(&list); len(list.Fences) != 1 || list.Fences[0].FenceKey != "ledger" || list.Pagination.HasNext {
		t.Fatalf("the second page: %d %s", r.Status, r.Body)
	}
	var one client.Fence
	s.Send("GET", fencesPath+"/ledger", "", apitest.As("auditor")...).Reads(http.StatusOK, &one)
	if one != list.Fences[0] {
		t.Errorf("read alone it is %+v, and not %+v", one, list.Fences[0])
	}
	s.Send("GET", fencesPath+"/ledger", "", apitest.As("foreign")...).Wants(http.StatusNotFound, "JOB_FENCE_NOT_FOUND")
	s.Send("DELETE", fencesPath+"/ledger?reason=r", "", apitest.As("foreign")...).Wants(http.StatusNotFound,
		"JOB_FENCE_NOT_FOUND")
	s.Send("DELETE", fencesPath+"/ledger?reason=r", "", apitest.As("operator")...).Wants(http.StatusForbidden,
		principal.CodeForbidden)
	for _, query := range []string{"", "?reason=", "?reason=%20"} {
		if p := s.Send("DELETE", fencesPath+"/ledger"+query, "", apitest.As("admin")...).Wants(422,
			"REQ_SCHEMA"); len(p.Errors) != 1 || p.Errors[0].Parameter != "reason" {
			t.Errorf("reset with %q: %+v", query, p.Errors)
		}
	}
	var f client.Fence
	if r := s.Send("DELETE", fencesPath+"/"+url.PathEscape("a/b ü")+"?reason=poisoned", "",
		apitest.As("admin")...); r.Status != 200 {
		t.Fatalf("reset: %d %s", r.Status, r.Body)
	} else if r.Into(&f); f.FenceKey != "a/b ü" || f.FencingToken != c.FencingToken {
		t.Errorf("what was forgotten: %+v", f)
	}
	s.Send("DELETE", fencesPath+"/"+url.PathEscape("a/b ü")+"?reason=again", "",
		apitest.As("admin")...).Wants(http.StatusNotFound, "JOB_FENCE_NOT_FOUND")
	var who, why string
	if err := s.raw.QueryRowContext(t.Context(), `SELECT actor, reason FROM saga.audit_actions WHERE kind = 'job_fence' AND subject = 'a/b ü' AND detail->>'fencing_token' = $1`,
		c.FencingToken).Scan(&who, &why); err != nil || who != "key:admin" || why != "poisoned" {
		t.Errorf("on record: %q %q %v", who, why, err)
	}
}
