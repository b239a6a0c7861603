package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/httpapi"
)

func TestHowMuchSomebodyMayTouchIsCheckedBeforeAnythingIsStored(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t, guarded, func(c *httpapi.Config) { c.DeadLetters.RedriveLimits.Bulk = 2 })
	ids := e.pushed("orders", nowhere(t), `{"n":%d}`, 3, as("operator")...)
	quoted := make([]string, len(ids))
	for i, id := range ids {
		quoted[i] = `"` + id.String() + `"`
	}
	group := e.group(as("operator")...)
	for _, tt := range []struct {
		who, path, body string
		status          int
	}{
		{"auditor", redrives, `{"action":"RETRY","reason":"r","ids":[` + quoted[0] + `]}`, 403},
		{"operator", redrives, `{"action":"RETRY","reason":"r","ids":[` + strings.Join(quoted[:2], ",") + `]}`, 202},
		{"operator", redrives, `{"action":"RETRY","reason":"r","ids":[` + strings.Join(quoted, ",") + `]}`, 403},
		{"operator", redrives, `{"action":"RETRY","reason":"r","ids":[` + strings.Join(quoted, ",") + `],"max_messages":2}`, 202},
		{"operator", redrives, `{"action":"RETRY","reason":"r","all":true}`, 403},
		{"operator", redrives, `{"action":"RETRY","reason":"r","all":true,"max_messages":3}`, 403},
		{"operator", redrives, `{"action":"RETRY","all":true,"dry_run":true}`, 200},
		{"operator", redrives, `{"action":"REQUEUE","ids":[` + quoted[0] + `],"reason":"r"}`, 403},
		{"operator", redrives, `{"action":"DELETE","ids":[` + quoted[0] + `],"reason":"r"}`, 403},
		{"operator", "/api/v1/dlq/orders/retry-all?wait=0s", `{"max_messages":1}`, 403},
		{"operator", "/api/v1/dlq/groups/" + group + "/retry", `{"reason":"r"}`, 403},
		{"operator", "/api/v1/dlq/groups/" + group + "/discard", `{"reason":"r"}`, 403},
		{"operator", "/api/v1/dlq/groups/" + group + "/discard", `{"reason":"r","max_messages":1}`, 202},
		{"admin", redrives, `{"action":"RETRY","reason":"r","all":true}`, 202},
		{"admin", redrives, `{"action":"DELETE","ids":[` + quoted[0] + `],"reason":"r"}`, 202},
	} {
		r := e.send("POST", tt.path, tt.body, as(tt.who)...)
		if r.status != tt.status {
			t.Errorf("%s, %s %s: %d %s, want %d", tt.who, tt.path, tt.body, r.status, r.body, tt.status)
		} else if r.status == http.StatusForbidden {
			r.wants(http.StatusForbidden, access.CodeForbidden)
		}
	}
	made := e.bulk(`{"action":"RETRY","reason":"r","ids":[`+quoted[0]+`],"scheduled_for":"`+later()+`"}`, as("operator")...)
	for _, verb := range []string{"pause", "resume", "cancel", "approve"} {
		e.send("POST", redrives+"/"+made.ID.String()+"/"+verb, "", as("operator")...).wants(http.StatusForbidden, access.CodeForbidden)
	}
}

func TestTheStoreInMemoryHasNoRecordOfActions(t *testing.T) {
	t.Parallel()
	newEdge(t).send("GET", "/api/v1/audit", "").wants(http.StatusServiceUnavailable, "DLQ_UNAVAILABLE")
}

func TestAFilterInABodyHasEveryFilterOfTheList(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t)
	e.pushed("orders", nowhere(t), `{"n":%d,"who":{"name":"ann"}}`, 2)
	id := uuid.NewString()
	all := map[string]string{ // filter → whether it lets the first letter through
		`"status":["PENDING","DEAD"]`: "2", `"topic":"ord*"`: "2", `"fingerprint":"` + e.group() + `"`: "2", `"error_type":"IOError"`: "2",
		`"error_class":["UNKNOWN"]`: "2", `"error_contains":"Connection refused"`: "2", `"consumer_group":"g"`: "0", `"key":"k"`: "0", `"key_base64":"aw=="`: "0",
		`"header":["h=v"]`: "0", `"payload":["n=1","who.name=ann"]`: "1", `"created_from":"2020-01-01T00:00:00.5Z"`: "2", `"created_to":"2020-01-01T00:00:00+02:00"`: "0",
		`"last_retry_from":"2020-01-01T00:00:00Z"`: "0", `"last_retry_to":"2020-01-01T00:00:00Z"`: "0", `"retry_count_min":1`: "0", `"retry_count_max":0`: "2",
		`"resolution":["MANUAL"]`: "0", `"generation_min":1`: "0", `"source":["REST","KAFKA"]`: "2", `"saga_id":"` + id + `"`: "0", `"job_run_id":"` + id + `"`: "0",
		`"correlation_id":"c"`: "0", `"trace_id":"t"`: "0", `"label":["a","b"]`: "0", `"assignee":"ann"`: "0", `"redrive_id":"` + id + `"`: "0", `"root_id":"` + id + `"`: "0",
	}
	properties := openapiYAML(t).Components.Schemas["DeadLetterFilter"].Value.Properties
	if len(all) != len(properties) {
		t.Errorf("%d filters are tried, the contract has %d", len(all), len(properties))
	}
	for filter, want := range all {
		r := e.send("POST", redrives, `{"action":"RETRY","filter":{`+filter+`},"dry_run":true}`)
		var p client.RedrivePreview
		if r.into(&p); r.status != http.StatusOK || fmt.Sprint(p.Matched) != want {
			t.Errorf("%s: %d, matched %d, want %s: %.300s", filter, r.status, p.Matched, want, r.body)
		}
	}
	for _, parameter := range openapiYAML(t).Paths.Find("/api/v1/dlq/messages").Get.Parameters {
		switch name := parameter.Value.Name; name {
		case "order", "view", "page", "page_size", "cursor", "include":
		default:
			if properties[name] == nil {
				t.Errorf("the list filters by %s, and no redrive", name)
			}
		}
	}
}

func TestARedriveIsApprovedBySomebodyElse(t *testing.T) {
	t.Parallel()
	people := map[string]string{"admin": "key:admin", "root": "key:*:root"}
	e := newQueueEdge(t, guarded)
	e.pushed("orders", nowhere(t), `{"n":%d}`, 2, as("operator")...)
	made := e.bulk(`{"action":"DISCARD","filter":{"topic":"orders"},"reason":"r","approval_required":true}`, as("admin")...)
	path := redrives + "/" + made.ID.String()
	if made.State != "AWAITING_APPROVAL" || made.Actor != people["admin"] {
		t.Fatalf("made %+v", made)
	}
	e.send("POST", path+"/approve", "", as("admin")...).wants(http.StatusForbidden, "DLQ_SELF_APPROVAL")
	e.send("POST", path+"/resume", "", as("root")...).wants(http.StatusConflict, "DLQ_REDRIVE_CONFLICT")
	var approved client.Redrive
	r := e.send("POST", path+"/approve", "", as("root")...)
	if r.into(&approved); r.status != 200 || *approved.ApprovedBy != people["root"] || approved.State != "PENDING" {
		t.Fatalf("approved: %d %s", r.status, r.body)
	}
	r = e.send("GET", path+"?wait=30s", "", as("auditor")...)
	if r.into(&approved); approved.State != "COMPLETED" || approved.Done != 2 || string(approved.Filter) != `"***"` {
		t.Errorf("in the end: %s", r.body)
	}
}

func TestRedrivesGroupsTopicsAndActionsOfOthersDoNotExist(t *testing.T) {
	t.Parallel()
	e := newQueueEdge(t, guarded)
	e.pushed("orders", nowhere(t), `{"n":%d}`, 2, as("admin")...)
	made := e.bulk(`{"action":"RETRY","reason":"r","filter":{"topic":"orders"},"scheduled_for":"`+later()+`"}`, append(as("admin"), "Idempotency-Key", "k")...)
	group := e.group(as("admin")...)
	for _, call := range [][4]string{
		{"GET", redrives + "/%s", "", "DLQ_REDRIVE_NOT_FOUND"}, {"GET", redrives + "/%s/items", "", "DLQ_REDRIVE_NOT_FOUND"},
		{"PATCH", redrives + "/%s", `{"rate_per_second":1}`, "DLQ_REDRIVE_NOT_FOUND"}, {"POST", redrives + "/%s/pause", "", "DLQ_REDRIVE_NOT_FOUND"},
		{"POST", redrives + "/%s/resume", "", "DLQ_REDRIVE_NOT_FOUND"}, {"POST", redrives + "/%s/cancel", "", "DLQ_REDRIVE_NOT_FOUND"},
		{"POST", redrives + "/%s/approve", "", "DLQ_REDRIVE_NOT_FOUND"},
	} {
		for _, id := range []string{made.ID.String(), uuid.NewString()} {
			e.send(call[0], fmt.Sprintf(call[1], id), call[2], as("foreign")...).wants(http.StatusNotFound, call[3])
		}
	}
	for _, call := range [][3]string{
		{"GET", "", ""}, {"PATCH", "", `{"note":"n"}`}, {"POST", "/retry", `{"reason":"r"}`}, {"POST", "/discard", `{"reason":"r"}`},
	} {
		for _, fingerprint := range []string{group, strings.Repeat("0", 32)} {
			e.send(call[0], "/api/v1/dlq/groups/"+fingerprint+call[1], call[2], as("foreign")...).wants(http.StatusNotFound, "DLQ_GROUP_NOT_FOUND")
		}
	}
	e.send("GET", "/api/v1/dlq/topics/orders", "", as("foreign")...).wants(http.StatusNotFound, "DLQ_TOPIC_NOT_FOUND")
	for _, list := range []string{redrives, "/api/v1/dlq/groups", "/api/v1/dlq/topics", "/api/v1/dlq/stats", "/api/v1/audit"} {
		if r := e.send("GET", list, "", as("foreign")...); r.status != 200 || !strings.Contains(string(r.body), ":[]") {
			t.Errorf("%s: %d %s, want an empty list", list, r.status, r.body)
		}
	}
	// Their key of the same name is another one, and everything they have is theirs alone.
	var preview client.RedrivePreview
	e.send("POST", redrives, `{"action":"RETRY","all":true,"dry_run":true}`, as("foreign")...).into(&preview)
	theirs := e.bulk(`{"action":"DISCARD","all":true,"reason":"r"}`, append(as("foreign"), "Idempotency-Key", "k")...)
	if theirs.ID == made.ID || preview.Matched != 0 {
		t.Errorf("matched %d, redrive %s", preview.Matched, theirs.ID)
	}
	var done client.Redrive
	e.send("GET", redrives+"/"+theirs.ID.String()+"?wait=30s", "", as("foreign")...).into(&done)
	var topic client.DeadLetterTopic
	e.send("GET", "/api/v1/dlq/topics/orders", "", as("admin")...).into(&topic)
	if done.State != "COMPLETED" || done.Matched != 0 || topic.Counts.PENDING != 2 {
		t.Errorf("their redrive %+v, my topic %+v", done, topic)
	}
}
