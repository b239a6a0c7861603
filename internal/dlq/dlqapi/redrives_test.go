package dlqapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func inState(state client.RedriveState) func(client.Redrive) bool {
	return func(r client.Redrive) bool { return r.State == state }
}

// later is a time after the end of any test.
func later() string { return time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339) }

// nowhere is a target that cannot be reached.
func nowhere(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.URL + "/in"
}

func TestAnInvalidRedriveIsRefusedWithEveryMistake(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	id := uuid.NewString()
	for _, tt := range []struct {
		name, body, code string
		pointers         []string
	}{
		{"no action", `{"all":true}`, "REQ_SCHEMA", []string{"/action"}},
		{"an action that does not exist", `{"action":"FORGET","all":true}`, "REQ_SCHEMA", []string{"/action"}},
		{"an unknown member", `{"action":"retry","reason":"r","all":true,"colour":"red"}`, "REQ_SCHEMA", []string{"/colour"}},
		{"an unknown filter", `{"action":"retry","reason":"r","filter":{"topics":"orders"}}`, "REQ_SCHEMA", []string{"/filter/topics"}},
		{"an unknown status", `{"action":"retry","reason":"r","filter":{"status":["OPEN"]}}`, "REQ_SCHEMA", []string{"/filter/status/0"}},
		{"a filter that is half a pair", `{"action":"retry","reason":"r","filter":{"payload":["customer"]}}`, "REQ_SCHEMA", []string{"/filter/payload"}},
		{"a filter by nobody", `{"action":"retry","reason":"r","filter":{"saga_id":"00000000-0000-0000-0000-000000000000"}}`, "REQ_SCHEMA", []string{"/filter/saga_id"}},
		{"nothing that it is for", `{"action":"retry","reason":"r"}`, "DLQ_INVALID", []string{"/ids"}},
		{"an empty filter", `{"action":"retry","reason":"r","filter":{}}`, "DLQ_INVALID", []string{"/filter"}},
		{"an empty filter in disguise", `{"action":"retry","reason":"r","filter":{"status":[],"label":[],"topic":"*"}}`, "DLQ_INVALID", []string{"/filter"}},
		{"ids and a filter", `{"action":"retry","reason":"r","ids":["` + id + `"],"filter":{"topic":"a"}}`, "DLQ_INVALID", []string{"/ids"}},
		{"no reason", `{"action":"delete","ids":["` + id + `"]}`, "DLQ_INVALID", []string{"/reason"}},
		{"a rate beyond the limit", `{"action":"retry","reason":"r","ids":["` + id + `"],"rate_per_second":5001}`, "DLQ_INVALID", []string{"/rate_per_second"}},
		{"a patch that is none", `{"action":"retry","reason":"r","ids":["` + id + `"],"transform":[{"op":"add","path":"a","value":1}]}`, "DLQ_INVALID", []string{"/transform/0/path"}},
		{"a target it may not go to", `{"action":"retry","reason":"r","filter":{"topic":"orders"},"target":{"kind":"http","url":"http://127.0.0.1:9/x"}}`, "DLQ_TARGET_NOT_ALLOWED", []string{"/target"}},
		{"a target that nobody may go to", `{"action":"retry","reason":"r","ids":["` + id + `"],"target":{"kind":"http","url":"http://169.254.169.254/x"}}`, "DLQ_TARGET_NOT_ALLOWED", []string{"/target/url"}},
		{"several at once", `{"action":"discard","filter":{},"force":true,"max_messages":1}`, "DLQ_INVALID", []string{"/filter", "/force", "/reason"}},
	} {
		p := e.Send("POST", apitest.RedrivesPath, tt.body).Wants(http.StatusUnprocessableEntity, tt.code)
		var got []string
		for _, field := range p.Errors {
			got = append(got, field.Place())
		}
		slices.Sort(got)
		if diff := cmp.Diff(tt.pointers, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	e.Send("GET", apitest.RedrivesPath+"?colour=red", "").Wants(http.StatusBadRequest, "REQ_UNKNOWN_PARAMETER")
	e.Send("GET", apitest.RedrivesPath+"?state=DONE", "").Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	var list client.RedriveList
	e.Send("GET", apitest.RedrivesPath, "").Into(&list)
	if len(list.Redrives) != 0 || *list.Pagination.TotalCount != 0 {
		t.Errorf("a refused redrive was stored: %+v", list)
	}
}

func TestADryRunCountsAndChangesNothing(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	e.Pushed("orders", nowhere(t), `{"n":%d}`, 25)
	e.Pushed("refunds", nowhere(t), `{"n":%d}`, 5)
	var p client.RedrivePreview
	r := e.Send("POST", apitest.RedrivesPath, `{"action":"retry","filter":{"error_type":"IOError"},"dry_run":true}`)
	r.Into(&p)
	shown := p
	shown.Matched, shown.BlockedKeys = 30, 0
	shown.ByTopic, shown.ByStatus = client.CountsByName{"orders": 25, "refunds": 5}, client.CountsByName{"PENDING": 30}
	if diff := cmp.Diff(shown, p); diff != "" || r.Status != http.StatusOK || len(p.ByGroup) != 2 || len(p.Sample) != 10 {
		t.Errorf("dry run: %d with %d groups and a sample of %d (-want +got):\n%s", r.Status, len(p.ByGroup), len(p.Sample), diff)
	}
	r = e.Send("POST", apitest.RedrivesPath, `{"action":"retry","filter":{"payload":["n=3"],"topic":"orders"},"dry_run":true}`)
	if r.Into(&p); p.Matched != 1 {
		t.Errorf("by a member of the payload: %d %.600s", r.Status, r.Body)
	}
	var all client.RetryAllResult
	r = e.Send("POST", "/api/v1/dlq/orders/retry-all", `{"dry_run":true,"max_messages":7}`)
	r.Reads(http.StatusOK, &all)
	if all.RetriedCount != 0 || all.Preview == nil || all.Preview.Matched != 7 || all.Redrive != nil {
		t.Errorf("dry run of retry-all: %.600s", r.Body)
	}
	var list client.RedriveList
	var stats client.DeadLetterStats
	e.Send("GET", apitest.RedrivesPath, "").Into(&list)
	e.Send("GET", "/api/v1/statistics/dead-letters", "").Into(&stats)
	want := []client.DeadLetterStat{{OriginalTopic: "orders", Status: "PENDING", Count: 25},
		{OriginalTopic: "refunds", Status: "PENDING", Count: 5}}
	if diff := cmp.Diff(want, stats.Stats); diff != "" || len(list.Redrives) != 0 {
		t.Errorf("after dry runs: %+v (-want +got):\n%s", list.Redrives, diff)
	}
}

func TestAnIdempotencyKeyMakesOneRedrive(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	ids := e.Pushed("orders", nowhere(t), `{"n":%d}`, 2)
	body := `{"action":"discard","ids":["` + ids[0].String() + `"],"reason":"duplicates"}`
	first := e.Bulk(body, "Idempotency-Key", "k-1")
	r := e.Send("POST", apitest.RedrivesPath, body, "Idempotency-Key", "k-1")
	var again client.Redrive
	r.Into(&again)
	if r.Status != http.StatusAccepted || again.ID != first.ID || r.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("again: %d %v %s", r.Status, r.Header, r.Body)
	}
	e.Send("POST", apitest.RedrivesPath, strings.Replace(body, "duplicates", "mistakes", 1), "Idempotency-Key",
		"k-1").Wants(http.StatusUnprocessableEntity, "REQ_IDEMPOTENCY_KEY_REUSED")
	if other := e.Bulk(body, "Idempotency-Key", "k-2"); other.ID == first.ID {
		t.Error("two keys made one redrive")
	}
	// With the same key, a different operation is a different request.
	e.Send("POST", "/api/v1/dlq/orders/retry-all?wait=0s", `{"max_messages":1}`, "Idempotency-Key", "k-1")
	var list client.RedriveList
	e.Send("GET", apitest.RedrivesPath+"?page_size=1", "").Into(&list)
	if *list.Pagination.TotalCount != 3 || len(list.Redrives) != 1 || !list.Pagination.HasNext {
		t.Errorf("redrives: %+v", list)
	}
	next := client.RedriveList{}
	e.Send("GET", apitest.RedrivesPath+"?page_size=1&cursor="+*list.Pagination.NextCursor, "").Into(&next)
	if len(next.Redrives) != 1 || next.Redrives[0].ID == list.Redrives[0].ID {
		t.Errorf("page 2: %+v", next)
	}
}

func TestEachBulkActionIsApplied(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	ids := e.Pushed("orders", nowhere(t), `{"n":%d}`, 5)
	status := func(id uuid.UUID) string {
		r := e.Send("GET", "/api/v1/dlq/messages/"+id.String(), "")
		if r.Status == http.StatusNotFound {
			return "GONE"
		}
		var l client.DeadLetter
		r.Into(&l)
		if l.Resolution != nil {
			return string(l.Status) + " " + string(*l.Resolution)
		}
		return string(l.Status)
	}
	for _, tt := range []struct {
		action string
		id     uuid.UUID
		want   string
	}{
		{"discard", ids[0], "DEAD DISCARDED"}, {"resolve", ids[1], "RESOLVED MANUAL"}, {"delete", ids[2], "GONE"}, {"requeue", ids[0], "PENDING"},
	} {
		made := e.Bulk(`{"action":"` + tt.action + `","ids":["` + tt.id.String() + `"],"reason":"r"}`)
		r := e.Send("GET", apitest.RedrivesPath+"/"+made.ID.String()+"?wait=30s", "")
		var done client.Redrive
		r.Into(&done)
		want := done
		want.State, want.Done, want.Failed, want.Selected = "COMPLETED", 1, 0, new(int64(1))
		want.AllowedActions = []client.RedriveVerb{}
		if diff := cmp.Diff(want, done); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.action, diff)
		}
		if got := status(tt.id); got != tt.want {
			t.Errorf("after %s the letter is %s, want %s", tt.action, got, tt.want)
		}
		var actions client.ActionList
		e.Send("GET", "/api/v1/audit?kind=dead_letter&subject="+tt.id.String()+"&verb="+tt.action, "").Into(&actions)
		if len(actions.Actions) != 1 || *actions.Actions[0].Reason != "r" {
			t.Errorf("%s left the actions %+v", tt.action, actions.Actions)
		}
	}
	// Letters that were handled in the meantime are skipped.
	made := e.Bulk(`{"action":"discard","ids":["` + ids[1].String() + `","` + ids[3].String() + `","` + uuid.NewString() +
		`"],"reason":"r"}`)
	done := e.Until(made.ID, "over", inState("COMPLETED"))
	path := "/api/v1/dlq/redrives/" + made.ID.String()
	tag := e.Send("GET", path, "").Header.Get("ETag")
	if r := e.Send("GET", path, "", "If-None-Match", tag); r.Status != http.StatusNotModified || len(r.Body) > 0 {
		t.Errorf("a redrive that is over: %d %s", r.Status, r.Body)
	}
	if done.Done != 1 || done.Skipped+done.Failed != done.Matched-1 {
		t.Errorf("of three letters, of which one can be discarded: %+v", done)
	}
	var items client.RedriveItemList
	e.Send("GET", apitest.RedrivesPath+"/"+made.ID.String()+"/items?state=DONE", "").Into(&items)
	if len(items.Items) != 1 || items.Items[0].MessageID != ids[3] {
		t.Errorf("items: %+v", items)
	}
	e.Send("GET", apitest.RedrivesPath+"/"+made.ID.String()+"/items?cursor=abc", "").Wants(http.StatusBadRequest,
		"REQ_INVALID_PARAMETER")
}

func TestARedriveIsStoppedAndChangedByOperators(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	e.Pushed("orders", nowhere(t), `{"n":%d}`, 3)
	made := e.Bulk(`{"action":"retry","filter":{"topic":"orders"},"scheduled_for":"` + later() + `","reason":"later"}`)
	path := apitest.RedrivesPath + "/" + made.ID.String()
	var r client.Redrive
	step := func(method, what, body string, header ...string) apitest.Reply {
		out := e.Send(method, path+what, body, header...)
		r = client.Redrive{}
		out.Into(&r)
		return out
	}
	if p := e.Send("POST", path+"/resume", "").Wants(http.StatusConflict,
		"DLQ_REDRIVE_CONFLICT"); !slices.Equal(p.AllowedActions, []string{"pause", "cancel", "update"}) {
		t.Errorf("a waiting redrive allows %v", p.AllowedActions)
	}
	if out := step("PATCH", "", `{"rate_per_second":7,"stop_on":{"failures":3}}`, "If-Match", `"1"`); out.Status != 200 || r.RatePerSecond != 7 ||
		*r.StopOn.Failures != 3 || out.Header.Get("ETag") != `"2"` {
		t.Errorf("patched: %d %s", out.Status, out.Body)
	}
	for _, call := range [][3]string{{"PATCH", "", `{"rate_per_second":8}`}, {"POST", "/pause", ""},
		{"POST", "/cancel", ""}} {
		e.Send(call[0], path+call[1], call[2], "If-Match", `"1"`).Wants(http.StatusPreconditionFailed, "DLQ_VERSION_CONFLICT")
	}
	e.Send("PATCH", path, `{"rate_per_second":100000}`).Wants(http.StatusUnprocessableEntity, "DLQ_INVALID")
	e.Send("PATCH", path, `{"colour":"red"}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	if out := step("POST", "/pause", `{"reason":"wait"}`, "If-Match", `"2"`); out.Status != 200 || r.State != "PAUSED" {
		t.Errorf("paused: %d %s", out.Status, out.Body)
	}
	if out := step("POST", "/resume", ""); out.Status != 200 || r.State != "PENDING" {
		t.Errorf("resumed: %d %s", out.Status, out.Body)
	}
	if out := step("POST", "/cancel", ""); out.Status != 200 || r.State != "CANCELED" || r.EndedAt == nil ||
		len(r.AllowedActions) != 0 {
		t.Errorf("canceled: %d %s", out.Status, out.Body)
	}
	e.Send("PATCH", path, `{"rate_per_second":8}`).Wants(http.StatusConflict, "DLQ_REDRIVE_CONFLICT")
	e.Send("POST", path+"/cancel", "").Wants(http.StatusConflict, "DLQ_REDRIVE_CONFLICT")
	var actions client.ActionList
	e.Send("GET", "/api/v1/audit?kind=redrive&subject="+made.ID.String(), "").Into(&actions)
	var verbs []string
	for _, a := range actions.Actions {
		verbs = append(verbs, a.Verb)
	}
	if diff := cmp.Diff([]string{"cancel", "resume", "pause", "update", "create"}, verbs); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if a := actions.Actions; *a[4].Reason != "later" || *a[4].Actor != "anonymous" || !json.Valid(a[4].Detail) ||
		*a[2].Reason != "wait" {
		t.Errorf("actions: %+v", a)
	}
	for _, what := range []string{"", "/items"} {
		e.Send("GET", apitest.RedrivesPath+"/"+uuid.NewString()+what, "").Wants(http.StatusNotFound, "DLQ_REDRIVE_NOT_FOUND")
	}
}

func TestATargetIsAllowedByThePolicyOfEachTopic(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	target := newService(t)
	policy := somePolicy + `,"allowed_targets":["` + target.URL + `/*"]}`
	if r := e.Send("PUT", "/api/v1/dlq/topics/refunds/policy", policy); r.Status != http.StatusOK {
		t.Fatalf("policy: %d %s", r.Status, r.Body)
	}
	e.Pushed("orders", nowhere(t), `{"n":%d}`, 2)
	allowed := e.Pushed("refunds", nowhere(t), `{"n":%d}`, 2)
	made := e.Bulk(`{"action":"retry","reason":"r","all":true,"target":{"kind":"http","url":"` + target.URL + `/again"}}`)
	done := e.Until(made.ID, "completed", inState("COMPLETED"))
	taken, _ := target.counts()
	if diff := cmp.Diff(once(allowed), taken); diff != "" || done.Done != 2 || done.Failed != 2 {
		t.Errorf("%+v; the target has (-want +got):\n%s", done, diff)
	}
	var items client.RedriveItemList
	e.Send("GET", apitest.RedrivesPath+"/"+made.ID.String()+"/items?state=FAILED", "").Into(&items)
	if len(items.Items) != 2 || !strings.Contains(*items.Items[0].Detail, "policy") {
		t.Errorf("failed: %+v", items.Items)
	}
}
