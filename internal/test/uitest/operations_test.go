package uitest_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/test/patience"
)

func idOf(o object) string {
	if made, ok := o["redrive"].(object); ok { // response of retry-all
		o = made
	}
	return fmt.Sprint(o["id"])
}

// send makes a request with an Idempotency-Key.
func (w *acting) send(path string, b object, key string) (status int, replayed bool, out object) {
	w.t.Helper()
	text, err := json.Marshal(b)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequest("POST", w.URL+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("X-API-Key", w.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err = io.ReadAll(res.Body)
	if err != nil || json.Unmarshal(text, &out) != nil {
		w.t.Fatalf("%s: %d %s, %v", path, res.StatusCode, text, err)
	}
	return res.StatusCode, res.Header.Get("Idempotent-Replayed") == "true", out
}

func (w *acting) get(op *operation, id string) object { return w.Must(w.t, "GET", op.read+id, nil) }

// awaitState waits until an operation is in a state and returns the operation.
func (w *acting) awaitState(op *operation, id, state string) (o object) {
	w.t.Helper()
	patience.Until(w.t, "the operation is "+state, func() bool {
		o = w.get(op, id)
		return o["state"] == state
	})
	return o
}

// TestAnIdempotencyKeyIsForOneRequestForManyThings: an Idempotency-Key belongs to one request. A
// request that differs in any member is refused, whatever state the operation is in.
func TestAnIdempotencyKeyIsForOneRequestForManyThings(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			w := &acting{s, t, op.name}
			op.add(w, 3)
			path, body := op.ask(w)
			body["expected"] = 2
			status, _, made := w.send(path, body, op.name)
			if status/100 != 2 {
				t.Fatalf("%d %v", status, made)
			}
			same := func(when string) {
				t.Helper()
				status, replayed, again := w.send(path, body, op.name)
				if status/100 != 2 || !replayed || idOf(again) != idOf(made) {
					t.Errorf("the same request %s: %d, replayed %t, %v", when, status, replayed, again)
				}
			}
			refused := func(member string, value any) {
				t.Helper()
				other := maps.Clone(body)
				if other[member] = value; value == nil {
					delete(other, member)
				}
				if status, _, p := w.send(path, other, op.name); status != 422 || p["code"] != "REQ_IDEMPOTENCY_KEY_REUSED" {
					t.Errorf("with %s %v: %d %v", member, value, status, p)
				}
			}
			same("at once")
			for member, value := range op.changed {
				refused(member, value)
			}
			refused("expected", nil)
			if op.before != nil {
				op.before(w, made)
			}
			w.awaitState(&op, idOf(made), "HALTED")
			same("after it has halted")
			w.Must(t, "POST", op.read+idOf(made)+"/resume", object{"reason": "they are meant"})
			same("after it was resumed")
			refused("expected", 3)
		})
	}
}

// TestAnOperationOnManyThingsIsForThoseOfItsRequest: every bulk operation applies to the resources
// that existed when it was requested. The response contains their number. The operation halts if
// there are more than the request expected, and the halt is in the audit trail in the form of a
// person's action. After someone resumes the operation, it processes exactly those resources,
// whatever has been added since. Resources that are added at the same time as the request are
// covered by the tests of the stores and of letter ingestion:
// bulkdb.TestABulkOperationIsForWhatExistedAtItsRequest,
// bulkdb.TestABulkOnRunsIsForWhatExistedAtItsRequest and
// dlqapi.TestMassOperationsTouchWhatExistedWhenTheyWereRequested.
func TestAnOperationOnManyThingsIsForThoseOfItsRequest(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			w := &acting{s, t, op.name}
			op.add(w, 3)
			path, body := op.ask(w)
			w.wantPlan(&op, path, body)
			body["expected"] = 2
			made := w.Must(t, "POST", path, body)
			id := idOf(made)
			if n := fmt.Sprint(w.get(&op, id)["expected"]); n != "3" {
				t.Errorf("the answer expects %s", n)
			}
			op.add(w, 1)
			if op.before != nil {
				op.before(w, made)
			}
			halted := w.awaitState(&op, id, "HALTED")
			if halted["halt_reason"] != "expected" || fmt.Sprint(halted[op.done]) != "0" {
				t.Errorf("halted: %v", halted)
			}
			w.wantHalt(&op, id, `{"found":3,"halt_reason":"expected","halts_above":2}`)
			op.add(w, 1)
			w.Must(t, "POST", op.read+id+"/resume", object{"reason": "all three"})
			if op.kind == "job_backfill" { // it completes only when its runs have ended
				patience.Until(t, "its runs are there", func() bool { return fmt.Sprint(w.get(&op, id)["created"]) == "3" })
				for _, run := range w.ids("/job-runs?backfill_id="+id, "job_runs", "id") {
					w.Must(t, "POST", fmt.Sprint("/job-runs/", run, "/cancel"), object{"reason": "enough"})
				}
			}
			if ended := w.awaitState(&op, id, "COMPLETED"); fmt.Sprint(ended[op.done]) != "3" {
				t.Errorf("it ended as %v", ended)
			}
			w.wantHalt(&op, id, `{"found":3,"halt_reason":"expected","halts_above":2}`)
		})
	}
}

// wantPlan checks that a dry run reports the changes to the three resources.
func (w *acting) wantPlan(op *operation, path string, body object) {
	w.t.Helper()
	body = maps.Clone(body)
	body["dry_run"] = true
	dry := w.Must(w.t, "POST", path, body)
	if p, ok := dry["preview"].(object); ok { // response of retry-all
		dry = p
	}
	var said []string
	for _, c := range dry["changes"].([]any) {
		c := c.(object)
		value := func(member string) string {
			text, _ := c[member].(string)
			if _, err := time.Parse(time.RFC3339, text); err == nil {
				return "+"
			}
			return cmp.Or(text, "-")
		}
		text := fmt.Sprint(value("of"), " ", value("member"), " ", value("from"), " ", value("to"))
		if said = append(said, text); text == op.plan && fmt.Sprint(c["count"]) != "3" {
			w.t.Errorf("of three things it would change %v", c)
		}
	}
	if !slices.Contains(said, op.plan) {
		w.t.Errorf("a dry run says %q, not %q", said, op.plan)
	}
}

// wantHalt checks that there is exactly one record of a halt, made by Skald.
func (w *acting) wantHalt(op *operation, id, detail string) {
	w.t.Helper()
	found := w.Must(w.t, "GET", "/audit?kind="+op.kind+"&subject="+id+"&verb=halt", nil)["actions"].([]any)
	if len(found) != 1 {
		w.t.Fatalf("%d records of halts", len(found))
	}
	action := found[0].(object)
	got, _ := json.Marshal(action["detail"])
	if by := action["actor"]; by != nil && by != "" || string(got) != detail || action["at"] == nil {
		w.t.Errorf("the record is %v, with %s", action, got)
	}
}

// lines sends a request whose body or response consists of one JSON object per line.
func (w *acting) lines(method, path, body string) string {
	w.t.Helper()
	req, err := http.NewRequest(method, w.URL+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("X-API-Key", w.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %d %s, %v", path, res.StatusCode, text, err)
	}
	return string(text)
}

// TestARedriveDoesNotTakeLettersThatAreImportedLater: letters that are imported while a redrive is
// in progress didn't exist when it was requested, whatever age they claim to have.
func TestARedriveDoesNotTakeLettersThatAreImportedLater(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	w := &acting{s, t, "imported"}
	letters(w, 2)
	exported := w.lines("GET", "/dlq/export?topic=imported", "")
	redrive := operations()[0]
	del := w.Must(t, "POST", "/dlq/redrives", object{
		"action": "delete", "filter": object{"topic": "imported"}, "reason": "r",
	})
	w.awaitState(&redrive, idOf(del), "COMPLETED")
	letters(w, 3)
	made := w.Must(t, "POST", "/dlq/redrives", object{
		"action": "discard", "filter": object{"topic": "imported"}, "expected": 2, "reason": "r",
	})
	w.awaitState(&redrive, idOf(made), "HALTED")
	if answer := w.lines("POST", "/dlq/import", exported); !strings.Contains(answer, `"imported":2`) {
		t.Fatal(answer)
	}
	w.Must(t, "POST", "/dlq/redrives/"+idOf(made)+"/resume", object{"reason": "all three"})
	if done := w.awaitState(&redrive, idOf(made), "COMPLETED"); fmt.Sprint(done["done"]) != "3" {
		t.Errorf("it ended as %v", done)
	}
	if n := len(w.ids("/dlq/messages?topic=imported&status=PENDING", "messages", "id")); n != 2 {
		t.Errorf("%d of the imported letters wait, want 2", n)
	}
}
