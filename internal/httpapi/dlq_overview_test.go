package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
)

func TestGroupsAreWhatPeopleMakeOfThem(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	e.pushed("refunds", nowhere(t), `{"n":%d}`, 1)
	e.pushed("orders", nowhere(t), `{"n":%d}`, 3)
	var list client.DeadLetterGroupList
	e.send("GET", groups+"?page_size=1", "").into(&list)
	g := list.Groups[0]
	want := g
	want.Topic, want.State, want.Received, want.Open = "orders", "NEW", 3, new(int64(3))
	want.Message, want.ErrorType = "connection to # refused", new("IOError")
	if diff := cmp.Diff(want, g); diff != "" || *list.Pagination.TotalCount != 2 || !list.Pagination.HasNext {
		t.Fatalf("page 1: %+v (-want +got):\n%s", list.Pagination, diff)
	}
	next := client.DeadLetterGroupList{}
	e.send("GET", groups+"?page_size=1&cursor="+*list.Pagination.NextCursor, "").into(&next)
	if len(next.Groups) != 1 || next.Groups[0].Topic != "refunds" || next.Pagination.HasNext {
		t.Errorf("page 2: %+v", next)
	}
	path := groups + "/" + g.Fingerprint
	r := e.send("PATCH", path, `{"state":"RESOLVED","assignee":"ann","note":"fixed in 1.2"}`, "If-Match", `"1"`)
	r.into(&g)
	if r.status != 200 || g.State != "RESOLVED" || *g.Assignee != "ann" || *g.Note != "fixed in 1.2" || r.header.Get("ETag") != `"2"` {
		t.Errorf("patched: %d %s", r.status, r.body)
	}
	e.send("PATCH", path, `{"note":"x"}`, "If-Match", `"1"`).wants(http.StatusPreconditionFailed, "DLQ_VERSION_CONFLICT")
	e.send("PATCH", path, `{"state":"REGRESSED"}`).wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	e.send("PATCH", path, `{"note":"`+strings.Repeat("n", 2001)+`"}`).wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	e.send("GET", groups+"/xyz", "").wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	e.send("GET", groups+"/"+strings.Repeat("0", 32), "").wants(http.StatusNotFound, "DLQ_GROUP_NOT_FOUND")
	e.pushed("orders", nowhere(t), `{"n":%d}`, 1)
	e.send("GET", groups+"?state=REGRESSED&topic=orders", "").into(&list)
	if len(list.Groups) != 1 || list.Groups[0].Received != 4 || list.Groups[0].Fingerprint != g.Fingerprint {
		t.Errorf("after another letter: %+v", list)
	}

	var made client.Redrive
	r = e.send("POST", path+"/discard", `{"reason":"test data"}`)
	if r.into(&made); r.status != http.StatusAccepted || made.Action != "DISCARD" {
		t.Fatalf("discard: %d %s", r.status, r.body)
	}
	if done := e.until(made.ID, "over", inState("COMPLETED")); done.Done != 4 {
		t.Errorf("discarded %+v", done)
	}
	e.send("POST", path+"/discard", `{}`).wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	r = e.send("POST", path+"/retry", `{"dry_run":true}`)
	var p client.RedrivePreview
	if r.into(&p); r.status != 200 || p.Matched != 0 {
		t.Errorf("a dry run after all were discarded: %d %s", r.status, r.body)
	}
	if r.into(&p); e.send("POST", path+"/retry", `{"dry_run":true,"force":true}`).status != 200 {
		t.Errorf("a forced dry run: %d %s", r.status, r.body)
	}
}

func TestTopicsAreCounted(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	e.pushed("a/b c", nowhere(t), `{"n":%d}`, 2)
	ids := e.pushed("orders", nowhere(t), `{"n":%d}`, 3)
	e.send("POST", "/api/v1/dlq/messages/"+ids[0].String()+"/resolve", `{"reason":"r"}`)
	var list client.DeadLetterTopicList
	e.send("GET", "/api/v1/dlq/topics?page_size=1", "").into(&list)
	if len(list.Topics) != 1 || list.Topics[0].Topic != "a/b c" || !list.Pagination.HasNext || list.Topics[0].Counts.PENDING != 2 {
		t.Fatalf("page 1: %+v", list)
	}
	next := client.DeadLetterTopicList{}
	e.send("GET", "/api/v1/dlq/topics?page_size=1&cursor="+*list.Pagination.NextCursor, "").into(&next)
	if len(next.Topics) != 1 || next.Topics[0].Topic != "orders" || next.Pagination.HasNext {
		t.Errorf("page 2: %+v", next)
	}
	e.send("GET", "/api/v1/dlq/topics?page=1", "").wants(http.StatusBadRequest, "REQ_UNKNOWN_PARAMETER")
	var topic client.DeadLetterTopic
	e.send("GET", "/api/v1/dlq/topics/a%2Fb%20c", "").into(&topic)
	if topic.Topic != "a/b c" || topic.Counts.PENDING != 2 {
		t.Errorf("a topic with odd characters: %+v", topic)
	}
	e.send("GET", "/api/v1/dlq/topics/orders", "").into(&topic)
	if diff := cmp.Diff(client.DeadLetterCounts{PENDING: 2, RESOLVED: 1}, topic.Counts); diff != "" ||
		topic.Arrivals != (client.DeadLetterArrivals{Last5M: 3, Last1H: 3, Last24H: 3}) || len(topic.TopGroups) != 1 || topic.OldestOpenAt == nil || *topic.OldestOpenAgeMS < 0 {
		t.Errorf("orders: %+v (-want +got):\n%s", topic, diff)
	}
	e.send("GET", "/api/v1/dlq/topics/none", "").wants(http.StatusNotFound, "DLQ_TOPIC_NOT_FOUND")
	var stats client.DeadLetterStats
	e.send("GET", "/api/v1/dlq/stats", "").into(&stats)
	want := []client.DeadLetterStat{
		{OriginalTopic: "a/b c", Status: "PENDING", Count: 2}, {OriginalTopic: "orders", Status: "PENDING", Count: 2}, {OriginalTopic: "orders", Status: "RESOLVED", Count: 1},
	}
	if diff := cmp.Diff(want, stats.Stats); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

const somePolicy = `{"max_retries":7,"backoff":{"initial_interval_ms":1000,"max_interval_ms":60000,"multiplier":3,"jitter":0.5},"auto_retry":false,
	"ordered":true,"retention_days":10,"archive_days":100,"max_generations":2`

func TestPoliciesAreSetAsAWhole(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	topic, common := "/api/v1/dlq/topics/orders/policy", "/api/v1/dlq/policy"
	var p client.DeadLetterPolicy
	r := e.send("GET", topic, "")
	if r.into(&p); r.status != 200 || !p.Inherited || p.Version != 0 || p.MaxRetries != 3 || r.header.Get("ETag") != `"0"` || *p.Topic != "orders" {
		t.Errorf("before: %d %s", r.status, r.body)
	}
	p = client.DeadLetterPolicy{}
	r = e.send("PUT", common, somePolicy+`,"reason":"ours"}`, "If-Match", `"0"`)
	if r.into(&p); r.status != 200 || p.Inherited || p.Version != 1 || p.Topic != nil || *p.UpdatedBy != "anonymous" {
		t.Errorf("the tenant's: %d %s", r.status, r.body)
	}
	e.send("PUT", common, somePolicy+`}`, "If-Match", `"0"`).wants(http.StatusPreconditionFailed, "DLQ_VERSION_CONFLICT")
	e.send("GET", topic, "").into(&p)
	if !p.Inherited || p.MaxRetries != 7 {
		t.Errorf("a topic without one has not the tenant's: %+v", p)
	}
	r = e.send("PUT", topic, strings.Replace(somePolicy, `"max_retries":7`, `"max_retries":1`, 1)+`,"alert":{"count":2},"redact":["card.number"],"allowed_targets":["retry.*"]}`)
	p = client.DeadLetterPolicy{}
	if r.into(&p); r.status != 200 || p.Inherited || p.MaxRetries != 1 || *p.Alert.Count != 2 || p.Redact[0] != "card.number" || p.AllowedTargets[0] != "retry.*" {
		t.Errorf("the topic's: %d %s", r.status, r.body)
	}
	if r := e.send("GET", topic, "", "If-None-Match", `"1"`); r.status != http.StatusNotModified {
		t.Errorf("unchanged: %d %s", r.status, r.body)
	}
	for body, pointer := range map[string]string{
		somePolicy + `,"redact":["a..b"]}`:                                                       "/redact/0",
		somePolicy + `,"allowed_targets":["[x"]}`:                                                "/allowed_targets/0",
		strings.Replace(somePolicy, `"max_interval_ms":60000`, `"max_interval_ms":999`, 1) + `}`: "/backoff/max_interval_ms",
	} {
		if got := e.send("PUT", topic, body).wants(http.StatusUnprocessableEntity, "DLQ_INVALID"); len(got.Errors) != 1 || got.Errors[0].Pointer != pointer {
			t.Errorf("errors %+v, want %s", got.Errors, pointer)
		}
	}
	for _, body := range []string{`{}`, somePolicy + `,"colour":"red"}`, strings.Replace(somePolicy, `"retention_days":10`, `"retention_days":0`, 1) + `}`} {
		e.send("PUT", topic, body).wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	}
	ids := e.pushed("orders", nowhere(t), `{"n":%d,"card":{"number":"4111"}}`, 3)
	var l client.DeadLetter
	e.send("GET", "/api/v1/dlq/messages/"+ids[0].String(), "").into(&l)
	if l.MaxRetries != 1 || l.NextRetryAt != nil || strings.Contains(string(l.Payload), "4111") {
		t.Errorf("a letter under the policy: %+v", l)
	}
	var stats client.DeadLetterTopic
	e.send("GET", "/api/v1/dlq/topics/orders", "").into(&stats)
	if diff := cmp.Diff([]client.DeadLetterTopicAlerts{"count"}, stats.Alerts); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
	var actions client.ActionList
	e.send("GET", "/api/v1/audit?kind=topic_policy&subject=*", "").into(&actions)
	if len(actions.Actions) != 1 || actions.Actions[0].Verb != "update" || *actions.Actions[0].Reason != "ours" || !strings.Contains(string(actions.Actions[0].Detail), `"max_retries":7`) {
		t.Errorf("actions: %+v", actions)
	}
}

func TestActionsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t, guarded)
	ids := e.pushed("orders", nowhere(t), `{"n":%d}`, 3, as("operator")...)
	for _, id := range ids[:2] {
		e.send("POST", "/api/v1/dlq/messages/"+id.String()+"/discard", `{"reason":"r"}`, as("operator")...)
	}
	since := time.Now().UTC().Add(time.Hour).Format(time.RFC3339)
	e.send("POST", "/api/v1/dlq/messages/"+ids[2].String()+"/resolve", `{"reason":"r"}`, append(as("admin"), "X-Request-Id", "req-7")...)
	for query, want := range map[string]int{
		"": 4, "?verb=push": 1, "?verb=discard": 2, "?actor=key:admin": 1, "?subject=" + ids[0].String(): 1, "?kind=redrive": 0, "?kind=dead_letter&verb=resolve": 1,
		"?from=" + since: 0, "?to=" + since: 4,
	} {
		var list client.ActionList
		e.send("GET", "/api/v1/audit"+query, "", as("auditor")...).into(&list)
		if len(list.Actions) != want || *list.Pagination.TotalCount != int64(want) {
			t.Errorf("%q: %d actions, want %d", query, len(list.Actions), want)
		}
	}
	var got []string
	path := "/api/v1/audit?page_size=2"
	for path != "" {
		var list client.ActionList
		e.send("GET", path, "", as("auditor")...).into(&list)
		for _, a := range list.Actions {
			got = append(got, a.Verb+" by "+*a.Actor)
			if a.Verb == "resolve" && *a.RequestID != "req-7" {
				t.Errorf("action %+v", a)
			}
		}
		path = ""
		if list.Pagination.HasNext {
			path = "/api/v1/audit?page_size=2&cursor=" + *list.Pagination.NextCursor
		}
	}
	if diff := cmp.Diff([]string{"resolve by key:admin", "discard by key:operator", "discard by key:operator", "push by key:operator"}, got); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	e.send("GET", "/api/v1/audit?kind=saga", "", as("auditor")...).wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	e.send("GET", "/api/v1/audit?colour=red", "", as("auditor")...).wants(http.StatusBadRequest, "REQ_UNKNOWN_PARAMETER")
}
