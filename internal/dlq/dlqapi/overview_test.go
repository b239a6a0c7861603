package dlqapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestGroupsAreChangedByOperators(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	e.Pushed("refunds", nowhere(t), `{"n":%d}`, 1)
	e.Pushed("orders", nowhere(t), `{"n":%d}`, 3)
	var list client.DeadLetterGroupList
	e.Send("GET", apitest.GroupsPath+"?page_size=1", "").Into(&list)
	g := list.Groups[0]
	want := g
	want.Topic, want.State, want.Received, want.Open = "orders", "NEW", 3, new(int64(3))
	want.Message, want.ErrorType = "connection to # refused", new("IOError")
	if diff := cmp.Diff(want, g); diff != "" || *list.Pagination.TotalCount != 2 || !list.Pagination.HasNext {
		t.Fatalf("page 1: %+v (-want +got):\n%s", list.Pagination, diff)
	}
	next := client.DeadLetterGroupList{}
	e.Send("GET", apitest.GroupsPath+"?page_size=1&cursor="+*list.Pagination.NextCursor, "").Into(&next)
	if len(next.Groups) != 1 || next.Groups[0].Topic != "refunds" || next.Pagination.HasNext {
		t.Errorf("page 2: %+v", next)
	}
	path := apitest.GroupsPath + "/" + g.Fingerprint
	r := e.Send("PATCH", path, `{"state":"RESOLVED","assignee":"ann","note":"fixed in 1.2"}`, "If-Match", `"1"`)
	r.Reads(http.StatusOK, &g)
	want = g
	want.State, want.Assignee, want.Note = "RESOLVED", new("ann"), new("fixed in 1.2")
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("patched (-want +got):\n%s", diff)
	}
	if r.Header.Get("ETag") != `"2"` {
		t.Errorf("ETag %s", r.Header.Get("ETag"))
	}
	e.Send("PATCH", path, `{"note":"x"}`, "If-Match", `"1"`).Wants(http.StatusPreconditionFailed, "DLQ_VERSION_CONFLICT")
	e.Send("PATCH", path, `{"state":"REGRESSED"}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	e.Send("PATCH", path, `{"note":"`+strings.Repeat("n", 2001)+`"}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	e.Send("GET", apitest.GroupsPath+"/xyz", "").Wants(http.StatusBadRequest, "REQ_INVALID_PARAMETER")
	e.Send("GET", apitest.GroupsPath+"/"+strings.Repeat("0", 32), "").Wants(http.StatusNotFound, "DLQ_GROUP_NOT_FOUND")
	e.Pushed("orders", nowhere(t), `{"n":%d}`, 1)
	e.Send("GET", apitest.GroupsPath+"?state=REGRESSED&topic=orders", "").Into(&list)
	if len(list.Groups) != 1 || list.Groups[0].Received != 4 || list.Groups[0].Fingerprint != g.Fingerprint {
		t.Errorf("after another letter: %+v", list)
	}

	var made client.Redrive
	r = e.Send("POST", path+"/discard", `{"reason":"test data"}`)
	if r.Into(&made); r.Status != http.StatusAccepted || made.Action != "discard" {
		t.Fatalf("discard: %d %s", r.Status, r.Body)
	}
	if done := e.Until(made.ID, "over", inState("COMPLETED")); done.Done != 4 {
		t.Errorf("discarded %+v", done)
	}
	e.Send("POST", path+"/discard", `{}`).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	r = e.Send("POST", path+"/retry", `{"dry_run":true}`)
	var p client.RedrivePreview
	if r.Into(&p); r.Status != 200 || p.Matched != 0 {
		t.Errorf("a dry run after all were discarded: %d %s", r.Status, r.Body)
	}
	if r.Into(&p); e.Send("POST", path+"/retry", `{"dry_run":true,"force":true}`).Status != 200 {
		t.Errorf("a forced dry run: %d %s", r.Status, r.Body)
	}
}

func TestTopicsAreCounted(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	e.Pushed("a/b c", nowhere(t), `{"n":%d}`, 2)
	ids := e.Pushed("orders", nowhere(t), `{"n":%d}`, 3)
	e.Send("POST", "/api/v1/dlq/messages/"+ids[0].String()+"/resolve", `{"reason":"r"}`)
	var list client.DeadLetterTopicList
	e.Send("GET", "/api/v1/dlq/topics?page_size=1", "").Into(&list)
	if len(list.Topics) != 1 || list.Topics[0].Topic != "a/b c" || !list.Pagination.HasNext ||
		list.Topics[0].Counts.PENDING != 2 {
		t.Fatalf("page 1: %+v", list)
	}
	next := client.DeadLetterTopicList{}
	e.Send("GET", "/api/v1/dlq/topics?page_size=1&cursor="+*list.Pagination.NextCursor, "").Into(&next)
	if len(next.Topics) != 1 || next.Topics[0].Topic != "orders" || next.Pagination.HasNext {
		t.Errorf("page 2: %+v", next)
	}
	e.Send("GET", "/api/v1/dlq/topics?page=1", "").Wants(http.StatusBadRequest, "REQ_UNKNOWN_PARAMETER")
	var topic client.DeadLetterTopic
	e.Send("GET", "/api/v1/dlq/topics/a%2Fb%20c", "").Into(&topic)
	if topic.Topic != "a/b c" || topic.Counts.PENDING != 2 {
		t.Errorf("a topic with odd characters: %+v", topic)
	}
	e.Send("GET", "/api/v1/dlq/topics/orders", "").Into(&topic)
	orders := topic
	orders.Counts = client.DeadLetterCounts{PENDING: 2, RESOLVED: 1}
	orders.Arrivals = client.DeadLetterArrivals{Last5M: 3, Last1H: 3, Last24H: 3}
	orders.ArrivalsByHour = append(make([]int64, 23), 3)
	if diff := cmp.Diff(orders, topic); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
	if len(topic.TopGroups) != 1 || topic.OldestOpenAt == nil || *topic.OldestOpenAgeMS < 0 {
		t.Errorf("orders: %+v", topic)
	}
	e.Send("GET", "/api/v1/dlq/topics/none", "").Wants(http.StatusNotFound, "DLQ_TOPIC_NOT_FOUND")
	var stats client.DeadLetterStats
	e.Send("GET", "/api/v1/statistics/dead-letters", "").Into(&stats)
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
	r := e.Send("GET", topic, "")
	r.Reads(http.StatusOK, &p)
	want := p
	want.Inherited, want.Version, want.MaxRetries, want.Topic = true, 0, 3, new("orders")
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	if r.Header.Get("ETag") != `"0"` {
		t.Errorf("ETag %s", r.Header.Get("ETag"))
	}
	p = client.DeadLetterPolicy{}
	r = e.Send("PUT", common, somePolicy+`,"reason":"ours"}`, "If-Match", `"0"`)
	r.Reads(http.StatusOK, &p)
	want = p
	want.Inherited, want.Version, want.Topic, want.UpdatedBy = false, 1, nil, new("anonymous")
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("the tenant's (-want +got):\n%s", diff)
	}
	e.Send("PUT", common, somePolicy+`}`, "If-Match", `"0"`).Wants(http.StatusPreconditionFailed, "DLQ_VERSION_CONFLICT")
	e.Send("GET", topic, "").Into(&p)
	if !p.Inherited || p.MaxRetries != 7 {
		t.Errorf("a topic without one has not the tenant's: %+v", p)
	}
	r = e.Send("PUT", topic, strings.Replace(somePolicy, `"max_retries":7`, `"max_retries":1`, 1)+`,"alert":{"count":2},"redact":["card.number"],"allowed_targets":["retry.*"]}`)
	p = client.DeadLetterPolicy{}
	r.Reads(http.StatusOK, &p)
	want = p
	want.Inherited, want.MaxRetries, want.Alert.Count = false, 1, new(int64(2))
	want.Redact, want.AllowedTargets = []string{"card.number"}, []string{"retry.*"}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("the topic's (-want +got):\n%s", diff)
	}
	if r := e.Send("GET", topic, "", "If-None-Match", `"1"`); r.Status != http.StatusNotModified {
		t.Errorf("unchanged: %d %s", r.Status, r.Body)
	}
	for body, pointer := range map[string]string{
		somePolicy + `,"redact":["a..b"]}`:                                                       "/redact/0",
		somePolicy + `,"allowed_targets":["[x"]}`:                                                "/allowed_targets/0",
		strings.Replace(somePolicy, `"max_interval_ms":60000`, `"max_interval_ms":999`, 1) + `}`: "/backoff/max_interval_ms",
	} {
		if got := e.Send("PUT", topic, body).Wants(http.StatusUnprocessableEntity, "DLQ_INVALID"); len(got.Errors) != 1 ||
			got.Errors[0].Place() != pointer {
			t.Errorf("errors %+v, want %s", got.Errors, pointer)
		}
	}
	for _, body := range []string{`{}`, somePolicy + `,"colour":"red"}`,
		strings.Replace(somePolicy, `"retention_days":10`, `"retention_days":0`, 1) + `}`} {
		e.Send("PUT", topic, body).Wants(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	}
	ids := e.Pushed("orders", nowhere(t), `{"n":%d,"card":{"number":"4111"}}`, 3)
	var l client.DeadLetter
	e.Send("GET", "/api/v1/dlq/messages/"+ids[0].String(), "").Into(&l)
	if l.MaxRetries != 1 || l.NextRetryAt != nil || strings.Contains(string(l.Payload), "4111") {
		t.Errorf("a letter under the policy: %+v", l)
	}
	var stats client.DeadLetterTopic
	e.Send("GET", "/api/v1/dlq/topics/orders", "").Into(&stats)
	if diff := cmp.Diff([]client.DeadLetterTopicAlerts{"count"}, stats.Alerts); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
	var actions client.ActionList
	e.Send("GET", "/api/v1/audit?kind=topic_policy&subject=*", "").Into(&actions)
	if len(actions.Actions) != 1 || actions.Actions[0].Verb != "update" || *actions.Actions[0].Reason != "ours" ||
		!strings.Contains(string(actions.Actions[0].Detail), `"max_retries":7`) {
		t.Errorf("actions: %+v", actions)
	}
}

func TestActionsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t, apitest.Guarded)
	ids := e.Pushed("orders", nowhere(t), `{"n":%d}`, 3, apitest.As("operator")...)
	for _, id := range ids[:2] {
		e.Send("POST", "/api/v1/dlq/messages/"+id.String()+"/discard", `{"reason":"r"}`, apitest.As("operator")...)
	}
	since := time.Now().UTC().Add(time.Hour).Format(time.RFC3339)
	e.Send("POST", "/api/v1/dlq/messages/"+ids[2].String()+"/resolve", `{"reason":"r"}`,
		append(apitest.As("admin"), "X-Request-Id", "req-7")...)
	for query, want := range map[string]int{
		"": 4, "?verb=push": 1, "?verb=discard": 2, "?actor=key:admin": 1, "?subject=" + ids[0].String(): 1,
		"?kind=redrive": 0, "?kind=dead_letter&verb=resolve": 1,
		"?from=" + since: 0, "?to=" + since: 4,
	} {
		var list client.ActionList
		e.Send("GET", "/api/v1/audit"+query, "", apitest.As("auditor")...).Into(&list)
		if len(list.Actions) != want || *list.Pagination.TotalCount != int64(want) {
			t.Errorf("%q: %d actions, want %d", query, len(list.Actions), want)
		}
	}
	var got []string
	path := "/api/v1/audit?page_size=2"
	for path != "" {
		var list client.ActionList
		e.Send("GET", path, "", apitest.As("auditor")...).Into(&list)
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
	if diff := cmp.Diff([]string{"resolve by key:admin", "discard by key:operator", "discard by key:operator",
		"push by key:operator"}, got); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	e.Send("GET", "/api/v1/audit?kind=sagas", "", apitest.As("auditor")...).Wants(http.StatusBadRequest,
		"REQ_INVALID_PARAMETER")
	e.Send("GET", "/api/v1/audit?colour=red", "", apitest.As("auditor")...).Wants(http.StatusBadRequest,
		"REQ_UNKNOWN_PARAMETER")
}
