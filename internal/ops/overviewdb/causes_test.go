package overviewdb_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/uitest"
)

// trouble is a server on which everything that the overview can detect goes wrong.
type trouble struct {
	*testing.T
	*uitest.Server
	answers string // an endpoint that answers with the status that its path names
}

type object = map[string]any

func (t trouble) made(method, path string, body object) object {
	t.Helper()
	status, doc := t.Call(t, method, path, body)
	if status/100 != 2 {
		t.Fatalf("%s %s: %d %v", method, path, status, doc)
	}
	return doc
}

// change sends a PATCH regardless of the current version.
func (t trouble) change(path, body string) {
	t.Helper()
	req, err := http.NewRequest("PATCH", t.URL+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "If-Match": {"*"}}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 {
		t.Fatalf("%s: %s %s %v", path, res.Status, text, err)
	}
}

// wanted is a cause as a person finds it, or is to find it.
type wanted struct {
	kind, summary string
	operation     string // that helps
	page          string // what the page behind the button says
}

var causes = []wanted{
	{"sagas_need_attention", "1 saga of refused: the compensation of reserve gave up (http_503)", "resumeCompensation", "reserve"},
	{"sagas_stuck", "1 saga of unanswered: reserve keeps failing", "explainSaga", "unanswered"},
	{"group_new", "A new error in payments: “the bank is closed”", "retryDeadLetterGroup", `name="filter.fingerprint"`},
	{"group_new", "2 new errors of type IOError in billing, most often “no answer of the ledger”", "createRedrive",
		`name="filter.error_type" value="IOError"`},
	{"group_regressed", "An error came back in mail: “the mailbox is full”", "retryDeadLetterGroup", `name="filter.fingerprint"`},
	{"redrive_halted", "A redrive of dead letters was halted (failures)", "resumeRedrive", "halted automatically"},
	{"redrive_awaiting_approval", "A redrive of dead letters is waiting for a second person's approval", "approveRedrive",
		"awaiting approval"},
	{"runs_failed", "Job nightly failed: 2 runs in the last 24 h (BAD_FILE)", "rerunJobRun", "BAD_FILE"},
	{"runs_late", "1 run in queue slow is late", "explainJobRun", "slow"},
	{"queue_without_worker", "No worker takes 1 run from queue gpu", "explainJobRun", "No active worker takes runs from queue"},
	{"worker_lost", "Worker silent is silent", "detachWorker", "it no longer sends heartbeats"},
	{"webhook_disabled", " is disabled (the endpoint answered 410 Gone)", "enableWebhook", "410 Gone"},
	{"webhook_failing", "Deliveries to webhook ", "testWebhook", "failing"},
	{"participant_held", "anonymous holds the participant card: maintenance", "releaseParticipant",
		"Calls are on hold"},
	{"queue_held", "Queue upkeep is held", "releaseJobQueue", "the disk is replaced"},
}

// TestEachCauseIsFound creates each kind of trouble, finds it in the overview with the step that
// helps, and follows the button on the page.
func TestEachCauseIsFound(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	db := pgtest.Observer(t, dsn)
	node := func(roles ...string) func(*config.Config) {
		return func(c *config.Config) {
			c.Database.URL, c.Roles, c.Engine.StalledFailures = config.Secret(dsn), roles, 1
		}
	}
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(map[string]int{"/503": 503, "/410": 410}[r.URL.Path])
	}))
	t.Cleanup(endpoint.Close)
	s := trouble{t, uitest.Start(t, node(config.RoleAPI, config.RoleEngine)), endpoint.URL}
	s.sagas()
	s.letters()
	s.jobs()
	t.Run("while a node leads", func(t *testing.T) {
		uitest.Start(t, node(config.RoleScheduler))
		worker := s.fails(t)
		pgtest.Execute(t, db, `UPDATE jobs.workers SET heartbeat_at = now() - interval '1 hour' WHERE id = $1`, worker)
		pgtest.Execute(t, db, `UPDATE jobs.job_runs SET scheduled_for = now() - interval '5 minutes',
			available_at = now() - interval '5 minutes' WHERE queue IN ('slow', 'gpu')`)
		pgtest.Execute(t, db, `UPDATE jobs.job_runs SET state = 'SKIPPED', version = version + 1,
			finished_at = now() WHERE queue = 'never'`)
		for _, want := range causes {
			s.finds(t, want)
		}
	})
	s.glances()
	s.flows()
	s.finds(t, wanted{"no_leader", "No node leads the job scheduler", "getLeader", "There is no leader"})
	term := pgtest.Lead(t, leaderdb.NewElections(pgtest.Connect(t, dsn)), time.Hour)
	pgtest.Execute(t, db, `UPDATE jobs.leader SET swept_at = now() - interval '10 minutes' WHERE epoch = $1`, term.Epoch)
	s.finds(t, wanted{"sweep_late", "does not look for lost and late runs", "getLeader", "Last round"})
}

// glances follows the figures of the page to what they count.
func (t trouble) glances() {
	_, page := t.Get(t, "/ui/")
	_, figures, _ := strings.Cut(html.UnescapeString(page), `<dl class="figures">`)
	figures, _, _ = strings.Cut(figures, "</dl>")
	for label, says := range map[string]string{
		"runs failed permanently, 24 h": "2 runs", "run skipped, 24 h": "1 run", "runs late": "2 runs",
		"job paused": "1 job,",
	} {
		before, _, ok := strings.Cut(figures, `">`+label)
		_, link, _ := strings.Cut(before[strings.LastIndex(before, "<a "):], `href="`)
		if status, behind := t.Get(t, link); !ok || status != 200 || !strings.Contains(behind, says) {
			t.Errorf("%s: %s answers %d, without %q\n%s", label, link, status, says, behind)
		}
	}
}

// flows finds what came in the last minutes.
func (t trouble) flows() {
	traffic := t.made("GET", "/overview", nil)["traffic"].(object)
	for name, want := range map[string]object{
		"sagas": {"count": "2", "ended": "1", "failed": "1"}, "runs": {"count": "4", "failed": "2"}, "letters": {"seconds": "300"},
	} {
		got := traffic[name].(object)
		for member, value := range want {
			if fmt.Sprint(got[member]) != value {
				t.Errorf("traffic of %s: %v, want %v", name, got, want)
			}
		}
		if fmt.Sprint(got["count"]) == "0" || fmt.Sprint(got["per_minute"]) == "0" {
			t.Errorf("no traffic of %s: %v", name, got)
		}
	}
	var minutes, started, failed, letters int64
	for _, m := range t.made("GET", "/overview", nil)["minutes"].([]any) {
		n := func(name string) (n int64) {
			if _, err := fmt.Sscan(fmt.Sprint(m.(object)[name]), &n); err != nil {
				t.Errorf("%s of %v: %v", name, m, err)
			}
			return n
		}
		minutes, started = minutes+1, started+n("sagas_started")
		failed, letters = failed+n("sagas_failed"), letters+n("letters")
	}
	if minutes != 60 || started != 2 || failed != 1 || letters < 6 {
		t.Errorf("in %d minutes %d sagas were started, of which %d failed, and %d letters arrived", minutes, started, failed,
			letters)
	}
	_, page := t.Get(t, "/ui/")
	for _, want := range []string{"Traffic now", "2 of 4 failed", "a minute", "Last hour",
		`aria-label="By minute, sagas started: 2 in 60 minutes, with a maximum of `} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// sagas: one gave up its compensation, one keeps calling without success. Webhooks are notified of both.
func (t trouble) sagas() {
	for _, path := range []string{"/503", "/410"} {
		t.made("POST", "/webhooks", object{"url": t.answers + path, "event_types": []string{"saga.*"}})
	}
	t.made("PUT", "/participants/card", object{"base_url": t.Participant + "/card"})
	t.made("POST", "/participants/card/hold", object{"reason": "maintenance"})
	step := func(name, action, undo string) object {
		return object{"name": name, "action": object{"http": object{"url": t.Participant + action}},
			"compensation": object{"http": object{"url": t.Participant + undo}}}
	}
	for name, steps := range map[string][]any{
		"refused":    {step("reserve", "/ok", "/503/undo"), step("charge", "/409/charge", "/ok")},
		"unanswered": {step("reserve", "/503", "/ok")},
	} {
		t.made("POST", "/workflows", object{"name": name, "steps": steps, "compensation_retry": object{"max_attempts": 1},
			"retry": object{"max_attempts": 9, "initial_interval_ms": 600000, "max_interval_ms": 600000}})
		t.made("POST", "/sagas", object{"workflow_name": name})
	}
}

// letters: of two kinds, one of them resolved before; a redrive fails, another one waits.
func (t trouble) letters() {
	letter := func(topic, message string) string {
		doc := object{"original_topic": topic, "error_message": message,
			"payload": object{"a": 1}, "target": object{"kind": "http", "url": t.answers + "/503"}}
		if topic == "billing" {
			doc["error_type"] = "IOError"
		}
		return t.made("POST", "/dlq/messages", doc)["id"].(string)
	}
	letter("payments", "the bank is closed")
	letter("billing", "no answer of the bank")
	for range 2 {
		letter("billing", "no answer of the ledger")
	}
	letter("mail", "the mailbox is full")
	groups := t.made("GET", "/dlq/groups?topic=mail", nil)["groups"].([]any)
	t.change("/dlq/groups/"+groups[0].(object)["fingerprint"].(string), `{"state": "RESOLVED"}`)
	letter("mail", "the mailbox is full")
	for i := range 2 {
		t.made("POST", "/dlq/redrives", object{"action": "retry", "filter": object{"topic": "mail"}, "reason": "test",
			"approval_required": i > 0, "stop_on": object{"failures": 1}})
	}
}

// jobs have runs that no worker takes, and runs that fail.
func (t trouble) jobs() {
	t.change("/settings", `{"values": {"heartbeat_ttl_seconds": 300, "worker_detach_grace_seconds": 3600}, "reason": "test"}`)
	for name, queue := range map[string]string{
		"nightly": "default", "slowly": "slow", "render": "gpu", "clean": "upkeep", "skipped": "never",
	} {
		t.made("POST", "/job-definitions", object{"name": name, "type": "manual", "command_name": name, "queue": queue})
		t.made("POST", "/job-definitions/"+name+"/runs", object{})
	}
	t.made("POST", "/job-queues/upkeep/hold", object{"reason": "the disk is replaced"})
	t.made("POST", "/job-definitions/render/pause", object{"reason": "test"})
	t.made("POST", "/workers", object{"name": "idle", "queues": []string{"slow"}})
	for range 2 {
		t.made("POST", "/job-definitions/nightly/runs", object{})
	}
}

// fails runs the job nightly, which fails twice, and returns its worker.
func (t trouble) fails(sub *testing.T) uuid.UUID {
	worker := t.made("POST", "/workers", object{"name": "silent"})["worker_id"].(string)
	for n := 0; n < 3; {
		claimed := t.made("POST", "/workers/"+worker+"/claim", object{"slots": 3, "wait_ms": 1000, "start": true})
		for _, r := range claimed["runs"].([]any) {
			run := r.(object)
			proof := object{"worker_id": worker, "attempt": run["attempt"], "lease_token": run["lease_token"],
				"leader_epoch": run["leader_epoch"]}
			end := "/complete"
			if n++; n > 1 {
				end, proof["error"] = "/fail", object{"code": "BAD_FILE", "message": "no price", "retryable": false}
			}
			t.made("POST", "/job-runs/"+run["run_id"].(string)+end, proof)
		}
	}
	return uuid.MustParse(worker)
}

// finds waits until the overview has a cause, and follows its button.
func (t trouble) finds(sub *testing.T, want wanted) {
	sub.Helper()
	var all []any
	defer func() {
		if sub.Failed() {
			for _, c := range all {
				sub.Log(c.(object)["kind"], c.(object)["summary"])
			}
		}
	}()
	var found object
	patience.Until(sub, fmt.Sprintf("%s is found: %q", want.kind, want.summary), func() bool {
		all = t.made("GET", "/overview", nil)["causes"].([]any)
		i := slices.IndexFunc(all, func(c any) bool {
			return c.(object)["kind"] == want.kind && strings.Contains(c.(object)["summary"].(string), want.summary)
		})
		if i >= 0 {
			found = all[i].(object)
		}
		return i >= 0
	})
	t.follows(sub, want, found)
}

func (t trouble) follows(sub *testing.T, want wanted, c object) {
	sub.Helper()
	next := c["next"].(object)
	if next["operation"] != want.operation || next["allowed"] != true || c["means"] == "" {
		sub.Errorf("%s: %v", want.kind, c)
	}
	link := c["link"].(string)
	if status, doc := t.Call(sub, "GET", strings.TrimPrefix(link, "/api/v1"), nil); status != 200 {
		sub.Errorf("%s: %s answers %d %v", want.kind, link, status, doc)
	}
	_, page := t.Get(sub, "/ui/")
	_, line, ok := strings.Cut(html.UnescapeString(page), `data-cause="`+c["key"].(string)+`"`)
	line, _, _ = strings.Cut(line, "</li>")
	_, what, _ := strings.Cut(line, `<p><a href="`) // the line links to what it is about
	list, _, _ := strings.Cut(what, `"`)
	if status, behind := t.Get(sub, list); status != 200 ||
		strings.Contains(list, "?") && strings.Contains(behind, "class=\"empty\"") {
		sub.Errorf("%s: its items are to be on %s: %d\n%s", want.kind, list, status, behind)
	}
	seen := strings.Contains(line, ">View</a>") // first, where it is about errors of letters
	if seen != strings.HasPrefix(want.kind, "group_") {
		sub.Errorf("%s: to be looked at first: %v", want.kind, seen)
	}
	line = line[strings.LastIndex(line, `class="button`):] // the last one is the step that helps
	_, line, _ = strings.Cut(line, `href="`)
	button, _, _ := strings.Cut(line, `"`)
	if status, behind := t.Get(sub, button); !ok || status != 200 || !strings.Contains(behind, want.page) {
		sub.Errorf("%s: the button leads to %q: %d, no %q\n%s", want.kind, button, status, want.page, behind)
	}
}
