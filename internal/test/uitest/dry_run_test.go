package uitest_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestADryRunOfOneThing asks of every action on one thing that has dry_run what it would change, and finds the thing
// as it was.
func TestADryRunOfOneThing(t *testing.T) {
	t.Parallel()
	s := guarded(t)
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
	later := object{"action": "RETRY", "filter": object{"topic": "dry"}, "reason": "r",
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
	w.Call(t, "POST", "/workflows", object{"name": "dry", "steps": []object{{
		"name": "a", "action": object{"http": object{"url": w.Participant + "/ok"}}, "compensation": "none",
	}}})
	w.Call(t, "POST", "/workflows", object{"name": "off", "steps": []object{{
		"name": "a", "action": object{"http": object{"url": w.Participant + "/ok"}}, "compensation": "none",
	}}})
	w.Must(t, "POST", "/workflows/off/disable", object{})
	w.Must(t, "POST", "/job-definitions", object{"name": "off", "type": "manual", "command_name": "none"})
	w.Must(t, "POST", "/job-definitions/off/pause", object{"reason": "r"})
	halted := map[string]string{}
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
	}
	group := "/dlq/groups/" + w.group()
	covered := map[string]bool{}
	for _, c := range []struct {
		operation, verb, path string // the last part of the path, below that where it is read
		body                  object
		want                  string
	}{
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
		{"changeSettings", "PATCH", "/settings", object{"values": object{"assign_ahead_seconds": 90}},
			"assign_ahead_seconds 60 90"},
	} {
		covered[c.operation] = true
		before := w.Must(t, "GET", c.path, nil)
		method, path := "POST", c.path+"/"+c.verb
		if c.verb == "PATCH" {
			method, path = c.verb, c.path
		}
		status, dry := w.Call(t, method, path+"?dry_run=true", c.body)
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
		if status != 200 || !slices.Contains(said, c.want) {
			t.Errorf("%s: %d, says %q, not %q: %v", c.operation, status, said, c.want, dry)
		}
		if after := w.Must(t, "GET", c.path, nil); !reflect.DeepEqual(before, after) {
			t.Errorf("the dry run of %s has changed %v to %v", c.operation, before, after)
		}
	}
	// The others of a kind share the code of one above.
	for _, name := range []string{"putTopicPolicy", "putDefaultPolicy", "updateSagaBulk"} {
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
