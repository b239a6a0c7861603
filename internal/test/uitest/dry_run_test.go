package uitest_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testnet"
)

// TestADryRunOfOneThing does a dry run of every action on a single resource that supports dry_run.
// The dry run must report the changes and must not change the resource.
func TestADryRunOfOneThing(t *testing.T) {
	t.Parallel()
	people := testnet.NewPeople(t)
	s := guarded(t, func(c *config.Config) {
		c.Auth.JWTIssuer, c.Auth.JWTAudience = people.URL, "skald"
		c.Auth.JWTRoleClaim, c.Auth.JWTDefaultTenant = "role", true
	})
	ada := people.Token(t, map[string]any{ // a person, who has a name in addition to her subject
		"aud": "skald", "sub": "ada", "preferred_username": "Ada", "role": "admin",
	})
	w := &acting{s, t, "dry"}
	letters(w, 3)
	ids := w.ids("/dlq/messages?topic=dry", "messages", "id")
	letter, dead := fmt.Sprint("/dlq/messages/", ids[0]), fmt.Sprint("/dlq/messages/", ids[1])
	w.Must(t, "POST", dead+"/discard", object{"reason": "given up"})
	sent := fmt.Sprint("/dlq/messages/", ids[2])
	w.Must(t, "POST", sent+"/retry", object{})
	made := func(path string, body object) string {
		t.Helper()
		return fmt.Sprint(path, "/", idOf(w.Must(t, "POST", path, body)))
	}
	later := object{"action": "retry", "filter": object{"topic": "dry"}, "reason": "r",
		"scheduled_for": at(24)}
	redrive, paused := made("/dlq/redrives", later), made("/dlq/redrives", later)
	w.Must(t, "POST", paused+"/pause", object{})
	unapproved := object{"approval_required": true}
	for name, value := range later {
		unapproved[name] = value
	}
	first := s.Key
	s.Key = w.Must(t, "POST", "/api-keys", object{"name": "deputy", "role": "admin", "any_tenant": true})["key"].(string)
	approved := made("/dlq/redrives", unapproved)
	s.Key = first
	runs(w, 1)
	run := fmt.Sprint("/job-runs/", w.ids("/job-runs?definition=dry", "job_runs", "id")[0])
	webhook := made("/webhooks", object{"url": "https://127.0.0.1/hook", "event_types": []string{"saga.completed"}})
	off := made("/webhooks", object{"url": "https://127.0.0.1/off",
		"event_types": []string{"saga.completed"}, "enabled": false})
	for _, name := range []string{"open", "held"} {
		w.Must(t, "PUT", "/participants/"+name, object{"base_url": w.Participant + "/" + name})
	}
	w.Must(t, "POST", "/participants/held/hold", object{})
	w.Must(t, "POST", "/job-queues/stopped/hold", object{})
	w.Call(t, "POST", "/workflows", object{"name": "dry", "steps": []object{{
		"name": "a", "action": object{"http": object{"url": w.Participant + "/ok"}}, "compensation": "none",
	}}})
	w.Call(t, "POST", "/workflows", object{"name": "off", "steps": []object{{
		"name": "a", "action": object{"http": object{"url": w.Participant + "/ok"}}, "compensation": "none",
	}}})
	w.Must(t, "POST", "/workflows/off/disable", object{})
	w.Must(t, "POST", "/job-definitions", object{"name": "off", "type": "manual", "command_name": "none"})
	w.Must(t, "POST", "/job-definitions/off/pause", object{"reason": "r"})
	again := fmt.Sprint("/job-runs/", idOf(w.Must(t, "POST", "/job-definitions/dry/runs", object{})))
	w.Must(t, "POST", again+"/cancel", object{})
	w.Must(t, "POST", "/job-definitions", object{"name": "held", "type": "manual", "command_name": "none",
		"queue": "held"})
	held := fmt.Sprint("/job-runs/", idOf(w.Must(t, "POST", "/job-definitions/held/runs", object{})))
	w.Must(t, "POST", "/job-definitions", object{"name": "alone", "type": "manual", "command_name": "none",
		"queue": "none", "concurrency_policy": "forbid"})
	w.Must(t, "POST", "/job-definitions/alone/runs", object{})
	registered := func(name string) string {
		t.Helper()
		made := w.Must(t, "POST", "/workers", object{"name": name, "queues": []string{"held"}})
		return fmt.Sprint("/workers/", made["worker_id"])
	}
	worker, draining, detached := registered("a"), registered("b"), registered("c")
	w.Must(t, "POST", draining+"/drain", object{})
	w.Must(t, "POST", detached+"/detach", object{})
	patience.Until(t, "a worker has the run", func() bool {
		return len(w.Must(t, "POST", worker+"/claim", object{"slots": 1, "wait_ms": 1000})["runs"].([]any)) == 1
	})
	ended := fmt.Sprint("/sagas/", w.Must(t, "POST", "/sagas?wait=20s", object{"workflow_name": "dry",
		"payload": object{}})["saga_id"])
	w.Must(t, "POST", "/admin/retention/run", object{"older_than": time.Now().UTC().Format(time.RFC3339Nano)})
	noted := fmt.Sprint("/sagas/", w.Must(t, "POST", "/sagas?wait=20s", object{"workflow_name": "dry",
		"payload": object{}})["saga_id"])
	halted, filled := map[string]string{}, ""
	for _, op := range operations() {
		if !slices.Contains([]string{"bulk-of-sagas", "bulk-of-runs", "backfill"}, op.name) {
			continue
		}
		of := &acting{s, t, op.name}
		op.add(of, 3)
		path, body := op.ask(of)
		body["expected"] = 2
		id := idOf(of.Must(t, "POST", path, body))
		of.awaitState(&op, id, "HALTED")
		halted[op.name] = op.read + id
		if op.name == "backfill" {
			of = &acting{s, t, "filled"}
			op.add(of, 3)
			path, body = op.ask(of)
			id = idOf(of.Must(t, "POST", path, body))
			patience.Until(t, "the backfill has runs", func() bool {
				return len(of.ids("/job-runs?backfill_id="+id, "job_runs", "id")) > 0
			})
			filled = op.read + id
		}
	}
	group := "/dlq/groups/" + w.group()
	w.Must(t, "POST", "/workflows", object{"name": "hooked", "steps": []object{{
		"name": "a", "action": object{"http": object{"url": w.Participant + "/ok"}}, "compensation": "none",
	}}})
	failing := made("/webhooks", object{"url": w.Participant + "/503/hook", "workflow_names": []string{"hooked"},
		"event_types": []string{"saga.completed"}})
	w.Must(t, "POST", "/sagas?wait=20s", object{"workflow_name": "hooked", "payload": object{}})
	patience.Until(t, "the delivery has failed", func() bool {
		return len(w.ids(failing+"/deliveries?status=failed", "deliveries", "id")) == 1
	})
	w.Must(t, "POST", "/workflows", object{"name": "waits", "steps": []object{{"name": "a", "compensation": "none",
		"action": object{"http": object{"url": w.Participant + "/503/wait"}},
		"retry":  object{"max_attempts": 1000, "initial_interval_ms": 60_000}}}})
	w.Must(t, "POST", "/sagas", object{"workflow_name": "waits", "business_key": "b"})
	failed := failing + "/deliveries/" + fmt.Sprint(w.ids(failing+"/deliveries", "deliveries", "id")[0])
	deputy := fmt.Sprint("/api-keys/", w.ids("/api-keys", "api_keys", "id")[0])
	session := idOf(w.Must(t, "POST", "/sessions", nil))
	w.Must(t, "POST", "/job-definitions", object{"name": "listens", "type": "event", "command_name": "none",
		"event": object{"event_type": "paid"}})
	lists, listed := map[string]string{
		"/job-runs?page_size=100": "job_runs", "/job-definitions": "job_definitions",
		"/webhooks": "webhooks", "/api-keys": "api_keys",
	}, map[string][]any{}
	for list, members := range lists {
		listed[list] = w.ids(list, members, "id")
	}
	// app.TestTheServerExaminesParticipants cancels a certification, which would not stay unchanged
	// between two reads here.
	covered := map[string]bool{"cancelCertification": true}
	for _, c := range []struct {
		operation, verb, path string // verb is the last part of the path, below the path from which the resource is read
		body                  object
		want                  string
	}{
		{"retryDeadLetter", "retry", letter, object{}, "status PENDING RETRYING"},
		{"retryDeadLetter", "retry", letter, object{"payload": object{"a": 1}}, "revision 0 1"},
		{"deleteDeadLetter", "DELETE?reason=r&", letter, object{}, "place live -"},
		{"updateDeadLetter", "PATCH", letter, object{"note": "text"}, "note - text"},
		{"discardDeadLetter", "discard", letter, object{"reason": "r"}, "status PENDING DEAD"},
		{"resolveDeadLetter", "resolve", letter, object{}, "status PENDING RESOLVED"},
		{"requeueDeadLetter", "requeue", dead, object{"reason": "r"}, "status DEAD PENDING"},
		{"acknowledgeDeadLetter", "ack", sent, object{"generation": 0, "outcome": "FAILED"}, "status RESOLVED PENDING"},
		{"updateDeadLetterGroup", "PATCH", group, object{"state": "ACKNOWLEDGED"}, "state NEW ACKNOWLEDGED"},
		{"updateRedrive", "PATCH", redrive, object{"rate_per_second": 7}, "rate_per_second 50 7"},
		{"pauseRedrive", "pause", redrive, object{}, "state PENDING PAUSED"},
		{"resumeRedrive", "resume", paused, object{}, "state PAUSED PENDING"},
		{"cancelRedrive", "cancel", redrive, object{}, "state PENDING CANCELED"},
		{"approveRedrive", "approve", approved, object{}, "state AWAITING_APPROVAL PENDING"},
		{"updateTopicPolicy", "PATCH", "/dlq/topics/dry/policy", object{"max_retries": 5}, "max_retries 3 5"},
		{"updateDefaultPolicy", "PATCH", "/dlq/policy", object{"retention_days": 3}, "retention_days 30 3"},
		{"pauseJobDefinition", "pause", "/job-definitions/dry", object{"reason": "r"}, "paused false true"},
		{"resumeJobDefinition", "resume", "/job-definitions/off", object{}, "paused true false"},
		{"createJobDefinition", "", "/job-definitions",
			object{"name": "new", "type": "manual", "command_name": "none"}, "name - new"},
		{"replaceJobDefinition", "PUT", "/job-definitions/dry",
			object{"name": "dry", "type": "manual", "command_name": "other"}, "command_name none other"},
		{"updateJobDefinition", "PATCH", "/job-definitions/dry", object{"description": "text"}, "description - text"},
		{"deleteJobDefinition", "DELETE?", "/job-definitions/off", object{}, "deleted_at - 2"},
		{"deleteJobDefinition", "DELETE?force=true&reason=r&", "/job-definitions/dry", object{}, "state PENDING CANCELED"},
		{"createJobRun", "runs", "/job-definitions/dry", object{}, "new_run - PENDING"},
		{"rerunJobRun", "rerun", again, object{}, "new_run - PENDING"},
		{"reassignJobRun", "reassign", held, object{}, "state ASSIGNED ORPHANED"},
		{"drainWorker", "drain", worker, object{}, "state ACTIVE DRAINING"},
		{"undrainWorker", "undrain", draining, object{}, "state DRAINING ACTIVE"},
		{"detachWorker", "detach", worker, object{}, "state ACTIVE DETACHED"},
		{"undetachWorker", "undetach", detached, object{}, "state DETACHED LOST"},
		{"rotateWebhookSecret", "rotate-secret", webhook, object{}, "former_secret_expires_at - 2"},
		{"testWebhook", "test", webhook, object{}, "new_delivery - pending"},
		{"deleteWebhook", "DELETE?", webhook, object{}, "place live -"},
		{"putParticipant", "PUT", "/participants/open", object{"base_url": w.Participant + "/new"}, "base_url http"},
		{"deleteParticipant", "DELETE?", "/participants/open", object{}, "place live -"},
		{"holdParticipant", "hold", "/participants/open", object{}, "state OPEN HELD"},
		{"releaseParticipant", "release", "/participants/held", object{}, "state HELD RELEASING"},
		{"createSaga", "", "/sagas", object{"workflow_name": "dry", "payload": object{}}, "state - pending"},
		{"createSaga", "", "/sagas", object{"steps": []object{{"name": "a", "compensation": "none",
			"action": object{"http": object{"url": w.Participant + "/ok"}}}}}, "workflow_version - 1"},
		{"createWebhook", "", "/webhooks", object{"url": "https://127.0.0.1/new"}, "url - https"},
		{"redeliverWebhookDelivery", "redeliver", failed, object{}, "status failed pending"},
		{"redeliverWebhookDelivery", "redeliver", failed, object{}, "status PENDING RETRYING"},
		{"redeliverFailed", "redeliver", failing, object{"since": at(-1)}, "status failed pending"},
		{"redeliverFailed", "redeliver", failing, object{"since": at(-1)}, "status PENDING RETRYING"},
		{"publishJobEvent", "", "/events", object{"event_type": "paid"}, "event_type - paid"},
		{"publishJobEvent", "", "/events", object{"event_type": "paid"}, "new_run - PENDING"},
		{"createAPIKey", "", "/api-keys", object{"name": "new", "role": "auditor"}, "role - auditor"},
		{"revokeAPIKey", "revoke", deputy, object{"reason": "r"}, "active true false"},
		{"deleteSession", "DELETE/" + session + "?", "/sessions", object{}, "active true false"},
		{"holdJobQueue", "hold", "/job-queues/open", object{}, "state OPEN HELD"},
		{"releaseJobQueue", "release", "/job-queues/stopped", object{}, "state HELD OPEN"},
		{"updateSaga", "PATCH", noted, object{"note": "text"}, "note - text"},
		{"restoreSaga", "restore", ended, object{"reason": "r"}, "place archive live"},
		{"cancelJobRun", "cancel", run, object{}, "state PENDING CANCELED"},
		{"enableWebhook", "enable", off, object{}, "enabled false true"},
		{"disableWebhook", "disable", webhook, object{}, "enabled true false"},
		{"updateWebhook", "PATCH", webhook, object{"description": "text"}, "description - text"},
		{"enableWorkflow", "enable", "/workflows/off", object{}, "enabled false true"},
		{"disableWorkflow", "disable", "/workflows/dry", object{}, "enabled true false"},
		{"resumeSagaBulk", "resume", halted["bulk-of-sagas"], object{"reason": "r"}, "state HALTED RUNNING"},
		{"cancelSagaBulk", "cancel", halted["bulk-of-sagas"], object{"reason": "r"}, "state HALTED CANCELED"},
		{"resumeJobBulk", "resume", halted["bulk-of-runs"], object{"reason": "r"}, "state HALTED RUNNING"},
		{"cancelJobBulk", "cancel", halted["bulk-of-runs"], object{"reason": "r"}, "state HALTED CANCELED"},
		{"resumeBackfill", "resume", halted["backfill"], object{"reason": "r"}, "state HALTED RUNNING"},
		{"cancelBackfill", "cancel", halted["backfill"], object{"reason": "r"}, "state HALTED CANCELED"},
		{"cancelBackfill", "cancel", filled, object{"reason": "r"}, "state PENDING CANCELED"},
		{"changeSettings", "PATCH", "/settings", object{"values": object{"assign_ahead_seconds": 90}},
			"assign_ahead_seconds 60 90"},
	} {
		covered[c.operation] = true
		before := w.Must(t, "GET", c.path, nil)
		method, path := "POST", strings.TrimSuffix(c.path+"/"+c.verb, "/")+"?"
		verb, with, _ := strings.Cut(c.verb, "?")
		if verb, of, _ := strings.Cut(verb, "/"); verb == strings.ToUpper(verb) && verb != "" { // of: an item of the path
			method, path = verb, strings.TrimSuffix(c.path+"/"+of, "/")+"?"+with
		}
		status, dry := w.Call(t, method, path+"dry_run=true", c.body)
		var said []string
		changes, _ := dry["changes"].([]any)
		for _, change := range changes {
			text := func(member string) string {
				if v, ok := change.(object)[member]; ok {
					return fmt.Sprint(v)
				}
				return "-"
			}
			said = append(said, text("member")+" "+text("from")+" "+text("to"))
		}
		if status != 200 || !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, c.want) }) {
			t.Errorf("%s: %d, says %q, not %q: %v", c.operation, status, said, c.want, dry)
		}
		s.Token = ada
		if status, dry := w.Call(t, method, path+"dry_run=true", c.body); status >= 500 {
			t.Errorf("%s by a person: %d %v", c.operation, status, dry)
		}
		s.Token = ""
		if after := w.Must(t, "GET", c.path, nil); !reflect.DeepEqual(before, after) {
			t.Errorf("the dry run of %s has changed %v to %v", c.operation, before, after)
		}
	}
	// The dry run of a request that would be refused is refused with the same words.
	for _, c := range []struct {
		method, path string
		body         object
	}{
		{"POST", dead + "/retry", object{}},
		{"POST", letter + "/retry", object{"payload_patch": []object{{"op": "remove", "path": "/none"}}}},
		{"POST", letter + "/retry", object{"target": object{"url": "http://192.0.2.1/elsewhere"}}},
		{"POST", "/dlq/archive/" + fmt.Sprint(ids[0]) + "/restore", object{}},
		{"POST", "/job-definitions", object{"name": "dry", "type": "manual", "command_name": "none"}},
		{"PUT", "/job-definitions/off", object{"name": "dry", "type": "manual", "command_name": "none"}},
		{"PATCH", "/job-definitions/off", object{"retry": object{"max_attempts": 0}}},
		{"PATCH", "/job-definitions/off", object{"name": "held"}},
		{"DELETE", "/job-definitions/dry", object{}},
		{"POST", "/job-definitions/alone/runs", object{}},
		{"POST", "/job-definitions/dry/runs", object{"labels": object{"": ""}}},
		{"POST", "/job-definitions/none/runs", object{}},
		{"POST", run + "/rerun", object{}},
		{"POST", run + "/reassign", object{}},
		{"POST", detached + "/undrain", object{}},
		{"POST", off + "/test", object{}},
		{"DELETE", "/webhooks/" + fmt.Sprint(ids[0]), object{}},
		{"POST", noted + "/restore", object{"reason": "r"}},
		{"POST", "/sagas", object{"workflow_name": "off", "payload": object{}}},
		{"POST", "/sagas", object{"workflow_name": "none", "payload": object{}}},
		{"POST", "/sagas", object{"saga_id": strings.TrimPrefix(noted, "/sagas/"), "workflow_name": "dry"}},
		{"POST", "/sagas", object{"steps": []object{}}},
		{"POST", "/sagas", object{"workflow_name": "waits", "business_key": "b"}},
		{"POST", "/webhooks", object{"url": "ftp://127.0.0.1/hook"}},
		{"POST", off + "/redeliver", object{"since": at(-1)}},
		{"POST", failing + "/deliveries/" + fmt.Sprint(ids[0]) + "/redeliver", nil},
		{"POST", "/events", object{"event_type": "order.*"}},
		{"POST", "/api-keys", object{"name": "new", "role": "auditor", "expires_at": "2001-01-01T00:00:00Z"}},
		{"POST", "/api-keys/" + fmt.Sprint(ids[0]) + "/revoke", object{"reason": "r"}},
		{"POST", deputy + "/revoke", object{}},
		{"POST", "/scheduler/leader/step-down", object{}},
	} {
		wouldBe, dry := w.Call(t, c.method, c.path+"?dry_run=true", c.body)
		status, real := w.Call(t, c.method, c.path, c.body)
		if status < 400 || status != wouldBe || dry["code"] != real["code"] || dry["detail"] != real["detail"] {
			t.Errorf("%s %s: %d %v, and its dry run %d %v", c.method, c.path, status, real, wouldBe, dry)
		}
	}
	for list, members := range lists {
		if now := w.ids(list, members, "id"); !reflect.DeepEqual(now, listed[list]) {
			t.Errorf("dry runs have changed %s from %v to %v", list, listed[list], now)
		}
	}
	for _, d := range w.Must(t, "GET", webhook+"/deliveries", nil)["deliveries"].([]any) {
		if d.(object)["saga_id"] == nil {
			t.Errorf("a dry run has sent a test: %v", d)
		}
	}
	// The leader constantly renews its lease, so the resource is not compared as a whole.
	leader := w.Must(t, "GET", "/scheduler/leader", nil)
	dry := w.Must(t, "POST", "/scheduler/leader/step-down?dry_run=true", object{"reason": "r"})
	covered["stepDownLeader"] = true
	if said := fmt.Sprint(dry["changes"]); !strings.Contains(said, "map[from:true member:alive to:false]") ||
		!strings.Contains(said, fmt.Sprintf("map[from:%v member:node]", leader["node"])) {
		t.Errorf("the dry run of stepping down says %s", said)
	}
	if now := w.Must(t, "GET", "/scheduler/leader", nil); now["epoch"] != leader["epoch"] || now["alive"] != true {
		t.Errorf("a dry run has made the leader step down: %v, then %v", leader, now)
	}
	// These share their code with an operation of the same kind above; a test of dlqapi covers
	// archived letters.
	for _, name := range []string{"putTopicPolicy", "putDefaultPolicy", "updateSagaBulk", "restoreDeadLetter"} {
		covered[name] = true
	}
	contract, err := os.ReadFile("../../../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(contract), "      operationId: ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		if strings.Contains(rest, "parameters/DryRunOfOne") && !covered[name] {
			t.Errorf("%s has dry_run, and is not tried here", name)
		}
	}
}
