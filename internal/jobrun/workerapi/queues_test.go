package workerapi_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// boundTo makes the credential worker-a a key with the same name as worker, for the queue a.
func boundTo(cfg *httpapi.Config) {
	identify := cfg.Access.Identify
	cfg.Access.Identify = func(ctx context.Context, credential string) (principal.Principal, error) {
		if credential != "worker-a" {
			return identify(ctx, credential)
		}
		return principal.Principal{
			Subject: "key:worker", Role: principal.Worker, Tenant: apitest.Tenant, Queues: []string{"a"},
		}, nil
	}
}

func TestAKeyBoundToQueuesServesTheseAndNoOthers(t *testing.T) {
	t.Parallel()
	s := newWorkerEdge(t, apitest.Guarded, boundTo)
	in := func(queue string) func(*jobrun.Run) { return func(r *jobrun.Run) { r.Queue = queue } }
	own, foreign := s.run(s.job, in("a")), s.run(s.job, in("b"))
	bound := apitest.As("worker-a")
	for who, want := range map[string][]string{"worker": nil, "worker-a": {"a"}} {
		var me client.CallerIdentity
		s.Send("GET", "/api/v1/whoami", "", apitest.As(who)...).Into(&me)
		if diff := cmp.Diff(want, me.Queues); diff != "" || me.Subject != "key:worker" {
			t.Errorf("%s is %s (-want queues +got):\n%s", who, me.Subject, diff)
		}
	}
	for _, queues := range []string{``, `,"queues":["b"]`, `,"queues":["a","b"]`} {
		s.Send("POST", "/api/v1/workers", `{"name":"w"`+queues+`}`, bound...).
			Wants(http.StatusForbidden, principal.CodeForbidden)
	}
	// The worker serves the queue b, and the bound key has obtained its id and fence.
	w := s.worker(`,"queues":["a","b"]`, apitest.As("worker")...)
	c := s.claim(w, `{"slots":1,"queues":["b"],"start":true}`, apitest.As("worker")...)[0]
	if c.RunID != foreign {
		t.Fatalf("claimed %s, want %s", c.RunID, foreign)
	}
	for call, body := range map[string]string{
		"claim": `{"slots":1,"queues":["a"]}`, "heartbeat": `{"seq":1,"running":[` + item(c, "") + `]}`,
		"start": `{"runs":[` + item(c, "") + `]}`, "complete": `{"runs":[` + item(c, "") + `]}`,
		"drain": "",
	} {
		s.Send("POST", workerPath(w, call), body, bound...).Wants(http.StatusForbidden, principal.CodeForbidden)
	}
	for call, more := range map[string]string{
		"start": "", "progress": `,"percent":1`, "logs": `,"seq":0,"chunk":"x"`, "complete": "",
		"fail": `,"error":{"code":"A","message":"b"}`, "release": "", "cancel-ack": "", "confirm-continuation": "",
	} {
		s.call(w, c, call, more, bound...).Wants(http.StatusForbidden, principal.CodeForbidden)
	}
	// A worker that belongs to the key does not help, because the fence names the worker that holds
	// the run.
	mine := s.worker(`,"queues":["a"]`, bound...)
	s.call(mine, c, "complete", "", bound...).Wants(http.StatusConflict, jobrun.CodeFenceLost)
	if s.state(own) != "PENDING" || s.state(foreign) != "RUNNING" {
		t.Errorf("the runs are %s and %s", s.state(own), s.state(foreign))
	}
	runs := s.claim(mine, `{"slots":9,"start":true}`, bound...)
	if len(runs) != 1 || runs[0].RunID != own {
		t.Fatalf("claimed %+v", runs)
	}
	s.call(mine, runs[0], "complete", "", bound...).Ended("SUCCEEDED", false)
}
