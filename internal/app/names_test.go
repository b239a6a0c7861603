package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
)

// The record of every request by a person has the name that the person had at the time.
func namesAreRecorded(t *testing.T, n *node, token func(sub, name string) string) {
	t.Helper()
	kim, lee := token("7f3c", "Kim\n\u202e Ö"), token("9a1b", "lee")
	send := func(credential, method, path, body string, header ...string) map[string]any {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, n.url+"/api/v1"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		doc := do(t, req, credential)
		if _, problem := doc["code"]; problem && method != http.MethodGet && !strings.HasSuffix(path, "/retry") {
			t.Fatalf("%s %s: %v", method, path, doc)
		}
		return doc
	}
	// at follows the members and, in lists, the last elements.
	at := func(doc any, path ...string) string {
		for _, name := range path {
			if list, ok := doc.([]any); ok && len(list) > 0 {
				doc = list[len(list)-1]
			}
			member, _ := doc.(map[string]any)
			doc = member[name]
		}
		text, _ := doc.(string)
		return text
	}
	named := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	named("whoami", at(send(kim, "GET", "/whoami", ""), "name"), "Kim Ö")

	id := at(send(kim, "POST", "/sagas", `{"timeout_ms": 600000, "steps": [{"name": "a", "compensation": "none",
		"action": {"http": {"url": "http://127.0.0.1:9/"}}, "retry": {"max_attempts": 9, "initial_interval_ms": 60000}}]}`), "saga_id")
	named("a start", at(send(kim, "GET", "/sagas/"+id+"/events?event_type=saga.started", ""), "events", "actor_name"), "Kim Ö")
	send(kim, "PATCH", "/sagas/"+id, `{"assignee": "kim"}`, "If-Match", "*")
	noted := send(kim, "GET", "/sagas/"+id+"/events?event_type=saga.note_changed", "")
	named("a note", at(noted, "events", "actor_name"), "Kim Ö")
	named("the data of its event", at(noted, "events", "event_data", "actor_name"), "")
	send(lee, "POST", "/sagas/"+id+"/suspend", `{"reason": "r"}`)
	suspended := send(kim, "GET", "/sagas/"+id+"/events?event_type=saga.suspended", "")
	named("an action on a saga", at(suspended, "events", "actor_name"), "lee")
	bulk := send(kim, "POST", "/sagas/bulk", `{"action": "resume", "reason": "r", "ids": ["`+id+`"]}`)
	named("a bulk operation on sagas", at(bulk, "actor_name"), "Kim Ö")
	patience.Until(t, "the bulk operation reaches its saga", func() bool {
		resumed := send(kim, "GET", "/sagas/"+id+"/events?event_type=saga.resumed", "")
		return at(resumed, "events", "actor_name") == "Kim Ö"
	})

	letter := at(send(kim, "POST", "/dlq/messages", `{"original_topic": "orders", "error_message": "no", "payload": {},
		"target": {"kind": "http", "url": "http://127.0.0.1:9/"}}`), "id")
	send(kim, "POST", "/dlq/messages/"+letter+"/retry", `{"payload": {"n": 1}, "reason": "r"}`)
	attempts := send(kim, "GET", "/dlq/messages/"+letter+"/attempts", "")
	named("an attempt", at(attempts, "attempts", "actor_name"), "Kim Ö")
	revisions := send(kim, "GET", "/dlq/messages/"+letter+"/revisions", "")
	named("a revision", at(revisions, "revisions", "author_name"), "Kim Ö")
	redrive := send(kim, "POST", "/dlq/redrives", `{"action": "discard", "reason": "r", "filter": {"topic": "orders"},
		"approval_required": true}`)
	named("a redrive", at(redrive, "actor_name"), "Kim Ö")
	approved := send(lee, "POST", "/dlq/redrives/"+at(redrive, "id")+"/approve", `{"reason": "r"}`)
	named("an approval", at(approved, "approved_by_name"), "lee")

	runs := send(kim, "POST", "/job-runs/bulk", `{"action": "cancel", "reason": "r", "filter": {"correlation_id": "none"}}`)
	named("a bulk operation on runs", at(runs, "actor_name"), "Kim Ö")

	definition := send(kim, "POST", "/job-definitions", `{"name": "names", "type": "manual", "command_name": "count"}`)
	named("a definition that was just created", at(definition, "created_by_name"), "Kim Ö")
	job := "/job-definitions/" + at(definition, "id")
	send(lee, "PATCH", job, `{"priority": 7}`, "If-Match", "*")
	changed := send(kim, "GET", "/job-definitions/names", "")
	named("who created a definition", at(changed, "created_by_name"), "Kim Ö")
	named("who changed a definition", at(changed, "updated_by_name"), "lee")
	named("a version of it", at(send(kim, "GET", "/job-definitions/names/versions", ""), "versions", "created_by_name"), "Kim Ö")
	run := at(send(lee, "POST", job+"/runs", `{}`), "id")
	named("a run", at(send(kim, "GET", "/job-runs/"+run, ""), "initiated_by_name"), "lee")
	named("a run in a list", at(send(kim, "GET", "/job-runs", ""), "job_runs", "initiated_by_name"), "lee")
	send(kim, "POST", "/job-runs/"+run+"/cancel", `{"reason": "r"}`)
	named("the history of a run", at(send(lee, "GET", "/job-runs/"+run+"/events", ""), "events", "actor_name"), "Kim Ö")
	named("who initiated a saga", at(send(lee, "GET", "/sagas/"+id, ""), "initiated_by_name"), "Kim Ö")
	named("who initiated a saga in a list", at(send(lee, "GET", "/sagas", ""), "sagas", "initiated_by_name"), "Kim Ö")
	send(lee, "PATCH", "/dlq/topics/orders/policy", `{"max_retries": 3}`, "If-Match", "*")
	named("a policy", at(send(kim, "GET", "/dlq/topics/orders/policy", ""), "updated_by_name"), "lee")
	hook := at(send(kim, "POST", "/webhooks", `{"url": "https://hooks.example/x"}`), "id")
	named("a webhook", at(send(lee, "GET", "/webhooks/"+hook, ""), "created_by_name"), "Kim Ö")
	key := at(send(kim, "POST", "/api-keys", `{"name": "named", "role": "auditor"}`), "api_key", "id")
	send(lee, "POST", "/api-keys/"+key+"/revoke", `{"reason": "r"}`)
	keys := send(lee, "GET", "/api-keys/"+key, "")
	named("a key", at(keys, "created_by_name"), "Kim Ö")
	named("a revoked key", at(keys, "revoked_by_name"), "lee")
	send(kim, "PUT", "/participants/payments", `{"base_url": "http://127.0.0.1:9/pay"}`, "If-Match", "\"0\"")
	send(lee, "POST", "/participants/payments/hold", `{"reason": "r"}`, "If-Match", "*")
	held := send(kim, "GET", "/participants/payments", "")
	named("a participant", at(held, "created_by_name"), "Kim Ö")
	named("who holds a participant", at(held, "held_by_name"), "lee")
	send(lee, "POST", "/job-queues/reports/hold", `{"reason": "r"}`)
	queue := send(kim, "GET", "/job-queues/reports", "")
	named("who holds a queue", at(queue, "held_by_name"), "lee")
	if by := at(queue, "held_by"); !strings.HasPrefix(by, "jwt:") {
		t.Errorf("a queue is held by %q, which is not a subject", by)
	}

	renamed := token("7f3c", "kim-2")
	send(renamed, "POST", "/sagas/"+id+"/suspend", `{"reason": "r"}`)
	actions, _ := send(kim, "GET", "/audit?actor=jwt:7f3c&page_size=100", "")["actions"].([]any)
	names := map[string]int{}
	for _, a := range actions {
		names[at(a, "actor_name")]++
		named("the detail of an action", at(a, "detail", "actor_name"), "")
	}
	if len(names) != 2 || names["kim-2"] != 1 || names["Kim Ö"] < 5 {
		t.Errorf("the names of the actions: %v", names)
	}
	if found, _ := send(kim, "GET", "/audit?actor=kim-2", "")["actions"].([]any); len(found) > 0 {
		t.Errorf("actions are found by a name: %v", found)
	}
	for _, trail := range []string{"actions", "events"} {
		if got := send(kim, "GET", "/audit/verify?trail="+trail, ""); got["ok"] != true {
			t.Errorf("the trail of %s does not verify: %v", trail, got)
		}
	}
}
