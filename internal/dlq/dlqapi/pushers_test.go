package dlqapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// The audit trail records who pushed a letter: one row for each request that stored something, with
// its letters, and none for a request that changed nothing.
func TestWhoPushedALetterIsRecorded(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t, apitest.Guarded)
	const batch = "/api/v1/dlq/messages/batch"
	message := func(key string) string {
		return `{"original_topic":"orders","error_message":"boom","payload":{"secret":"swordfish"},"dedupe_key":"` + key + `"}`
	}
	told := func(request string) []client.Action {
		t.Helper()
		var list client.ActionList
		if r := e.Send("GET", "/api/v1/audit?request_id="+request, "", apitest.As("auditor")...); r.Status != http.StatusOK {
			t.Fatalf("%d %s", r.Status, r.Body)
		} else if r.Into(&list); strings.Contains(string(r.Body), "swordfish") {
			t.Errorf("the record shows a payload: %s", r.Body)
		}
		for _, a := range list.Actions {
			want := a
			want.Kind, want.Actor = "dead_letter", new("key:operator")
			want.Address, want.RequestID = new("127.0.0.1"), new(request)
			if diff := cmp.Diff(want, a); diff != "" {
				t.Errorf("on record as (-want +got):\n%s", diff)
			}
		}
		return list.Actions
	}
	send := func(request, path, body string) apitest.Reply {
		t.Helper()
		return e.Send("POST", path, body, append(apitest.As("operator"), "X-Request-Id", request)...)
	}

	var one client.DeadLetter
	send("single", letters, message("a")).Into(&one)
	got := told("single")
	if len(got) != 1 {
		t.Fatalf("one letter: %+v", got)
	}
	push := got[0]
	push.Verb, push.Operation, push.Subject = "push", new("pushDeadLetter"), one.ID.String()
	if diff := cmp.Diff(push, got[0]); diff != "" {
		t.Errorf("one letter (-want +got):\n%s", diff)
	}
	if detail := string(push.Detail); detail != "" && detail != "null" {
		t.Errorf("one letter has the detail %s", detail)
	}
	if r := send("again", letters, message("a")); r.Status != http.StatusOK || len(told("again")) != 0 {
		t.Errorf("what was known: %d %s, and %d rows", r.Status, r.Body, len(told("again")))
	}

	// Two of four are new: one is known, one is invalid.
	var results client.DeadLetterResults
	send("many", batch, `{"messages":[`+message("a")+`,`+message("b")+`,{"original_topic":""},`+message("c")+
		`]}`).Into(&results)
	var want []uuid.UUID
	for _, i := range []int{1, 3} {
		want = append(want, *results.Results[i].ID)
	}
	var detail struct {
		Letters int         `json:"letters"`
		IDs     []uuid.UUID `json:"ids"`
	}
	got = told("many")
	if len(got) != 1 || got[0].Verb != "push" || *got[0].Operation != "pushDeadLetters" || got[0].Subject != "*" {
		t.Fatalf("a batch: %+v", got)
	}
	if err := json.Unmarshal(got[0].Detail, &detail); err != nil || detail.Letters != 2 || !cmp.Equal(want, detail.IDs) {
		t.Errorf("a batch of %v: %s, %v", want, got[0].Detail, err)
	}
	if send("many-again", batch, `{"messages":[`+message("b")+`,`+message("c")+`]}`); len(told("many-again")) != 0 {
		t.Errorf("a batch of known letters: %+v", told("many-again"))
	}

	// The row contains every letter of the largest batch.
	large := make([]string, 500)
	for i := range large {
		large[i] = message(fmt.Sprint("n", i))
	}
	send("large", batch, `{"messages":[`+strings.Join(large, ",")+`]}`)
	if got := told("large"); len(got) != 1 || json.Unmarshal(got[0].Detail, &detail) != nil || detail.Letters != 500 ||
		len(slices.Compact(detail.IDs)) != 500 {
		t.Errorf("500 letters: %d rows, of the last %d letters, %d ids", len(got), detail.Letters, len(detail.IDs))
	}
}

func TestWhoImportedALetterIsRecorded(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t, apitest.Guarded, func(c *httpapi.Config) { c.Limits.StreamAge = time.Minute })
	id := e.Pushed("orders", nowhere(t), `{"n":%d}`, 1, apitest.As("operator")...)[0]
	export := e.Send("GET", "/api/v1/dlq/export", "", apitest.As("admin")...)
	if r := e.Send("DELETE", letters+"/"+id.String()+"?reason=moved", "",
		apitest.As("admin")...); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	header := append(apitest.As("admin"), "Content-Type", "application/x-ndjson", "X-Request-Id", "import")
	if r := e.Send("POST", "/api/v1/dlq/import", string(export.Body), header...); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	var list client.ActionList
	e.Send("GET", "/api/v1/audit?request_id=import", "", apitest.As("auditor")...).Into(&list)
	var got []string
	for _, a := range slices.Backward(list.Actions) {
		got = append(got, strings.Join([]string{a.Verb, a.Subject, *a.Operation, *a.Actor, string(*a.Result)}, " "))
	}
	want := []string{"import * importDeadLetters key:admin asked", "push " + id.String() + " importDeadLetters key:admin done"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// If a topic's policy cannot be read, the failure is not cached as a policy for the rest of the
// request: the next message of the topic is also rejected.
func TestNoMessageIsStoredByAPolicyThatCouldNotBeRead(t *testing.T) {
	t.Parallel()
	asked := 0
	q := newQueue(t, func(c *httpapi.Config) {
		c.DeadLetters.PolicyOf = func(context.Context, uuid.UUID, string) (dlq.Policy, error) {
			asked++
			return dlq.Policy{}, fault.New(fault.Unavailable, fault.CodeUnavailable, "policies cannot be read")
		}
	})
	const message = `{"original_topic":"orders","error_message":"boom","payload":1}`
	var got client.DeadLetterResults
	q.Send("POST", "/api/v1/dlq/messages/batch", `{"messages":[`+message+`,`+message+`]}`).Into(&got)
	for i, r := range got.Results {
		if r.Status != http.StatusServiceUnavailable || r.ID != nil {
			t.Errorf("message %d of the batch: %d, id %v", i, r.Status, r.ID)
		}
	}
	if asked != 2 || len(got.Results) != 2 {
		t.Errorf("the policy was asked for %d times, and there are %d results", asked, len(got.Results))
	}
	var list client.DeadLetterList
	q.Send("GET", letters, "").Into(&list)
	if len(list.Messages) != 0 {
		t.Errorf("%d letters were stored", len(list.Messages))
	}
}

func TestTheDeploymentsAuditTrailNeedsCredentialsForAllTenants(t *testing.T) {
	e := newQueueEdge(t, apitest.Guarded)
	const path = "/api/v1/audit?scope=deployment"
	e.Send("GET", path, "", apitest.As("admin")...).Wants(403, principal.CodeForbidden)
	for path, who := range map[string]string{path: "root", "/api/v1/audit?scope=tenant": "admin"} {
		if r := e.Send("GET", path, "", apitest.As(who)...); r.Status != 200 {
			t.Errorf("%s as %s: %d %s", path, who, r.Status, r.Body)
		}
	}
}
