package app_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
	"github.com/skald-saga/skald/examples/order/shop"
)

// threeSteps is called pair, as what orders start.
const threeSteps = `{"name": "pair",
	"retry": {"max_attempts": 4, "initial_interval_ms": 20, "max_interval_ms": 200},
	"compensation_retry": {"max_attempts": 40, "initial_interval_ms": 20, "max_interval_ms": 300},
	"steps": [
	{"name": "a", "action": {"http": {"url": "URL/a"}}, "compensation": {"http": {"url": "URL/a/undo"}}},
	{"name": "b", "action": {"http": {"url": "URL/b"}}, "compensation": {"http": {"url": "URL/b/undo"}}},
	{"name": "c", "action": {"http": {"url": "URL/c"}}, "compensation": {"http": {"url": "URL/c/undo"}}}]}`

const attemptsOfThree, undosOfThree = 4, 40

// received is the participants' ledger.
type received struct {
	path   string
	judged int // entries
}

// serveShop serves the participants of the sagas. Some calls fail, some are refused and some
// answers are lost, so that one saga in eight has to be compensated.
func serveShop(t *testing.T, n *node) *received {
	t.Helper()
	r := &received{path: filepath.Join(t.TempDir(), "ledger.jsonl")}
	s, err := shop.Open(shop.Config{
		Ledger: r.path, Faults: shop.Faults{Failure: 0.03, DropRequest: 0.02, DropReply: 0.03, Refuse: 0.04},
		UndoFaults: shop.Faults{Failure: 0.05, DropRequest: 0.03, DropReply: 0.05},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	participant := httptest.NewServer(s)
	t.Cleanup(participant.Close)
	if status, doc := call(t, "POST", n.url+"/api/v1/workflows",
		strings.ReplaceAll(threeSteps, "URL", participant.URL+"/steps")); status != http.StatusCreated {
		t.Fatalf("register: %d %v", status, doc)
	}
	return r
}

func (r *received) entries(t *testing.T) []ledger.Entry {
	t.Helper()
	all, err := ledger.Read(r.path)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// silent wants no call to have been received since the judgement (I9).
func (r *received) silent(t *testing.T) {
	t.Helper()
	for _, e := range r.entries(t)[r.judged:] {
		t.Errorf("I9: %s of step %s of saga %s was received after every saga had ended", e.Action, e.Step, e.Saga)
	}
}

// judge compares what the participants have received, what the node says, and what the database d has, once every saga
// has ended: accepted sagas are there, once, and no others (I0); all or nothing (I2), in order (I3, I4, I5), by one
// driver at a time (I6), with stable keys and bodies (I7), and with no more calls than attempts and takeovers explain
// (I8); each state is that of its last event, and the chain verifies (I10). others is how many sagas there are beside
// them.
func judge(t *testing.T, url string, d *sql.DB, calls *received, accepted map[string]bool, others int) {
	t.Helper()
	ends, undone := map[string]ledger.SagaEnd{}, 0
	for id := range accepted {
		end := ledger.SagaEnd{Outcome: ledger.Completed, Steps: []string{"a", "b", "c"}}
		switch _, doc := call(t, "GET", url+"/api/v1/sagas/"+id+"?wait=4m", ""); {
		case doc["state"] == "completed":
		case doc["state"] == "compensated" && doc["clean"] == true:
			end.Outcome = ledger.Compensated
			undone++
		default:
			t.Errorf("I0, I1: saga %s ended as %v: %v", id, doc["state"], cmp.Or[any](doc["error_message"], doc["detail"]))
			continue
		}
		ends[id] = end
	}
	if t.Failed() {
		return // the ledger would say the same again
	}
	var stored, mislead, epoch int
	err := d.QueryRowContext(t.Context(), `
		SELECT count(*), max(lease_epoch), count(*) FILTER (WHERE state IS DISTINCT FROM (
		       SELECT e.new_state FROM saga.saga_events e
		        WHERE e.saga_id = s.id AND e.new_state IS NOT NULL ORDER BY e.id DESC LIMIT 1))
		  FROM saga.saga_states s`).Scan(&stored, &epoch, &mislead)
	switch {
	case err != nil:
		t.Fatal(err)
	case stored != len(accepted)+others:
		t.Errorf("I0: %d sagas are stored, %d were accepted", stored, len(accepted)+others)
	case mislead > 0:
		t.Errorf("I10: the last event of %d sagas has another state than the saga", mislead)
	}
	verifyChain(t, url)
	entries := calls.entries(t)
	calls.judged = len(entries)
	checker := ledger.Checker{
		Reorder:     2 * time.Second, // on a busy machine
		MaxExecutes: attemptsOfThree + epoch - 1, MaxCompensates: undosOfThree + epoch - 1,
	}
	for _, v := range checker.Check(entries, ends) {
		t.Error(v)
	}
	t.Logf("%d calls, %d of %d sagas undone, at most %d takeovers of one", len(entries), undone, len(ends), epoch-1)
	if undone == 0 || undone == len(ends) {
		t.Errorf("%d of %d sagas were undone: the ledger proves half of it", undone, len(ends))
	}
}

// verifyChain has a node check the whole trail.
func verifyChain(t *testing.T, url string) {
	t.Helper()
	for at := url + "/api/v1/audit/verify?limit=1000"; at != ""; {
		status, doc := call(t, "GET", at, "")
		if status != http.StatusOK || doc["ok"] != true {
			t.Errorf("I10: %d %v", status, doc)
			return
		}
		at = ""
		if next, more := doc["next_seq"].(float64); more {
			at = fmt.Sprintf("%s/api/v1/audit/verify?limit=1000&from_seq=%.0f", url, next)
		}
	}
}
