package uitest_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// damagedRow is a row of one kind that can't be read.
type damagedRow struct {
	name, damage  string // $1 is its id
	make          func(t *testing.T, s *uitest.Server) (id string)
	list, members string // where it is listed next to an undamaged row; "": the two have no common list
	item, mark    string // where one row is read, and the member that marks it as damaged; mark "": none
	pages         []string
	refuses       map[string]string // verbs that need the damaged part, with the refusal's code
	allows        string            // a verb that doesn't need it, or that repairs it
}

func made(t *testing.T, s *uitest.Server, path string, body map[string]any) string {
	t.Helper()
	doc := s.Must(t, "POST", path, body)
	for _, name := range []string{"id", "webhook_id"} {
		if id, ok := doc[name].(string); ok {
			return id
		}
	}
	t.Fatalf("%s: %v", path, doc)
	return ""
}

var jobs int

func job(t *testing.T, s *uitest.Server) string {
	jobs++
	return made(t, s, "/job-definitions", map[string]any{
		"name": fmt.Sprint("job-", jobs), "type": "time", "command_name": "none", "queue": "nobody",
		"schedule": map[string]any{"type": "interval", "value": "1s"}, "concurrency_policy": "allow",
	})
}

func letter(t *testing.T, s *uitest.Server) string {
	return made(t, s, "/dlq/messages", map[string]any{
		"original_topic": "orders", "error_message": "refused", "payload": map[string]any{"n": 1},
		"target": map[string]any{"kind": "http", "url": s.Participant + "/ok"}, "correlation_id": "order-1",
	})
}

func runOf(t *testing.T, s *uitest.Server) string {
	return made(t, s, "/job-definitions/by-hand/runs", map[string]any{
		"args": map[string]any{"n": 1}, "correlation_id": "order-1",
	})
}

// backfill returns a function that backfills the job with this name, or a new job if the name is
// "".
func backfill(of string) func(*testing.T, *uitest.Server) string {
	return func(t *testing.T, s *uitest.Server) string {
		name := of
		if name == "" {
			jobs++
			name = fmt.Sprint("filled-", jobs)
		}
		if status, _ := s.Call(t, "GET", "/job-definitions/"+name, nil); status != 200 {
			s.Must(t, "POST", "/job-definitions", map[string]any{
				"name": name, "type": "time", "command_name": "none", "queue": "nobody",
				"schedule": map[string]any{"type": "cron", "value": "0 3 * * *"}, "concurrency_policy": "allow",
			})
		}
		return made(t, s, "/job-definitions/"+name+"/backfills", map[string]any{
			"from": "2026-11-01T00:00:00Z", "to": "2026-11-03T00:00:00Z", "reason": "test",
		})
	}
}

var damagedRows = []damagedRow{
	{
		name: "a job definition", damage: `UPDATE jobs.job_definitions SET spec = '{"schedule":"daily"}' WHERE id = $1`,
		make: job, list: "/job-definitions?page_size=100", members: "job_definitions",
		item: "/job-definitions/", mark: "definition_unreadable",
		pages:   []string{"/ui/jobs", "/ui/jobs/", "/ui/jobs/calendar"},
		refuses: map[string]string{"/runs": "JOB_DEFINITION_UNREADABLE", "/pause": "JOB_DEFINITION_UNREADABLE"},
	},
	{
		name: "an argument of a run", damage: `UPDATE jobs.job_runs SET args = '` + gone + `' WHERE id = $1`,
		make: runOf, list: "/job-runs?definition=by-hand", members: "job_runs",
		item: "/job-runs/", mark: "content_unreadable",
		pages:   []string{"/ui/runs", "/ui/runs/"},
		refuses: map[string]string{"/cancel": "JOB_CONTENT_UNREADABLE"},
	},
	{
		name: "the payload of a letter", damage: `UPDATE dlq.dlq_messages SET payload_raw = '$skald_enc:b1.gone.x', next_retry_at = now() + interval '1 hour' WHERE id = $1`,
		make: letter, list: "/dlq/messages?page_size=100", members: "messages",
		item: "/dlq/messages/", mark: "content_unreadable",
		pages:   []string{"/ui/dlq", "/ui/dlq/letters", "/ui/dlq/letters/", "/ui/dlq/topics/orders"},
		refuses: map[string]string{"/retry": "DLQ_CONTENT_UNREADABLE"}, allows: "/discard",
	},
	{
		name: "the headers of a letter", damage: `UPDATE dlq.dlq_messages SET headers = '\xff', next_retry_at = now() + interval '1 hour' WHERE id = $1`,
		make: letter, list: "/dlq/messages?page_size=100", members: "messages",
		item: "/dlq/messages/", mark: "content_unreadable",
		pages:   []string{"/ui/dlq/letters/"},
		refuses: map[string]string{"/retry": "DLQ_CONTENT_UNREADABLE"}, allows: "/discard",
	},
	{
		name: "the target of a letter", damage: `UPDATE dlq.dlq_messages SET target = '{"kind":5}', next_retry_at = now() + interval '1 hour' WHERE id = $1`,
		make: letter, list: "/dlq/messages?page_size=100", members: "messages",
		item: "/dlq/messages/", mark: "content_unreadable",
		pages:   []string{"/ui/dlq/letters/"},
		refuses: map[string]string{"/retry": "DLQ_CONTENT_UNREADABLE"}, allows: "/discard",
	},
	{
		name: "a redrive", damage: `UPDATE dlq.dlq_redrives SET filter = '[5]' WHERE id = $1`,
		make: func(t *testing.T, s *uitest.Server) string {
			return made(t, s, "/dlq/redrives", map[string]any{
				"action": "retry", "filter": map[string]any{"topic": "nothing"}, "reason": "test",
				"scheduled_for": "2026-12-24T00:00:00Z",
			})
		},
		list: "/dlq/redrives", members: "redrives", item: "/dlq/redrives/", mark: "filter_unreadable",
		pages: []string{"/ui/redrives", "/ui/redrives/"}, allows: "/cancel",
	},
	{
		name: "a bulk of sagas", damage: `UPDATE saga.saga_bulks SET filter = '[5]', state = 'RUNNING', ended_at = NULL WHERE id = $1`,
		make: func(t *testing.T, s *uitest.Server) string {
			return made(t, s, "/sagas/bulk", map[string]any{
				"action": "suspend", "filter": map[string]any{"workflow_name": "nothing"}, "reason": "test",
			})
		},
		list: "/sagas/bulk", members: "bulks", item: "/sagas/bulk/", mark: "filter_unreadable",
		pages: []string{"/ui/sagas/bulk/"}, allows: "/cancel",
	},
	{
		name: "a bulk of runs", damage: `UPDATE jobs.bulks SET filter = '[5]', state = 'RUNNING', ended_at = NULL WHERE id = $1`,
		make: func(t *testing.T, s *uitest.Server) string {
			return made(t, s, "/job-runs/bulk", map[string]any{
				"action": "cancel", "filter": map[string]any{"label": "team=none"}, "reason": "test",
			})
		},
		list: "/job-runs/bulk", members: "bulks", item: "/job-runs/bulk/", mark: "filter_unreadable",
		pages: []string{"/ui/run-bulks", "/ui/run-bulks/"}, allows: "/cancel",
	},
	{
		name: "a backfill", damage: `UPDATE jobs.backfills SET schedule = '"daily"', state = 'RUNNING', ended_at = NULL WHERE id = $1`,
		make: backfill("filled"), list: "/job-definitions/filled/backfills", members: "backfills",
		item: "/backfills/", mark: "schedule_unreadable", pages: []string{"/ui/backfills/"}, allows: "/cancel",
	},
	{
		name: "the schedule of a backfill", damage: `UPDATE jobs.backfills SET schedule = '{"type":"interval","value":"often"}', state = 'RUNNING', ended_at = NULL WHERE id = $1`,
		make: backfill("filled"), list: "/job-definitions/filled/backfills", members: "backfills",
		item: "/backfills/", mark: "schedule_unreadable", pages: []string{"/ui/backfills/"}, allows: "/cancel",
	},
	{
		name: "the definition of a backfill's job", damage: `WITH b AS (
				UPDATE jobs.backfills SET state = 'RUNNING', ended_at = NULL WHERE id = $1 RETURNING definition_id)
			UPDATE jobs.job_definitions d SET spec = '{"schedule":"daily"}' FROM b WHERE d.id = b.definition_id`,
		make: backfill(""), item: "/backfills/", mark: "definition_unreadable",
		pages: []string{"/ui/backfills/"}, allows: "/cancel",
	},
	{
		name: "a webhook's secrets", damage: `DELETE FROM saga.webhook_secrets WHERE webhook_id = $1`,
		make: func(t *testing.T, s *uitest.Server) string {
			return made(t, s, "/webhooks", map[string]any{"url": s.Participant + "/ok"})
		},
		list: "/webhooks", members: "webhooks", item: "/webhooks/",
		pages: []string{"/ui/webhooks", "/ui/webhooks/"}, allows: "/rotate-secret",
	},
	{
		name: "a policy", damage: `UPDATE dlq.dlq_policies SET backoff = '[5]', alert = '"x"' WHERE topic = $1`,
		make: func(t *testing.T, s *uitest.Server) string {
			for _, topic := range []string{"orders", "other"} {
				s.Must(t, "PATCH", "/dlq/topics/"+topic+"/policy", map[string]any{"max_retries": 3, "reason": "test"})
			}
			return "orders"
		},
		list: "/dlq/topics", members: "topics", item: "/dlq/topics/orders/policy?", mark: "policy_unreadable",
		pages: []string{"/ui/dlq/topics/orders"},
	},
}

// TestADamagedRowTakesNothingElseAway: of each kind, one row is damaged and another one is not.
// Lists contain both, the damaged row is marked, actions that need the damaged part are refused
// with a code, the row's pages are still shown, and loops continue with the other rows without
// flooding the log.
func TestADamagedRowTakesNothingElseAway(t *testing.T) {
	ids, others := map[string]string{}, map[string]string{}
	s := restored(t, func(s *uitest.Server) {
		s.Must(t, "POST", "/job-definitions", map[string]any{
			"name": "by-hand", "type": "manual", "command_name": "none", "queue": "nobody", "concurrency_policy": "allow",
		})
		for _, r := range damagedRows {
			ids[r.name], others[r.name] = r.make(t, s), r.make(t, s)
		}
	}, func(db *sql.DB) {
		for _, r := range damagedRows {
			execute(t, db, r.damage, ids[r.name])
		}
	})
	for _, path := range []string{
		"/overview", "/timeline?correlation_id=order-1", "/search?q=order-1", "/statistics/dead-letters", "/dlq/groups", "/dlq/topics",
		"/job-calendar?from=2026-11-26T00:00:00Z&to=2026-11-27T00:00:00Z", "/job-runs", "/scheduler/leader", "/audit", "/job-runs/bulk",
	} {
		if status, doc := s.Call(t, "GET", path, nil); status != 200 {
			t.Errorf("%s: %d %v", path, status, doc)
		}
	}
	for _, page := range []string{
		"/ui/", "/ui/dlq", "/ui/runs", "/ui/jobs", "/ui/timeline?correlation_id=order-1", "/ui/audit",
	} {
		if status, text := s.Get(t, page); status != 200 {
			t.Errorf("%s: %d\n%s", page, status, text)
		}
	}
	for _, r := range damagedRows {
		t.Run(strings.ReplaceAll(r.name, " ", "-"), func(t *testing.T) { r.try(t, s, ids[r.name], others[r.name]) })
	}
	// The scheduler continues with the undamaged definition.
	begun := func() int {
		list := s.Must(t, "GET", "/job-runs?definition="+others["a job definition"]+"&page_size=200", nil)
		return len(list["job_runs"].([]any))
	}
	before := begun()
	patience.Until(t, "the other definition has made three more runs", func() bool { return begun() >= before+3 })
	for _, r := range damagedRows {
		if n := strings.Count(s.Logs(), ids[r.name]); r.name != "a policy" && n > 40 {
			t.Errorf("%s: %d lines of the log name it", r.name, n)
		}
	}
}

func (r *damagedRow) try(t *testing.T, s *uitest.Server, id, other string) {
	text := id + other
	if r.list != "" {
		text = fmt.Sprint(s.Must(t, "GET", r.list, nil)[r.members])
	}
	for _, one := range []string{id, other} {
		if !strings.Contains(text, one) {
			t.Errorf("%s does not list %s: %s", r.list, one, text)
		}
	}
	for _, one := range []string{id, other} {
		path := r.item + one
		if strings.HasSuffix(r.item, "?") {
			path = r.item
		}
		status, doc := s.Call(t, "GET", path, nil)
		if status != 200 || r.mark != "" && (doc[r.mark] == true) != (one == id) {
			t.Errorf("%s: %d %v", path, status, doc)
		}
		for _, page := range r.pages {
			if strings.HasSuffix(page, "/") {
				page += one
			}
			status, text := s.Get(t, page)
			if status != 200 {
				t.Errorf("%s: %d\n%s", page, status, text)
			}
			says := strings.Contains(text, "</span> unreadable</span>")
			if r.mark != "" && strings.HasSuffix(page, one) && says != (one == id) {
				t.Errorf("%s says that it is damaged, or not: %s", page, text)
			}
		}
	}
	for verb, code := range r.refuses {
		status, doc := s.Call(t, "POST", r.item+id+verb, map[string]any{"reason": "test"})
		if status != 409 || doc["code"] != code {
			t.Errorf("%s: %d %v", verb, status, doc)
		}
	}
	if r.allows != "" {
		if status, doc := s.Call(t, "POST", r.item+id+r.allows, map[string]any{"reason": "test"}); status/100 != 2 {
			t.Errorf("%s: %d %v", r.allows, status, doc)
		}
	}
}
