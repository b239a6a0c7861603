package shop

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/examples/order/ledger"
)

var services = []struct{ name, path, undoPath, idField string }{
	{"inventory", "/reservations", "/reservations/cancel", "reservation_id"},
	{"payments", "/charges", "/charges/refund", "charge_id"},
	{"orders", "/orders/confirm", "/orders/cancel", "order_id"},
	{"steps", "/steps/pack", "/steps/pack/undo", "effect_id"},
}

func TestEachServiceAppliesAndUndoesOnce(t *testing.T) {
	for _, s := range services {
		t.Run(s.name, func(t *testing.T) {
			c := open(t, Config{})
			step, back := do(s.path, "pack", `{"quantity":2,"amount":10}`), undo(s.undoPath, "pack", `{}`)
			first := c.expect(t, step, 200, "", ledger.Applied)
			if !strings.Contains(first.body, s.idField) {
				t.Errorf("answer %s has no %s", first.body, s.idField)
			}
			if again := c.expect(t, step.again(), 200, "", ledger.Dup); again.body != first.body {
				t.Errorf("second answer %s, first %s", again.body, first.body)
			}
			undone := c.expect(t, back, 200, "", ledger.Applied)
			if again := c.expect(t, back.again(), 200, "", ledger.Dup); again.body != undone.body {
				t.Errorf("second answer %s, first %s", again.body, undone.body)
			}
			if again := c.expect(t, step.again().again(), 200, "", ledger.Dup); again.body != first.body {
				t.Errorf("answer after the undo %s, first %s", again.body, first.body)
			}
			for _, e := range c.entries(t) {
				if e.Participant != s.name {
					t.Errorf("ledger names participant %q, want %q", e.Participant, s.name)
				}
			}
		})
	}
}

func TestAnUndoBeforeItsExecuteIsRemembered(t *testing.T) {
	c := open(t, Config{})
	c.expect(t, undo("/charges/refund", "pay", `{}`), 200, "", ledger.None)
	late := do("/charges", "pay", `{"amount":1}`)
	c.expect(t, late, 409, "ALREADY_COMPENSATED", ledger.RefusedLate)
	c.expect(t, late.again(), 409, "ALREADY_COMPENSATED", ledger.RefusedLate)
}

func TestAnUndoUnderAnotherKeyFindsNothingLeft(t *testing.T) {
	c := open(t, Config{})
	c.expect(t, do("/charges", "pay", `{"amount":1}`), 200, "", ledger.Applied)
	c.expect(t, undo("/charges/refund", "pay", `{}`), 200, "", ledger.Applied)
	other := undo("/charges/refund", "pay", `{}`)
	other.key = "another"
	c.expect(t, other, 200, "", ledger.None)
}

func TestBusinessRules(t *testing.T) {
	for _, tt := range []struct{ name, path, payload, code string }{
		{"the last piece can be reserved", "/reservations", `{"quantity":100}`, ""},
		{"a quantity left out is one", "/reservations", `{}`, ""},
		{"more than the stock is refused", "/reservations", `{"quantity":101}`, "out_of_stock"},
		{"nothing is not a quantity", "/reservations", `{"quantity":0}`, "quantity_invalid"},
		{"half a piece is not an order", "/reservations", `{"quantity":1.5}`, "order_invalid"},
		{"the credit limit can be charged", "/charges", `{"amount":10000}`, ""},
		{"more than the limit is refused", "/charges", `{"amount":10000.01}`, "insufficient_funds"},
		{"a declined card is refused", "/charges", `{"amount":1,"card":"declined"}`, "insufficient_funds"},
		{"money is not paid out", "/charges", `{"amount":-1}`, "amount_invalid"},
		{"orders has no rule of its own", "/orders/confirm", `{"amount":99999,"quantity":999}`, ""},
		{"a payload that is not an object", "/orders/confirm", `[1]`, "order_invalid"},
		{"a fault that does not exist", "/orders/confirm", `{"simulate":{"other":"sulk"}}`, "simulation_unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := open(t, Config{})
			r := do(tt.path, "pack", tt.payload)
			if tt.code == "" {
				c.expect(t, r, 200, "", ledger.Applied)
				return
			}
			first := c.expect(t, r, 409, tt.code, ledger.RefusedBusiness)
			if again := c.expect(t, r.again(), 409, tt.code, ledger.Dup); again.body != first.body {
				t.Errorf("second answer %s, first %s", again.body, first.body)
			}
		})
	}
}

func TestACompensationIgnoresBusinessRules(t *testing.T) {
	c := open(t, Config{})
	for i, payload := range []string{`{"amount":99999}`, `[1]`, `{"simulate":{"pay":"sulk"}}`} {
		r := undo("/charges/refund", "pay", payload)
		r.saga = fmt.Sprint("s", i)
		c.expect(t, r, 200, "", ledger.None)
	}
}

func TestCallsThatBreakTheContractAreRefusedAndRecorded(t *testing.T) {
	h := func(name, value string) http.Header { return http.Header{name: {value}} }
	good := do("/steps/pack", "pack", `{}`)
	for _, tt := range []struct {
		name   string
		edit   func(*request)
		status int
		code   string
	}{
		{"no key", func(r *request) { r.header = h("Idempotency-Key", "") }, 400, "CALL_INVALID"},
		{"no saga", func(r *request) { r.header = h("X-Saga-Id", "") }, 400, "CALL_INVALID"},
		{"no step", func(r *request) { r.path, r.header = "/charges", h("X-Saga-Step", "") }, 400, "CALL_INVALID"},
		{"no attempt", func(r *request) { r.header = h("X-Saga-Attempt", "") }, 400, "attempt_invalid"},
		{"attempts count from one", func(r *request) { r.attempt = 0 }, 400, "attempt_invalid"},
		{"a fence that is not a number", func(r *request) { r.header = h("X-Saga-Fence", "x") }, 400, "CALL_INVALID"},
		{"the other action", func(r *request) { r.action = "compensate" }, 400, "action_does_not_fit_path"},
		{"another step's path", func(r *request) { r.path = "/steps/other" }, 400, "step_does_not_fit_path"},
		{"another step in the body", func(r *request) {
			r.path, r.header = "/steps/other", h("X-Saga-Step", "other")
		}, 400, "CALL_INVALID"},
		{"another saga in the body", func(r *request) { r.header = h("X-Saga-Id", "s2") }, 400, "CALL_INVALID"},
		{"no JSON", func(r *request) { r.payload = "{" }, 400, "CALL_INVALID"},
		{"no UTF-8", func(r *request) { r.payload = "\"\xff\"" }, 400, "body_invalid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := open(t, Config{})
			c.expect(t, do("/steps/first", "first", `{}`), 200, "", ledger.Applied)
			r := good
			tt.edit(&r)
			c.expect(t, r, tt.status, tt.code, ledger.None)
			c.expect(t, good, 200, "", ledger.Applied) // the key remains usable
		})
	}
}

func TestAnotherBodyUnderTheSameKeyIsRefused(t *testing.T) {
	c := open(t, Config{})
	r := do("/charges", "pay", `{"amount":1}`)
	first := c.expect(t, r, 200, "", ledger.Applied)
	other := do("/charges", "pay", `{"amount":2}`).again()
	c.expect(t, other, 422, "KEY_REUSED", ledger.None)
	if got := c.expect(t, r.again().again(), 200, "", ledger.Dup); got.body != first.body {
		t.Errorf("answer after the intruder %s, before %s", got.body, first.body)
	}
}

func TestABodyThatIsTooLargeIsRefused(t *testing.T) {
	c := open(t, Config{})
	r := do("/charges", "pay", `"`+strings.Repeat("x", maxBody)+`"`)
	if got := c.send(t, r); got.status != http.StatusRequestEntityTooLarge && got.status != 0 {
		t.Errorf("answered %d, want 413 or a closed connection", got.status)
	}
	if got := c.entries(t); len(got) != 0 {
		t.Errorf("ledger has %d entries, want none", len(got))
	}
}

func TestEverythingIsRememberedAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	before := open(t, Config{Ledger: path})
	applied := do("/charges", "pay", `{"amount":5}`)
	refused := do("/reservations", "stock", `{"quantity":500}`)
	early := undo("/orders/cancel", "confirm", `{}`)
	first := before.expect(t, applied, 200, "", ledger.Applied)
	no := before.expect(t, refused, 409, "out_of_stock", ledger.RefusedBusiness)
	before.expect(t, early, 200, "", ledger.None)
	shaky := do("/steps/pack", "pack", `{"simulate":{"pack":"fail_500"}}`)
	before.expect(t, shaky, 500, "simulated_failure", ledger.None)
	if err := before.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}

	after := open(t, Config{Ledger: path})
	if got := after.expect(t, applied.again(), 200, "", ledger.Dup); got.body != first.body {
		t.Errorf("answer after the restart %s, before %s", got.body, first.body)
	}
	if got := after.expect(t, refused.again(), 409, "out_of_stock", ledger.Dup); got.body != no.body {
		t.Errorf("refusal after the restart %s, before %s", got.body, no.body)
	}
	after.expect(t, do("/orders/confirm", "confirm", `{}`), 409, "ALREADY_COMPENSATED", ledger.RefusedLate)
	after.expect(t, shaky.again(), 200, "", ledger.Applied) // first call only, counting across the restart
	after.expect(t, do("/charges", "pay", `{"amount":6}`).again().again(), 422, "KEY_REUSED", ledger.None)
	after.expect(t, undo("/charges/refund", "pay", `{}`), 200, "", ledger.Applied)
	for i, e := range after.entries(t) {
		if e.Seq != int64(i)+1 {
			t.Errorf("entry %d has seq %d", i, e.Seq)
		}
	}
}

func TestALedgerThatTellsSomethingElseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	before := open(t, Config{Ledger: path})
	before.expect(t, do("/charges", "pay", `{}`), 200, "", ledger.Applied)
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for want, line := range map[string]string{
		"earlier version": regexp.MustCompile(`,"request":".*"`).ReplaceAllString(string(whole), ""),
		"would now be":    string(whole) + string(whole),
	} {
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Config{Ledger: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("opened with %v; want an error about: %s", err, want)
		}
	}
}

func TestOfManyEqualCallsOneIsApplied(t *testing.T) {
	c := open(t, Config{})
	var wg sync.WaitGroup
	bodies := make([]string, 20)
	for i := range bodies {
		wg.Go(func() {
			r := do("/charges", "pay", `{"amount":5}`)
			r.attempt += i
			bodies[i] = c.send(t, r).body
		})
	}
	wg.Wait()
	effects := map[ledger.Effect]int{}
	for _, e := range c.entries(t) {
		effects[e.Effect]++
	}
	if diff := cmp.Diff(map[ledger.Effect]int{ledger.Applied: 1, ledger.Dup: 19}, effects); diff != "" {
		t.Errorf("effects:\n%s", diff)
	}
	for _, b := range bodies {
		if b != bodies[0] || b == "" {
			t.Errorf("answers differ: %s and %s", b, bodies[0])
		}
	}
}

func TestNothingIsAnsweredWithSuccessWhenTheLedgerFails(t *testing.T) {
	c := open(t, Config{})
	if err := c.book.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call finds the first in memory, but must not rely on it
		if got := c.send(t, do("/charges", "pay", `{}`)); got.status != 500 || got.code != "ledger_unavailable" {
			t.Errorf("answered %d %s, want 500 ledger_unavailable", got.status, got.body)
		}
	}
}

func TestUnknownPathsAndMethodsAreNoCalls(t *testing.T) {
	c := open(t, Config{})
	for path, want := range map[string]int{"/healthz": 200, "/charges": 405, "/nothing": 404} {
		res, err := http.Get(c.url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", path, res.StatusCode, want)
		}
	}
	if got := c.entries(t); len(got) != 0 {
		t.Errorf("ledger has %d entries, want none", len(got))
	}
}

func TestTheLedgerHoldsWhatTheCallerSent(t *testing.T) {
	c := open(t, Config{})
	r := do("/charges", "pay", `{"amount":1}`)
	r.header = http.Header{"X-Saga-Fence": {"42"}}
	r.attempt = 3
	sent, err := io.ReadAll(r.build(t, c.url).Body)
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	answer := c.expect(t, r, 200, "", ledger.Applied)
	after, got := time.Now(), c.entries(t)[0]
	want := ledger.Entry{
		Seq: 1, Time: got.Time, Participant: "payments", Saga: "s1", Step: "pay", Action: ledger.Execute,
		Attempt: 3, Key: "s1/pay/execute", Fence: 42, BodySHA256: fmt.Sprintf("%x", sha256.Sum256(sent)),
		Effect: ledger.Applied, Reply: ledger.Sent, Status: 200, Answer: json.RawMessage(answer.body), Request: string(sent),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	c.expect(t, r.again(), 200, "", ledger.Dup)
	if repeated := c.entries(t)[1]; len(repeated.Answer) != 0 {
		t.Errorf("the ledger holds the answer %s twice", repeated.Answer)
	}
	if got.Time.Before(before.Truncate(time.Second)) || got.Time.After(after) {
		t.Errorf("the entry is of %s, want a time from %s to %s", got.Time, before, after)
	}
}
