package app_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
)

// takesNoKey lists the POST operations without an Idempotency-Key, with the reason why repeating
// each changes nothing. A new operation fails here until it takes a key or is listed.
var takesNoKey = map[string]string{
	"validateWorkflow":    "stores nothing",
	"previewSchedule":     "stores nothing",
	"simulateWorkflow":    "stores nothing",
	"importDeadLetters":   "each line names its letter: one that is there is not changed; the stream is not held in memory to hash it",
	"createSession":       "its answer is a cookie, which is kept nowhere: a browser whose sign-in is lost signs in again",
	"checkFence":          "raises the highest token seen, and to the same value again",
	"reportStep":          "its token names the attempt, which is decided once: a repeat gets the first result",
	"registerWorker":      "the worker protocol: a registration that nobody uses expires",
	"workerHeartbeat":     "the worker protocol: carries the tokens of the leases that it renews",
	"claimRuns":           "the worker protocol: a claim whose answer is lost ends with its leases",
	"startRuns":           "the worker protocol: carries lease tokens",
	"completeRuns":        "the worker protocol: carries lease tokens",
	"exchangeRuns":        "the worker protocol: carries lease tokens, and the id of its claim",
	"startRun":            "the worker protocol: carries the lease token",
	"reportProgress":      "the worker protocol: carries the lease token",
	"completeRun":         "the worker protocol: carries the lease token",
	"failRun":             "the worker protocol: carries the lease token",
	"releaseRun":          "the worker protocol: carries the lease token",
	"acknowledgeCancel":   "the worker protocol: carries the lease token",
	"confirmContinuation": "the worker protocol: carries the lease token",
	"appendRunLog":        "the worker protocol: carries the lease token and the sequence number of each chunk",
}

// secretive lists the operations whose response contains a secret and is therefore not stored.
var secretive = map[string]bool{"createWebhook": true, "rotateWebhookSecret": true, "createAPIKey": true}

// takes reports whether an operation has a parameter whose reference ends with the given text.
func takes(operation json.RawMessage, end string) bool {
	var op struct {
		Parameters []struct {
			Ref string `json:"$ref"`
		} `json:"parameters"`
	}
	if json.Unmarshal(operation, &op) != nil {
		return false
	}
	for _, p := range op.Parameters {
		if strings.HasSuffix(p.Ref, end) {
			return true
		}
	}
	return false
}

// everyPostTakesAKey compares the contract with the list above.
func (w *walker) everyPostTakesAKey() {
	w.t.Helper()
	for op, route := range w.ops {
		post, why := strings.HasPrefix(route, "POST "), takesNoKey[op]
		switch {
		case post && !w.keyed[op] && why == "":
			w.t.Errorf("%s (%s) takes no Idempotency-Key, and no reason is given", op, route)
		case why != "" && (w.keyed[op] || !post):
			w.t.Errorf("%s is listed as taking no Idempotency-Key", op)
		case w.keyed[op] && w.repeated[op] == 0:
			w.t.Errorf("%s (%s) was not repeated with its Idempotency-Key", op, route)
		}
	}
}

// again repeats a request that took effect, like a client that has lost the response, and then
// sends another one with the same key.
func (w *walker) again(op, method, path, body, key string, status int, first map[string]any) {
	w.t.Helper()
	w.repeated[op]++
	id := op + "-again-" + uuid.NewString()
	res, doc := w.request(id, method, path, body, key)
	switch {
	case w.lossy && w.kept[op]:
		if res.StatusCode != http.StatusConflict || doc["code"] != "REQ_IDEMPOTENCY_KEY_IN_USE" {
			w.t.Errorf("%s, repeated without its answer: %d %v, want 409: the key is not stored with the effect", op, res.StatusCode, doc)
		}
	case secretive[op]:
		if res.StatusCode != http.StatusConflict || doc["code"] != "REQ_IDEMPOTENCY_ANSWER_NOT_KEPT" {
			w.t.Errorf("%s, repeated: %d %v, want 409, because the answer held a secret", op, res.StatusCode, doc)
		}
	case res.StatusCode != status && res.StatusCode != http.StatusOK, res.Header.Get("Idempotent-Replayed") != "true":
		w.t.Errorf("%s, repeated: %d %v %v, want %d and Idempotent-Replayed", op, res.StatusCode, res.Header, doc, status)
	case doc["id"] != first["id"]:
		w.t.Errorf("%s, repeated: of %v, not of %v", op, doc["id"], first["id"])
	}
	var effects int
	if err := w.db.QueryRowContext(w.t.Context(), `SELECT (SELECT count(*) FROM saga.audit_events WHERE request_id = $1) +
		(SELECT count(*) FROM saga.audit_actions WHERE request_id = $1)`, id).Scan(&effects); err != nil || effects != 0 {
		w.t.Errorf("%s, repeated: %d effects, %v", op, effects, err)
	}
	other := another(op, body)
	if other == body {
		return
	}
	if res, doc := w.request(op+"-other", method, path, other, key); res.StatusCode != http.StatusUnprocessableEntity ||
		doc["code"] != "REQ_IDEMPOTENCY_KEY_REUSED" {
		w.t.Errorf("%s with the key of another body: %d %v", op, res.StatusCode, doc)
	}
}

// anotherOf are bodies for operations whose reason is not part of the comparison, because the
// resource carries the key.
var anotherOf = map[string][2]string{
	"createJobRun":   {`{`, `{"args":{"n":7},`},
	"rerunJobRun":    {`{`, `{"args":{"n":7},`},
	"createBackfill": {`"max_active":1`, `"max_active":2`},
	"createJobBulk":  {`"filter":{`, `"filter":{"queue":"default",`},
}

// another returns a body that is equally valid and differs.
func another(op, body string) string {
	if change, ok := anotherOf[op]; ok {
		return strings.Replace(body, change[0], change[1], 1)
	}
	for _, change := range [][2]string{
		{`"reason":"`, `"reason":"again, `}, {`"boom"`, `"bust"`}, {`3600000`, `3600001`}, {`2020-`, `2021-`},
		{`"payload":{}`, `"payload":{"n":1}`}, {`"FAILED"`, `"PROCESSED"`},
	} {
		if strings.Contains(body, change[0]) {
			return strings.Replace(body, change[0], change[1], 1)
		}
	}
	return body
}

// The effect of an operation is stored together with its key: when the server stops right after
// the commit, before it has stored a response, the same request does not take effect again.
func TestTheKeyIsStoredWithTheEffect(t *testing.T) {
	t.Parallel()
	w := newWalker(t, func(c *config.Config) { c.DLQ.MaxRetries = 5 })
	w.exec(`CREATE FUNCTION public.lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	w.exec(`CREATE TRIGGER lose BEFORE INSERT OR UPDATE ON saga.idempotency_answers FOR EACH ROW
		WHEN (NEW.status IS NOT NULL) EXECUTE FUNCTION public.lose()`)
	w.lossy = true
	w.everything()
	w.everyPostTakesAKey()
}

// A key that another node has just stored, without a response yet, is in use; once the server
// that had it must have ended, its response is lost. In neither case does the request take
// effect again (docs/decisions/0064).
func TestALostAnswerCausesNoSecondEffect(t *testing.T) {
	t.Parallel()
	w := newWalker(t)
	const body = `{"event_type":"orders.created","payload":{}}`
	send := func(key string, want int, code any) {
		t.Helper()
		res, doc := w.request("r-"+uuid.NewString(), "POST", "/api/v1/events", body, key)
		if res.StatusCode != want || doc["code"] != code {
			t.Errorf("%s: %d %v, want %d %v", key, res.StatusCode, doc, want, code)
		}
		if retry := res.Header.Get("Retry-After"); (retry != "") != (code == "REQ_IDEMPOTENCY_KEY_IN_USE") {
			t.Errorf("%s: Retry-After %q", key, retry)
		}
	}
	events := func() (n int) {
		if err := w.db.QueryRowContext(t.Context(), `SELECT count(*) FROM jobs.events WHERE event_type = 'orders.created'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	send("k", http.StatusAccepted, nil)
	w.exec(`UPDATE saga.idempotency_answers SET status = NULL WHERE key = 'k'`) // as a crash leaves it
	send("k", http.StatusConflict, "REQ_IDEMPOTENCY_KEY_IN_USE")
	w.exec(`UPDATE saga.idempotency_answers SET created_at = created_at - interval '1 hour' WHERE key = 'k'`)
	send("k", http.StatusConflict, "REQ_IDEMPOTENCY_ANSWER_NOT_KEPT")
	if n := events(); n != 1 {
		t.Errorf("%d events were published", n)
	}
}
