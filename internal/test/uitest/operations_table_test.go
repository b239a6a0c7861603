package uitest_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/uitest"
)

type object = map[string]any

// guarded starts a server on which people have keys, so that one person can approve another's
// request.
func guarded(t *testing.T, change ...func(*config.Config)) *uitest.Server {
	t.Helper()
	key := "skald_abcdefgh_" + base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	s := uitest.Start(t, func(c *config.Config) {
		c.Auth.BootstrapAdminKey, c.Webhooks.MaxAttempts = config.Secret(key), 1
		for _, f := range change {
			f(c)
		}
	})
	s.Key = key
	return s
}

// operation is a way to act on many resources of a kind at once. Each operation is used with a name
// of its own, by which it selects its resources.
type operation struct {
	name string
	add  func(w *acting, n int)                // stores more resources that it would select
	ask  func(w *acting) (at string, b object) // the request, without the member expected
	read string                                // the path to read it from, without its id
	kind string                                // the kind of its records in the audit trail
	done string                                // the member that counts the resources it has processed
	plan string                                // the change, from and to, that its dry run reports for three resources
	// changed contains members for which a different value makes the request a different one.
	changed object
	before  func(w *acting, o object) // called before the operation runs; nil: nothing
}

// acting is one use of an operation.
type acting struct {
	*uitest.Server
	t    *testing.T
	name string
}

func letters(w *acting, n int) {
	batch := make([]object, n)
	for i := range batch {
		batch[i] = object{
			"original_topic": w.name, "error_type": "IOError", "error_message": "refused by " + w.name, "payload": object{},
			"target": object{"kind": "http", "url": w.Participant + "/ok"},
		}
	}
	w.Must(w.t, "POST", "/dlq/messages/batch", object{"messages": batch})
}

func (w *acting) group() string {
	groups := w.Must(w.t, "GET", "/dlq/groups?topic="+w.name, nil)["groups"].([]any)
	return groups[0].(object)["fingerprint"].(string)
}

func (w *acting) ids(list, members, id string) (ids []any) {
	for _, one := range w.Must(w.t, "GET", list, nil)[members].([]any) {
		ids = append(ids, one.(object)[id])
	}
	return ids
}

func sagas(w *acting, n int) {
	w.Call(w.t, "POST", "/workflows", object{"name": w.name, "steps": []object{{
		"name": "a", "action": object{"http": object{"url": w.Participant + "/503"}}, "compensation": "none",
		"retry": object{"max_attempts": 1000, "initial_interval_ms": 60_000},
	}}})
	for range n {
		w.Must(w.t, "POST", "/sagas", object{"workflow_name": w.name, "payload": object{}})
	}
}

func runs(w *acting, n int) {
	w.Call(w.t, "POST", "/job-definitions", object{
		"name": w.name, "type": "manual", "command_name": "none", "queue": "none", "concurrency_policy": "allow",
	})
	for range n {
		w.Must(w.t, "POST", "/job-definitions/"+w.name+"/runs", object{"respect_concurrency": false})
	}
}

// slots gives a job an hourly schedule; it adds more slots by making the job due more often.
func slots(w *acting, n int) {
	schedule := object{"type": "hourly_at_minute", "value": "0"}
	if status, _ := w.Call(w.t, "POST", "/job-definitions", object{
		"name": w.name, "type": "time", "command_name": "none", "queue": "none", "schedule": schedule,
		"concurrency_policy": "allow",
	}); status/100 != 2 && n == 1 {
		w.Must(w.t, "PATCH", "/job-definitions/"+w.name, object{"schedule": object{"type": "interval", "value": "10m"}})
	}
}

var hour = time.Now().UTC().Truncate(time.Hour)

func at(hours int) string { return hour.Add(time.Duration(hours) * time.Hour).Format(time.RFC3339) }

func redriveOf(action string, more object) func(w *acting) (string, object) {
	return func(w *acting) (string, object) {
		b := object{"action": action, "filter": object{"topic": w.name}, "reason": "r"}
		maps.Copy(b, more)
		return "/dlq/redrives", b
	}
}

var (
	ofRedrive = object{
		"expected": 7, "rate_per_second": 9, "max_messages": 6, "order": "per_key", "reason": "another", "force": true,
		"stop_on": object{"failures": 3}, "canary": object{"count": 1}, "include_later": true, "concurrency": 3,
		"filter": object{"topic": "another"}, "scheduled_for": "2026-12-31T00:00:00Z", "approval_required": true,
	}
	ofIDs = object{"expected": 7, "rate_per_second": 9, "reason": "another", "action": "discard",
		"ids": []string{"01980000-0000-7000-8000-000000000000"}}
)

func operations() []operation {
	soon := func() string { return time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339Nano) }
	return []operation{
		{
			name: "redrive-by-filter", add: letters, ask: redriveOf("retry", nil),
			read: "/dlq/redrives/", kind: "redrive", done: "done", plan: "dead_letter status PENDING RETRYING", changed: ofRedrive,
		},
		{
			name: "redrive-by-ids", add: letters, ask: func(w *acting) (string, object) {
				return "/dlq/redrives", object{"action": "retry", "reason": "r",
					"ids": w.ids("/dlq/messages?topic="+w.name, "messages", "id")}
			},
			read: "/dlq/redrives/", kind: "redrive", done: "done", plan: "dead_letter status PENDING RETRYING", changed: ofIDs,
		},
		{
			name: "redrive-of-a-group", add: letters, ask: func(w *acting) (string, object) {
				return "/dlq/redrives", object{"action": "resolve", "filter": object{"fingerprint": w.group()}, "reason": "r"}
			},
			read: "/dlq/redrives/", kind: "redrive", done: "done", plan: "dead_letter status PENDING RESOLVED", changed: object{"expected": 7, "action": "discard"},
		},
		{
			name: "scheduled-redrive", add: letters, ask: func(w *acting) (string, object) {
				return redriveOf("discard", object{"scheduled_for": soon()})(w)
			},
			read: "/dlq/redrives/", kind: "redrive", done: "done", plan: "dead_letter status PENDING DEAD", changed: object{"expected": 7, "action": "retry"},
		},
		{
			name: "approved-redrive", add: letters, ask: redriveOf("delete", object{"approval_required": true}),
			read: "/dlq/redrives/", kind: "redrive", done: "done", plan: "dead_letter place live -",
			changed: object{"expected": 7, "approval_required": false},
			before: func(w *acting, o object) {
				key := w.Must(w.t, "POST", "/api-keys", object{"name": "deputy", "role": "admin"})["key"].(string)
				deputy := *w.Server
				deputy.Key = key
				got := deputy.Must(w.t, "POST", "/dlq/redrives/"+idOf(o)+"/approve", object{"reason": "seen"})
				if fmt.Sprint(got["expected"]) != "3" {
					w.t.Errorf("what was approved is for %v letters", got["expected"])
				}
			},
		},
		{
			name: "group-retry", add: letters, ask: func(w *acting) (string, object) {
				return "/dlq/groups/" + w.group() + "/retry", object{"reason": "r"}
			},
			read: "/dlq/redrives/", kind: "redrive", done: "done", plan: "dead_letter status PENDING RETRYING",
			changed: object{"expected": 7, "rate_per_second": 9, "max_messages": 6, "reason": "another", "force": true},
		},
		{
			name: "group-discard", add: letters, ask: func(w *acting) (string, object) {
				return "/dlq/groups/" + w.group() + "/discard", object{"reason": "r"}
			},
			read: "/dlq/redrives/", kind: "redrive", done: "done", plan: "dead_letter status PENDING DEAD",
			changed: object{"expected": 7, "rate_per_second": 9, "max_messages": 6, "reason": "another"},
		},
		{
			name: "retry-all", add: letters, ask: func(w *acting) (string, object) {
				return "/dlq/" + w.name + "/retry-all?wait=0s", object{}
			},
			read: "/dlq/redrives/", kind: "redrive", done: "done", plan: "dead_letter status PENDING RETRYING",
			changed: object{"expected": 7, "rate_per_second": 9, "max_messages": 6, "reason": "another"},
		},
		{
			name: "bulk-of-sagas", add: sagas, ask: func(w *acting) (string, object) {
				return "/sagas/bulk", object{"action": "suspend", "filter": object{"workflow_name": w.name}, "reason": "r"}
			},
			read: "/sagas/bulk/", kind: "saga_bulk", done: "done", plan: "saga suspended_at - +",
			changed: object{"expected": 7, "rate_per_second": 9, "action": "cancel", "reason": "another",
				"filter": object{"workflow_name": "another"}},
		},
		{
			name: "bulk-of-named-sagas", add: sagas, ask: func(w *acting) (string, object) {
				return "/sagas/bulk", object{"action": "cancel", "reason": "r",
					"ids": w.ids("/sagas?workflow_name="+w.name, "sagas", "saga_id")}
			},
			read: "/sagas/bulk/", kind: "saga_bulk", done: "done", plan: "saga end_cause - cancelled",
			changed: object{"expected": 7, "rate_per_second": 9, "action": "suspend", "reason": "another"},
		},
		{
			name: "bulk-of-runs", add: runs, ask: func(w *acting) (string, object) {
				return "/job-runs/bulk", object{"action": "cancel", "filter": object{"definition": w.name}, "reason": "r"}
			},
			read: "/job-runs/bulk/", kind: "job_bulk", done: "done", plan: "job_run state PENDING CANCELED",
			changed: object{"expected": 7, "action": "rerun", "reason": "another",
				"filter": object{"definition": "bulk-of-runs", "queue": "none"}},
		},
		{
			name: "backfill", add: slots, ask: func(w *acting) (string, object) {
				return "/job-definitions/" + w.name + "/backfills",
					object{"from": at(-3), "to": at(0), "max_active": 100, "reason": "r"}
			},
			read: "/backfills/", kind: "job_backfill", done: "created", plan: "job_run new_run - PENDING",
			changed: object{"expected": 7, "from": at(-2), "to": at(-1), "max_active": 9, "order": "newest",
				"reprocess": "failed", "overlap": "allow", "reason": "another"},
		},
	}
}
