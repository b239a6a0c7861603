package dlqapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestTheSizeLimitOfARedriveIsCheckedBeforeAnythingIsStored(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t, apitest.Guarded, func(c *httpapi.Config) { c.DeadLetters.RedriveLimits.Bulk = 2 })
	ids := e.Pushed("orders", nowhere(t), `{"n":%d}`, 3, apitest.As("operator")...)
	quoted := make([]string, len(ids))
	for i, id := range ids {
		quoted[i] = `"` + id.String() + `"`
	}
	group := e.Group(apitest.As("operator")...)
	for _, tt := range []struct {
		who, path, body string
		status          int
	}{
		{"auditor", apitest.RedrivesPath, `{"action":"retry","reason":"r","ids":[` + quoted[0] + `]}`, 403},
		{"operator", apitest.RedrivesPath, `{"action":"retry","reason":"r","ids":[` + strings.Join(quoted[:2], ",") + `]}`, 202},
		{"operator", apitest.RedrivesPath, `{"action":"retry","reason":"r","ids":[` + strings.Join(quoted, ",") + `]}`, 403},
		{"operator", apitest.RedrivesPath, `{"action":"retry","reason":"r","ids":[` + strings.Join(quoted, ",") + `],"max_messages":2}`, 202},
		{"operator", apitest.RedrivesPath, `{"action":"retry","reason":"r","all":true}`, 403},
		{"operator", apitest.RedrivesPath, `{"action":"retry","reason":"r","all":true,"max_messages":3}`, 403},
		{"operator", apitest.RedrivesPath, `{"action":"retry","all":true,"dry_run":true}`, 200},
		{"operator", apitest.RedrivesPath, `{"action":"requeue","ids":[` + quoted[0] + `],"reason":"r"}`, 403},
		{"operator", apitest.RedrivesPath, `{"action":"delete","ids":[` + quoted[0] + `],"reason":"r"}`, 403},
		{"operator", "/api/v1/dlq/orders/retry-all?wait=0s", `{"max_messages":1}`, 403},
		{"operator", "/api/v1/dlq/groups/" + group + "/retry", `{"reason":"r"}`, 403},
		{"operator", "/api/v1/dlq/groups/" + group + "/discard", `{"reason":"r"}`, 403},
		{"operator", "/api/v1/dlq/groups/" + group + "/discard", `{"reason":"r","max_messages":1}`, 202},
		{"admin", apitest.RedrivesPath, `{"action":"retry","reason":"r","all":true}`, 202},
		{"admin", apitest.RedrivesPath, `{"action":"delete","ids":[` + quoted[0] + `],"reason":"r"}`, 202},
	} {
		r := e.Send("POST", tt.path, tt.body, apitest.As(tt.who)...)
		if r.Status != tt.status {
			t.Errorf("%s, %s %s: %d %s, want %d", tt.who, tt.path, tt.body, r.Status, r.Body, tt.status)
		} else if r.Status == http.StatusForbidden {
			r.Wants(http.StatusForbidden, principal.CodeForbidden)
		}
	}
	made := e.Bulk(`{"action":"retry","reason":"r","ids":[`+quoted[0]+`],"scheduled_for":"`+later()+`"}`, apitest.As("operator")...)
	for _, verb := range []string{"pause", "resume", "cancel", "approve"} {
		e.Send("POST", apitest.RedrivesPath+"/"+made.ID.String()+"/"+verb, "",
			apitest.As("operator")...).Wants(http.StatusForbidden, principal.CodeForbidden)
	}
}

func TestTheStoreInMemoryHasNoRecordOfActions(t *testing.T) {
	t.Parallel()
	apitest.NewEdge(t).Send("GET", "/api/v1/audit", "").Wants(http.StatusServiceUnavailable, "DLQ_UNAVAILABLE")
}

func TestAFilterInABodyHasEveryFilterOfTheList(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	e.Pushed("orders", nowhere(t), `{"n":%d,"who":{"name":"ann"}}`, 2)
	id := uuid.NewString()
	all := map[string]string{ // filter → whether it matches the first letter
		`"status":["PENDING","DEAD"]`: "2", `"topic":"ord*"`: "2", `"fingerprint":"` + e.Group() + `"`: "2",
		`"error_type":"IOError"`:    "2",
		`"error_class":["UNKNOWN"]`: "2", `"error_contains":"Connection refused"`: "2", `"consumer_group":"g"`: "0", `"key":"k"`: "0", `"key_base64":"aw=="`: "0",
		`"header":["h=v"]`: "0", `"payload":["n=1","who.name=ann"]`: "1", `"created_from":"2020-01-01T00:00:00.5Z"`: "2", `"created_to":"2020-01-01T00:00:00+02:00"`: "0",
		`"last_retry_from":"2020-01-01T00:00:00Z"`: "0", `"last_retry_to":"2020-01-01T00:00:00Z"`: "0", `"retry_count_min":1`: "0", `"retry_count_max":0`: "2",
		`"resolution":["MANUAL"]`: "0", `"generation_min":1`: "0", `"source":["REST","KAFKA"]`: "2", `"saga_id":"` + id +
			`"`: "0", `"job_run_id":"` + id + `"`: "0",
		`"correlation_id":"c"`: "0", `"trace_id":"t"`: "0", `"label":["a","b"]`: "0",
		`"assignee":"ann"`: "0", `"redrive_id":"` + id + `"`: "0", `"root_id":"` + id + `"`: "0",
	}
	properties := apitest.OpenapiYAML(t).Components.Schemas["DeadLetterFilter"].Value.Properties
	if len(all) != len(properties) {
		t.Errorf("%d filters are tried, the contract has %d", len(all), len(properties))
	}
	for filter, want := range all {
		r := e.Send("POST", apitest.RedrivesPath, `{"action":"retry","filter":{`+filter+`},"dry_run":true}`)
		var p client.RedrivePreview
		if r.Into(&p); r.Status != http.StatusOK || fmt.Sprint(p.Matched) != want {
			t.Errorf("%s: %d, matched %d, want %s: %.300s", filter, r.Status, p.Matched, want, r.Body)
		}
	}
	for _, parameter := range apitest.OpenapiYAML(t).Paths.Find("/api/v1/dlq/messages").Get.Parameters {
		switch name := parameter.Value.Name; name {
		case "order", "view", "page", "page_size", "cursor", "include":
		default:
			if properties[name] == nil {
				t.Errorf("the list filters by %s, and no redrive", name)
			}
		}
	}
}

func TestARedriveIsApprovedByAnotherUser(t *testing.T) {
	t.Parallel()
	people := map[string]string{"admin": "key:admin", "root": "key:*:root"}
	e := newQueueEdge(t, apitest.Guarded)
	e.Pushed("orders", nowhere(t), `{"n":%d}`, 2, apitest.As("operator")...)
	made := e.Bulk(`{"action":"discard","filter":{"topic":"orders"},"reason":"r","approval_required":true}`, apitest.As("admin")...)
	path := apitest.RedrivesPath + "/" + made.ID.String()
	if made.State != "AWAITING_APPROVAL" || made.Actor != people["admin"] {
		t.Fatalf("made %+v", made)
	}
	e.Send("POST", path+"/approve", "", apitest.As("admin")...).Wants(http.StatusForbidden, "DLQ_SELF_APPROVAL")
	e.Send("POST", path+"/resume", "", apitest.As("root")...).Wants(http.StatusConflict, "DLQ_REDRIVE_CONFLICT")
	var approved client.Redrive
	r := e.Send("POST", path+"/approve", "", apitest.As("root")...)
	if r.Into(&approved); r.Status != 200 || *approved.ApprovedBy != people["root"] || approved.State != "PENDING" {
		t.Fatalf("approved: %d %s", r.Status, r.Body)
	}
	r = e.Send("GET", path+"?wait=30s", "", apitest.As("auditor")...)
	if r.Into(&approved); approved.State != "COMPLETED" || approved.Done != 2 || string(approved.Filter) != `"***"` {
		t.Errorf("in the end: %s", r.Body)
	}
}

func TestRedrivesGroupsTopicsAndActionsOfOtherTenantsDoNotExist(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t, apitest.Guarded)
	e.Pushed("orders", nowhere(t), `{"n":%d}`, 2, apitest.As("admin")...)
	made := e.Bulk(`{"action":"retry","reason":"r","filter":{"topic":"orders"},"scheduled_for":"`+later()+`"}`, append(apitest.As("admin"), "Idempotency-Key", "k")...)
	group := e.Group(apitest.As("admin")...)
	for _, call := range [][4]string{
		{"GET", apitest.RedrivesPath + "/%s", "", "DLQ_REDRIVE_NOT_FOUND"}, {"GET", apitest.RedrivesPath + "/%s/items", "", "DLQ_REDRIVE_NOT_FOUND"},
		{"PATCH", apitest.RedrivesPath + "/%s", `{"rate_per_second":1}`, "DLQ_REDRIVE_NOT_FOUND"}, {"POST", apitest.RedrivesPath + "/%s/pause", "", "DLQ_REDRIVE_NOT_FOUND"},
		{"POST", apitest.RedrivesPath + "/%s/resume", "", "DLQ_REDRIVE_NOT_FOUND"}, {"POST", apitest.RedrivesPath + "/%s/cancel", "", "DLQ_REDRIVE_NOT_FOUND"},
		{"POST", apitest.RedrivesPath + "/%s/approve", "", "DLQ_REDRIVE_NOT_FOUND"},
	} {
		for _, id := range []string{made.ID.String(), uuid.NewString()} {
			e.Send(call[0], fmt.Sprintf(call[1], id), call[2], apitest.As("foreign")...).Wants(http.StatusNotFound, call[3])
		}
	}
	for _, call := range [][3]string{
		{"GET", "", ""}, {"PATCH", "", `{"note":"n"}`}, {"POST", "/retry", `{"reason":"r"}`}, {"POST", "/discard", `{"reason":"r"}`},
	} {
		for _, fingerprint := range []string{group, strings.Repeat("0", 32)} {
			e.Send(call[0], "/api/v1/dlq/groups/"+fingerprint+call[1], call[2],
				apitest.As("foreign")...).Wants(http.StatusNotFound, "DLQ_GROUP_NOT_FOUND")
		}
	}
	e.Send("GET", "/api/v1/dlq/topics/orders", "", apitest.As("foreign")...).Wants(http.StatusNotFound,
		"DLQ_TOPIC_NOT_FOUND")
	for _, list := range []string{apitest.RedrivesPath, "/api/v1/dlq/groups", "/api/v1/dlq/topics", "/api/v1/statistics/dead-letters",
		"/api/v1/audit"} {
		if r := e.Send("GET", list, "", apitest.As("foreign")...); r.Status != 200 ||
			!strings.Contains(string(r.Body), ":[]") {
			t.Errorf("%s: %d %s, want an empty list", list, r.Status, r.Body)
		}
	}
	// The same key of another tenant is a different key, and the data of each tenant is visible
	// only to that tenant.
	var preview client.RedrivePreview
	e.Send("POST", apitest.RedrivesPath, `{"action":"retry","all":true,"dry_run":true}`, apitest.As("foreign")...).Into(&preview)
	theirs := e.Bulk(`{"action":"discard","all":true,"reason":"r"}`, append(apitest.As("foreign"), "Idempotency-Key", "k")...)
	if theirs.ID == made.ID || preview.Matched != 0 {
		t.Errorf("matched %d, redrive %s", preview.Matched, theirs.ID)
	}
	var done client.Redrive
	e.Send("GET", apitest.RedrivesPath+"/"+theirs.ID.String()+"?wait=30s", "", apitest.As("foreign")...).Into(&done)
	var topic client.DeadLetterTopic
	e.Send("GET", "/api/v1/dlq/topics/orders", "", apitest.As("admin")...).Into(&topic)
	if done.State != "COMPLETED" || done.Matched != 0 || topic.Counts.PENDING != 2 {
		t.Errorf("their redrive %+v, my topic %+v", done, topic)
	}
}
