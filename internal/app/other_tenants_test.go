package app_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/test/patience"
)

// notMissing are the operations that answer neither another tenant's id nor an unknown one with
// 404, and why.
var notMissing = map[string]string{
	"listDeadLettersOfTopic": "a topic is any text: one without letters has an empty list",
	"putTopicPolicy":         "a policy may come before the letters of its topic",
	"updateTopicPolicy":      "as putTopicPolicy: it changes the default that holds",
	"getTopicPolicy":         "as putTopicPolicy",
	"putParticipant":         "a name is any text: it registers a participant of the caller's tenant",
	"holdJobQueue":           "a name is any text: a queue has no existence of its own",
	"releaseJobQueue":        "as holdJobQueue",
	"getJobQueue":            "as holdJobQueue",
	"checkFence":             "a key is any text: its first check creates it for the tenant",
	"completeRuns":           "a batch: each result says 404",
	"startRuns":              "a batch: each result says 404",
	"workerHeartbeat":        "410: register again, whatever became of the worker",
	"claimRuns":              "as workerHeartbeat",
	"exchangeRuns":           "a batch: each result says 404",
}

// Threat T1: for every operation of the contract with an id or a name in its path, and for the
// batches of workers with ids in their bodies, the response for another tenant's resource
// equals that for one that does not exist, byte for byte.
func TestResourcesOfOtherTenantsAreAnsweredAsNotFound(t *testing.T) {
	t.Parallel()
	w := newWalker(t)
	theirs, proof := w.belongings()
	other := w.do("createAPIKey",
		`{"name":"other","role":"admin","tenant_id":"`+uuid.NewString()+`","reason":"another tenant"}`).text("key")
	owner := w.token
	mine := func() string { // a worker of the other tenant, with ids of runs that are not its own
		w.token = other
		defer func() { w.token = owner }()
		return w.do("registerWorker", `{"name":"w","queues":["default"],"commands":["report"],"max_runs":4}`).text("worker_id")
	}()
	missing := map[string]string{"name": "absent-flow", "definition": "absent-job", "topic": "absent-topic",
		"fence_key":   "absent-fence",
		"fingerprint": strings.Repeat("ab", 16), "step": "one", "version": "1"}
	before := w.get("/api/v1/job-runs/" + theirs["run_id"])

	contract := contractOf(t, w.url)
	none := map[string]string{}
	for name := range theirs {
		if none[name] = missing[name]; none[name] == "" {
			none[name] = uuid.NewString()
		}
	}
	ask := func(op apiOperation, ids map[string]string) (int, string) {
		at := op.path
		for name, value := range ids {
			if name == "worker_id" && slices.Contains([]string{"completeRuns", "startRuns", "exchangeRuns"}, op.id) {
				value = mine
			}
			at = strings.ReplaceAll(at, "{"+name+"}", value)
		}
		var body any
		if schema, has := op.bodies["application/json"]; has {
			contract.given = map[string]any{
				"run_id": ids["run_id"], "lease_token": proof["lease_token"], "attempt": proof["attempt"],
				"leader_epoch": proof["leader_epoch"],
				"reason":       "why not", "chunk": "a line", "timeout_ms": 60000, "note": "seen",
				"fencing_token": "1.1",
			}
			body = contract.example(schema, 0)
		}
		if slices.ContainsFunc(op.parameters, func(p map[string]any) bool { return p["name"] == "reason" }) {
			at += "?reason=why%20not"
		}
		return plainly(t, op.method, w.url+at, encoded(body), other, ids)
	}
	operations := slices.DeleteFunc(contract.operations(), func(op apiOperation) bool {
		return !strings.Contains(op.path, "{")
	})
	slices.SortStableFunc(operations, func(a, b apiOperation) int { // creating ones come last
		return cmp.Compare(len(notMissing[a.id]), len(notMissing[b.id]))
	})
	for _, op := range operations {
		status, foreign := ask(op, theirs)
		if _, absent := ask(op, none); foreign != absent {
			t.Errorf("%s (%s %s):\n%s\nof another tenant, but\n%s\nof nobody", op.id, op.method, op.path, foreign, absent)
		}
		if want := notMissing[op.id] == ""; (status == http.StatusNotFound) != want {
			t.Errorf("%s (%s %s): %s", op.id, op.method, op.path, foreign)
		}
	}
	if len(operations) < 100 {
		t.Errorf("only %d operations were asked", len(operations))
	}
	if after := w.get("/api/v1/job-runs/" + theirs["run_id"]); after["version"] != before["version"] {
		t.Errorf("the run was changed: %v, then %v", before, after)
	}
}

// belongings creates one of everything that has an id or a name, and returns them by the name
// of the parameter, with the fence of the run.
func (w *walker) belongings() (ids map[string]string, proof map[string]any) {
	w.t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w.t.Cleanup(target.Close)
	ids = map[string]string{"name": "private-flow", "definition": "private-job", "topic": "private-topic",
		"fence_key": "private-fence",
		"step":      "one", "version": "1"}
	w.do("registerWorkflow", `{"name":"private-flow","steps":[{"name":"one","action":{"http":{"url":"`+target.URL+`"}},"compensation":"none"}]}`)
	w.do("putParticipant", `{"base_url":"`+target.URL+`"}`, "private-flow")
	ids["saga_id"] = w.do("createSaga", `{"workflow_name":"private-flow","payload":{}}`).text("saga_id")
	ids["webhook_id"] = w.do("createWebhook", `{"url":"http://127.0.0.1:9/hook","reason":"billing"}`).text("id")
	ids["delivery_id"] = w.do("testWebhook", "", ids["webhook_id"]).text("id")
	ids["message_id"] = w.letter("private-topic", target.URL)
	ids["fingerprint"] = w.get("/api/v1/dlq/groups?topic=private-topic")["groups"].([]any)[0].(map[string]any)["fingerprint"].(string)
	ids["redrive_id"] = w.do("createRedrive", `{"action":"retry","filter":{"topic":"private-topic"},"reason":"again","scheduled_for":"`+
		time.Now().UTC().Add(100*time.Hour).Format(time.RFC3339)+`"}`).text("id")
	w.do("createJobDefinition", `{"name":"private-job","type":"time","command_name":"report","schedule":{"type":"hourly_at_minute","value":"0"}}`)
	hour := time.Now().UTC().Truncate(time.Hour)
	ids["backfill_id"] = w.do("createBackfill", fmt.Sprintf(`{"from":%q,"to":%q,"max_active":1}`, hour.Add(-2*time.Hour).Format(time.RFC3339),
		hour.Format(time.RFC3339)), "private-job").text("id")
	ids["bulk_id"] = w.do("createJobBulk", `{"action":"cancel","filter":{"definition":"private-job"},"reason":"a mistake"}`).text("id")
	ids["saga_bulk_id"] = w.do("createSagaBulk", `{"action":"acknowledge","ids":["`+ids["saga_id"]+`"],"reason":"seen"}`).text("id")
	ids["certification_id"] = w.do("reportCertification", `{"report":{"url":"http://127.0.0.1:9/","version":"1","certified":false,
		"played":["a"],"effects_counted":false,"findings":[],"warnings":[],"not_tried":[]}}`).text("id")
	ids["event_id"] = w.do("publishJobEvent", `{"event_type":"orders.created","payload":{}}`).text("event_id")
	ids["worker_id"] = w.do("registerWorker", `{"name":"w","queues":["default"],"commands":["report"],"max_runs":4}`).text("worker_id")
	ids["run_id"] = w.do("createJobRun", `{"reason":"why not"}`, "private-job").text("id")
	patience.Until(w.t, "the run is the worker's", func() bool {
		_, doc := w.send("claim", "POST", "/api/v1/workers/"+ids["worker_id"]+"/claim", `{"slots":4}`)
		runs, _ := doc["runs"].([]any)
		for _, r := range runs {
			if r := r.(map[string]any); r["run_id"] == ids["run_id"] {
				proof = r
			}
		}
		return proof != nil
	})
	w.exec(`INSERT INTO jobs.fences (tenant_id, key, epoch, seq, checked_at) SELECT tenant_id, 'private-fence', 1, 1, now() FROM jobs.workers WHERE id = $1`,
		ids["worker_id"])
	ids["session_id"] = w.do("createSession", "").text("id")
	ids["key_id"] = w.do("createAPIKey", `{"name":"clerk","role":"auditor","reason":"for the auditors"}`)["api_key"].(map[string]any)["id"].(string)
	return ids, proof
}

// changing matches what differs between any two responses: new ids and times.
var changing = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`)

// plainly makes a request and returns the parts of the response by which clients could
// distinguish responses, with each id and name of the request replaced by the name of its
// parameter.
func plainly(t *testing.T, method, url, body, token string, ids map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if method == "PUT" || method == "PATCH" {
		req.Header.Set("If-Match", "*")
	}
	req.Header.Set("X-Request-Id", "r")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Date", "Content-Length"} { // names differ in length
		res.Header.Del(name)
	}
	said := fmt.Sprint(res.StatusCode, " ", res.Header, " ", string(text))
	for name, value := range ids {
		if name != "step" && name != "version" {
			said = strings.ReplaceAll(said, value, "{"+name+"}")
		}
	}
	return res.StatusCode, changing.ReplaceAllString(said, "{new}")
}
