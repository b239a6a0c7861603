package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
)

// Every operation of the contract that changes something records who did it, and from where. A
// new operation fails here until it does, or is in one of the lists above with a reason.
func TestEveryChangeIsRecordedWithItsActor(t *testing.T) {
	t.Parallel()
	w := newWalker(t, func(c *config.Config) { c.DLQ.MaxRetries = 5 })
	w.everything()

	for op, route := range w.ops {
		id, called := w.called[op]
		switch why := tellsItself[op]; {
		case why != "" && called:
		case why != "":
		case !called:
			t.Errorf("%s (%s): nobody calls it here: call it, or say why it needs no record", op, route)
		case ofSagas[op]:
			w.told(op, `SELECT count(*) FROM saga.audit_events WHERE request_id = $1 AND actor LIKE 'key:%'`, id)
		default:
			w.told(op, `SELECT count(*) FROM saga.audit_actions WHERE request_id = $1 AND operation = $2 AND actor LIKE 'key:%'
				AND credential_id IS NOT NULL AND address = '127.0.0.1'`, id, op)
			w.hashed(op, id)
		}
	}
	w.everyPostTakesAKey()
	w.chained()
	for op := range tellsItself {
		if w.ops[op] == "" {
			t.Errorf("%s is excepted, and is not an operation", op)
		}
	}
	if status, doc := w.send("verify", "GET", "/api/v1/audit/verify?trail=actions&limit=1000", ""); status != 200 || doc["ok"] != true {
		t.Errorf("verify: %d %v", status, doc)
	}
	if status, doc := w.send("verify", "GET", "/api/v1/audit/verify?trail=actions&scope=deployment", ""); status != 200 || doc["ok"] != true {
		t.Errorf("verify the deployment's: %d %v", status, doc)
	}
}

// everything calls each operation that changes something, except some of the worker protocol.
func (w *walker) everything() {
	w.t.Helper()
	w.sagas()
	w.webhooks()
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w.t.Cleanup(target.Close)
	w.letters(target.URL)
	w.redrives(target.URL)
	w.jobs()
	key := w.do("createAPIKey", `{"name":"clerk","role":"worker","queues":["reports"],"reason":"for the reports"}`)["api_key"].(map[string]any)["id"].(string)
	w.do("revokeAPIKey", `{"reason":"it was in a ticket"}`, key)
	session := w.do("createSession", "").text("id")
	w.do("deleteSession", "", session, "?reason=gone+home")
	w.do("changeSettings", `{"values":{"assign_ahead_seconds":120},"reason":"longer"}`)
	w.do("changeSettings", `{"values":{"assign_ahead_seconds":null},"reason":"as it was"}`)
	w.do("stepDownLeader", `{"reason":"maintenance"}`)
}

func (w *walker) told(op, query string, args ...any) {
	w.t.Helper()
	var n int
	if err := w.db.QueryRowContext(w.t.Context(), query, args...).Scan(&n); err != nil || n < 1 {
		w.t.Errorf("%s leaves %d rows that say who did it, %v", op, n, err)
	}
}

// sagas covers workflows, sagas and their archive.
func (w *walker) sagas() {
	participant := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/later"):
			rw.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasSuffix(r.URL.Path, "/refuse"):
			rw.WriteHeader(http.StatusConflict)
		}
	}))
	w.t.Cleanup(participant.Close)
	patient := `"retry":{"max_attempts":9,"initial_interval_ms":600000,"max_interval_ms":600000,"jitter":0}`
	register := func(name, second, undo string) {
		w.do("registerWorkflow", `{"name":"`+name+`",`+patient+`,"timeout_ms":3600000,"steps":[
			{"name":"one","action":{"http":{"url":"`+participant.URL+`/one"}},"compensation":{"http":{"url":"`+participant.URL+undo+`"}}},
			{"name":"two","action":{"http":{"url":"`+participant.URL+second+`"}},"compensation":"none"}]}`)
	}
	register("waits", "/later", "/one/undo")
	register("strands", "/refuse", "/refuse")
	register("ends", "/two", "/one/undo")
	w.do("disableWorkflow", `{"reason":"a bad release"}`, "ends")
	w.do("enableWorkflow", "", "ends")

	run := func(workflow string, ready func(map[string]any) bool) string {
		id := w.do("createSaga", `{"workflow_name":"`+workflow+`","payload":{}}`).text("saga_id")
		patience.Until(w.t, "saga of "+workflow, func() bool { return ready(w.get("/api/v1/sagas/" + id)) })
		return id
	}
	waits := func() string {
		return run("waits", func(s map[string]any) bool { return s["next_run_at"] != nil && s["current_step"] == 1.0 })
	}
	const why = `{"reason":"why not"}`
	w.do("cancelSaga", why, waits())
	w.do("compensateSaga", why, waits())
	w.do("retrySaga", why, waits())
	id := waits()
	w.do("suspendSaga", why, id)
	w.do("resumeSaga", why, id)
	w.do("extendDeadline", `{"reason":"slow today","timeout_ms":7200000}`, id)
	w.do("skipStep", why, id, "two")
	w.do("completeStep", `{"reason":"done by hand","output":{}}`, waits(), "two")
	w.do("failStep", why, waits(), "two")
	w.do("forceComplete", why, waits())
	w.do("forceFail", why, waits())
	stranded := func() string {
		return run("strands", func(s map[string]any) bool { return s["state"] == "failed" })
	}
	id = stranded()
	w.do("updateSaga", `{"assignee":"ann","note":"looked at","reason":"ticket 7"}`, id)
	w.do("acknowledgeSaga", why, id)
	// The second of two takes its turn after 100 s, so the bulk is still running when it is canceled.
	bulk := w.do("createSagaBulk", `{"action":"suspend","ids":["`+uuid.NewString()+`","`+uuid.NewString()+`"],
		"rate_per_second":0.01,"reason":"a bad release"}`).text("id")
	w.do("updateSagaBulk", `{"rate_per_second":0.02,"reason":"slower"}`, bulk)
	w.do("cancelSagaBulk", why, bulk)
	w.do("reportCertification", `{"reason":"build 7","report":{"url":"http://127.0.0.1:9/","version":"1","certified":false,"played":["a"],
		"effects_counted":false,"findings":[],"warnings":[],"not_tried":[]}}`)
	w.exec(`INSERT INTO saga.certifications (id, tenant_id, state, host, url, created_at, token, lease_until)
		VALUES ($1, '00000000-0000-0000-0000-000000000001', 'RUNNING', '127.0.0.1:9', '', now(), $1,
		now() + interval '1 hour')`, uuid.New())
	certified := w.do("certifyParticipant", `{"url":"http://127.0.0.1:9/","reason":"is it right?"}`).text("id") // waits for its turn
	w.do("cancelCertification", why, certified)
	w.do("putParticipant", `{"base_url":"`+participant.URL+`/card","reason":"a new service"}`, "card")
	w.do("holdParticipant", why, "card")
	w.do("releaseParticipant", why, "card")
	w.do("deleteParticipant", "", "card", "?reason=gone")
	bulk = w.do("createSagaBulk", `{"action":"suspend","ids":["`+uuid.NewString()+`"],"expected":0,"reason":"a bad release"}`).text("id")
	w.do("resumeSagaBulk", why, bulk)
	w.do("resumeCompensation", why, stranded())
	id = run("ends", func(s map[string]any) bool { return s["state"] == "completed" })
	w.do("runRetention", `{"older_than":"`+time.Now().UTC().Format(time.RFC3339Nano)+`"}`)
	w.do("restoreSaga", why, id)
	w.do("eraseContent", `{"saga_id":"`+id+`","reason":"a request of the 23rd"}`)
}

func (w *walker) webhooks() {
	hook := w.do("createWebhook", `{"url":"http://127.0.0.1:9/hook","reason":"billing wants to know"}`).text("id")
	w.do("updateWebhook", `{"description":"billing"}`, hook)
	delivery := w.do("testWebhook", "", hook).text("id")
	w.do("redeliverWebhookDelivery", "", hook, delivery)
	if _, err := w.db.ExecContext(w.t.Context(), `UPDATE saga.webhook_deliveries SET status = 'failed', ended_at = now() WHERE id = $1`, delivery); err != nil {
		w.t.Fatal(err)
	}
	w.do("redeliverFailed", `{"since":"2020-01-01T00:00:00Z"}`, hook)
	w.do("disableWebhook", `{"reason":"it is down"}`, hook)
	w.do("enableWebhook", "", hook)
	w.do("rotateWebhookSecret", "", hook)
	w.do("deleteWebhook", "", hook, "?reason=gone")
}

// letter pushes a letter that is not retried automatically.
func (w *walker) letter(topic, target string) string {
	return w.do("pushDeadLetter", `{"original_topic":"`+topic+`","error_message":"boom","payload":{},"target":{"kind":"http","url":"`+target+`"}}`).text("id")
}

func (w *walker) letters(target string) {
	const why = `{"reason":"why not"}`
	w.do("pushDeadLetters", `{"messages":[{"original_topic":"orders","error_message":"boom"},{"original_topic":"orders","error_message":"bang"}]}`)
	id := w.letter("orders", target)
	w.do("updateDeadLetter", `{"note":"looked at","reason":"ticket 7"}`, id)
	w.do("retryDeadLetter", why, id)
	w.do("acknowledgeDeadLetter", fmt.Sprintf(`{"generation":%v,"outcome":"FAILED"}`, w.get("/api/v1/dlq/messages/" + id)["generation"]), id)
	id = w.letter("orders", target)
	w.do("discardDeadLetter", why, id)
	w.do("requeueDeadLetter", why, id)
	w.do("resolveDeadLetter", why, id)
	w.do("deleteDeadLetter", "", id, "?reason=asked%20for")
	id = w.letter("orders", target)
	w.do("resolveDeadLetter", why, id)
	w.exec(`UPDATE dlq.dlq_messages SET created_at = created_at - interval '400 days', updated_at = updated_at - interval '400 days',
		terminal_at = terminal_at - interval '400 days' WHERE id = $1`, id)
	w.exec(`CALL dlq.archive_old_dlq_messages()`)
	w.do("restoreDeadLetter", why, id)
	const policy = `{"max_retries":4,"auto_retry":false,"ordered":false,"retention_days":30,"archive_days":365,"max_generations":5,
		"backoff":{"initial_interval_ms":1000,"max_interval_ms":60000,"multiplier":2,"jitter":0},"reason":"a weak service"}`
	w.do("putTopicPolicy", policy, "orders")
	w.do("updateTopicPolicy", `{"max_retries":2,"reason":"weaker still"}`, "orders")
	w.do("putTopicPolicy", policy, "orders")
	w.do("putDefaultPolicy", policy)
	w.do("updateDefaultPolicy", `{"ordered":true,"reason":"keys matter"}`)
	w.do("importDeadLetters", `{"end":true}`) // an empty export

	w.letter("groups", target)
	print := func() string {
		groups := w.get("/api/v1/dlq/groups?topic=groups")["groups"].([]any)
		return groups[0].(map[string]any)["fingerprint"].(string)
	}()
	w.do("updateDeadLetterGroup", `{"state":"ACKNOWLEDGED","reason":"known"}`, print)
	w.do("updateDeadLetterGroup", `{"assignee":"ann","note":"ticket 7","reason":"hers"}`, print)
	w.do("retryDeadLetterGroup", why, print)
	w.letter("groups", target)
	w.do("discardDeadLetterGroup", why, print)
	w.letter("all", target)
	w.do("retryAllDeadLetters", why, "all")
}

func (w *walker) redrives(target string) {
	create := func(more string) string {
		w.letter("bulk", target)
		return w.do("createRedrive", `{"action":"retry","filter":{"topic":"bulk"},"reason":"again"`+more+`}`).text("id")
	}
	id := create(`,"scheduled_for":"` + time.Now().UTC().Add(100*time.Hour).Format(time.RFC3339) + `"`)
	w.do("updateRedrive", `{"rate_per_second":7,"reason":"slower"}`, id)
	w.do("pauseRedrive", `{"reason":"lunch"}`, id)
	w.do("resumeRedrive", `{"reason":"back"}`, id)
	w.do("cancelRedrive", `{"reason":"no"}`, id)
	id = create(`,"approval_required":true`)
	other := w.do("createAPIKey", `{"name":"second","role":"admin","reason":"two pairs of eyes"}`).text("key")
	first := w.token
	w.token = other
	w.do("approveRedrive", `{"reason":"looks right"}`, id)
	w.token = first
}

func (w *walker) jobs() {
	const why = `{"reason":"why not"}`
	w.do("createJobDefinition", `{"name":"report","type":"time","command_name":"report","schedule":{"type":"hourly_at_minute","value":"0"},"reason":"asked for"}`)
	w.do("updateJobDefinition", `{"priority":3,"reason":"it is urgent"}`, "report")
	w.do("replaceJobDefinition", `{"name":"report","type":"time","command_name":"report","schedule":{"type":"hourly_at_minute","value":"5"}}`, "report")
	w.do("updateJobDefinition", `{"enabled":false,"default_args":{"n":1e2},"reason":"not this week"}`, "report")
	w.do("updateJobDefinition", `{"enabled":true,"retry":{"max_attempts":2,"multiplier":1.50},"reason":"back"}`, "report")
	w.do("holdJobQueue", why, "nightly")
	w.do("releaseJobQueue", why, "nightly")
	w.do("pauseJobDefinition", why, "report")
	w.do("resumeJobDefinition", why, "report")
	w.do("publishJobEvent", `{"event_type":"orders.created","payload":{}}`)
	run := func() string { return w.do("createJobRun", why, "report").text("id") }
	id := run()
	w.do("cancelJobRun", why, id)
	w.do("rerunJobRun", why, id)
	hour := time.Now().UTC().Truncate(time.Hour)
	backfill := w.do("createBackfill", `{"from":"`+hour.Add(-50*time.Hour).Format(time.RFC3339)+`","to":"`+
		hour.Format(time.RFC3339)+`","max_active":1,"reason":"lost"}`, "report")
	w.do("cancelBackfill", why, backfill.text("id"))
	backfill = w.do("createBackfill", `{"from":"`+hour.Add(-50*time.Hour).Format(time.RFC3339)+`","to":"`+
		hour.Format(time.RFC3339)+`","max_active":1,"expected":1,"reason":"lost"}`, "report")
	w.do("resumeBackfill", why, backfill.text("id"))
	w.do("cancelBackfill", why, backfill.text("id"))
	many := w.do("createJobBulk", `{"action":"cancel","filter":{"definition":"report"},"expected":0,"reason":"a mistake"}`)
	w.do("resumeJobBulk", why, many.text("id"))
	bulk := w.do("createJobBulk", `{"action":"cancel","filter":{"definition":"report"},"reason":"a mistake"}`)
	patience.Until(w.t, "the bulk is canceled before the scheduler has ended it", func() bool {
		w.exec(`UPDATE jobs.bulks SET state = 'RUNNING', ended_at = NULL WHERE id = $1`, bulk.text("id"))
		id := "cancelJobBulk-" + uuid.NewString()
		w.called["cancelJobBulk"] = id
		path := "/api/v1/job-runs/bulk/" + bulk.text("id") + "/cancel"
		res, doc := w.request(id, "POST", path, why, id)
		if res.StatusCode != http.StatusOK {
			return false
		}
		w.again("cancelJobBulk", "POST", path, why, id, res.StatusCode, doc)
		return true
	})

	worker := w.do("registerWorker", `{"name":"w","queues":["default"],"commands":["report"],"max_runs":4}`).text("worker_id")
	id = run()
	patience.Until(w.t, "the run is claimed", func() bool {
		w.send("claim", "POST", "/api/v1/workers/"+worker+"/claim", `{"slots":4}`)
		return w.get("/api/v1/job-runs/" + id)["state"] != "PENDING"
	})
	w.do("reassignJobRun", `{"reason":"it hangs","force":true}`, id)
	w.exec(`INSERT INTO jobs.fences (tenant_id, key, epoch, seq, checked_at) SELECT tenant_id, 'ledger', 1, 1, now() FROM jobs.workers WHERE id = $1`, worker)
	w.do("resetFence", "", "ledger", "?reason=poisoned")
	w.do("drainWorker", why, worker)
	w.do("undrainWorker", why, worker)
	w.do("detachWorker", why, worker)
	w.do("undetachWorker", why, worker)
	w.do("deleteJobDefinition", "", "report", "?force=true&reason=gone")
}
