package shop

import (
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/examples/order/ledger"
)

func TestFaultsAreRead(t *testing.T) {
	for _, tt := range []struct {
		text string
		want fault
	}{
		{"", fault{}},
		{"slow:800ms", fault{kind: slow, delay: 800 * time.Millisecond}},
		{"slow_always:2s", fault{kind: slow, always: true, delay: 2 * time.Second}},
		{"late:1s", fault{kind: late, delay: time.Second}},
		{"drop_reply", fault{kind: dropReply}},
		{"drop_reply_always", fault{kind: dropReply, always: true}},
		{"drop_request", fault{kind: dropRequest}},
		{"fail_500_always", fault{kind: failure, always: true}},
		{"unavailable", fault{kind: unavailable}},
		{"unavailable:3s", fault{kind: unavailable, delay: 3 * time.Second}},
		{"garbage", fault{kind: garbled}},
		{"refuse", fault{kind: refuse}},
	} {
		if got, err := parseFault(tt.text); err != nil || got != tt.want {
			t.Errorf("parseFault(%q) = %+v, %v; want %+v", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{"sulk", "slow", "late", "slow:", "slow:fast", "slow:-1s", "drop_reply:1s",
		"_always", ":1s"} {
		if got, err := parseFault(text); err == nil {
			t.Errorf("parseFault(%q) = %+v, want an error", text, got)
		}
	}
}

// seen is the outcome of one call: what its caller received and what the ledger recorded.
type seen struct {
	status int // 0 when no answer came
	effect ledger.Effect
	reply  ledger.Reply
}

func (c counter) see(t *testing.T, r request) seen {
	t.Helper()
	got := c.send(t, r)
	all := c.entries(t)
	last := all[len(all)-1]
	return seen{got.status, last.Effect, last.Reply}
}

func TestAPayloadRequestsFaults(t *testing.T) {
	fine := seen{200, ledger.Applied, ledger.Sent}
	again := seen{200, ledger.Dup, ledger.Sent}
	for _, tt := range []struct {
		fault string
		want  [2]seen // of the first and the second call
	}{
		{"slow:1ms", [2]seen{{200, ledger.Applied, ledger.Delayed}, again}},
		{"slow_always:1ms", [2]seen{{200, ledger.Applied, ledger.Delayed}, {200, ledger.Dup, ledger.Delayed}}},
		{"late:1ms", [2]seen{{200, ledger.Applied, ledger.Delayed}, again}},
		{"drop_reply", [2]seen{{0, ledger.Applied, ledger.Dropped}, again}},
		{"drop_reply_always", [2]seen{{0, ledger.Applied, ledger.Dropped}, {0, ledger.Dup, ledger.Dropped}}},
		{"drop_request", [2]seen{{0, ledger.None, ledger.Dropped}, fine}},
		{"fail_500", [2]seen{{500, ledger.None, ledger.Sent}, fine}},
		{"fail_500_always", [2]seen{{500, ledger.None, ledger.Sent}, {500, ledger.None, ledger.Sent}}},
		{"unavailable:2s", [2]seen{{503, ledger.None, ledger.Sent}, fine}},
		{"garbage", [2]seen{{200, ledger.Applied, ledger.Garbage}, again}},
		{"refuse", [2]seen{{409, ledger.RefusedBusiness, ledger.Sent}, {409, ledger.Dup, ledger.Sent}}},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			c := open(t, Config{})
			r := do("/charges", "pay", `{"simulate":{"pay":"`+tt.fault+`"}}`)
			got := [2]seen{c.see(t, r), c.see(t, r.again())}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(seen{})); diff != "" {
				t.Error(diff)
			}
			other := do("/reservations", "stock", r.payload)
			if got := c.see(t, other); got != fine {
				t.Errorf("another step met %+v", got)
			}
			if got := c.see(t, undo("/reservations/cancel", "stock", r.payload)); got != fine {
				t.Errorf("a compensate met %+v", got)
			}
		})
	}
}

func TestAPayloadRequestsFaultsOfAnUndo(t *testing.T) {
	c := open(t, Config{})
	payload := `{"simulate":{"pay:compensate":"drop_reply"}}`
	fine := seen{200, ledger.Applied, ledger.Sent}
	if got := c.see(t, do("/charges", "pay", payload)); got != fine {
		t.Errorf("the execute met %+v", got)
	}
	undo := undo("/charges/refund", "pay", payload)
	if got, want := c.see(t, undo), (seen{0, ledger.Applied, ledger.Dropped}); got != want {
		t.Errorf("the undo met %+v, want %+v", got, want)
	}
	if got, want := c.see(t, undo.again()), (seen{200, ledger.Dup, ledger.Sent}); got != want {
		t.Errorf("the second undo met %+v, want %+v", got, want)
	}
}

func TestGarbageIsNotJSONAndRefusalsStayReadable(t *testing.T) {
	c := open(t, Config{})
	got := c.send(t, do("/charges", "pay", `{"simulate":{"pay":"garbage"}}`))
	if got.body != string(garbage) || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("answer = %q, %s", got.body, got.header.Get("Content-Type"))
	}
	no := do("/charges", "no", `{"amount":10001,"simulate":{"no":"garbage"}}`)
	if got, want := c.see(t, no), (seen{409, ledger.RefusedBusiness, ledger.Sent}); got != want {
		t.Errorf("a refusal met %+v, want %+v", got, want)
	}
}

func TestUnavailableSaysWhenToComeBack(t *testing.T) {
	c := open(t, Config{Faults: Faults{Unavailable: 1, RetryAfter: 1100 * time.Millisecond}})
	if got := c.send(t, do("/charges", "pay", `{}`)); got.header.Get("Retry-After") != "2" {
		t.Errorf("Retry-After = %q, want 2", got.header.Get("Retry-After"))
	}
	asked := do("/charges", "ask", `{"simulate":{"ask":"unavailable"}}`)
	if got := c.send(t, asked); got.header.Get("Retry-After") != "0" {
		t.Errorf("Retry-After = %q, want 0", got.header.Get("Retry-After"))
	}
}

func TestALateExecuteFindsItsUndoThere(t *testing.T) {
	paused, over := make(chan time.Duration), make(chan time.Time)
	c := open(t, Config{}, pauses(paused, over))
	r := do("/charges", "pay", `{"simulate":{"pay":"late:150ms"}}`)
	answered := make(chan reply)
	go func() { answered <- c.send(t, r) }()
	if got := <-paused; got != 150*time.Millisecond {
		t.Errorf("paused for %s, want 150ms", got)
	}
	c.expect(t, undo("/charges/refund", "pay", r.payload), 200, "", ledger.None)
	close(over)
	if got := <-answered; got.status != http.StatusConflict || got.code != "ALREADY_COMPENSATED" {
		t.Errorf("the late execute was answered %d %s", got.status, got.body)
	}
	all := c.entries(t)
	if len(all) != 2 || all[0].Seq != 2 || all[1].Seq != 1 || all[1].Effect != ledger.RefusedLate {
		t.Errorf("entries = %+v; want the undo, which arrived second, first", all)
	}
	end := map[string]ledger.SagaEnd{"s1": {Outcome: ledger.Compensated, Steps: []string{"pay"}}}
	for _, v := range ledger.Check(all, end) {
		t.Errorf("unjust: %s", v)
	}
}

// pauses makes a shop announce each pause on begun, and lets over end it.
func pauses(begun chan<- time.Duration, over <-chan time.Time) func(*Shop) {
	return func(s *Shop) {
		s.after = func(d time.Duration) <-chan time.Time {
			begun <- d
			return over
		}
	}
}

func TestASlowAnswerIsInTheLedgerBeforeItIsGiven(t *testing.T) {
	paused, over := make(chan time.Duration), make(chan time.Time)
	c := open(t, Config{}, pauses(paused, over))
	answered := make(chan reply)
	go func() { answered <- c.send(t, do("/charges", "pay", `{"simulate":{"pay":"slow:800ms"}}`)) }()
	if got := <-paused; got != 800*time.Millisecond {
		t.Errorf("paused for %s, want 800ms", got)
	}
	if got := c.entries(t); len(got) != 1 || got[0].Effect != ledger.Applied || got[0].Reply != ledger.Delayed {
		t.Errorf("entries during the pause = %+v, want one that is applied and delayed", got)
	}
	close(over)
	if got := <-answered; got.status != 200 {
		t.Errorf("answered %d, want 200", got.status)
	}
}

func TestCloseEndsWaitingCalls(t *testing.T) {
	for _, fault := range []string{"late:1h", "slow:1h"} {
		t.Run(fault, func(t *testing.T) {
			paused := make(chan time.Duration)
			c := open(t, Config{}, pauses(paused, nil))
			r := do("/charges", "pay", `{"simulate":{"pay":"`+fault+`"}}`)
			answered := make(chan reply)
			go func() { answered <- c.send(t, r) }()
			<-paused
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if got := <-answered; got.status != 0 {
				t.Errorf("answered %d, want a closed connection", got.status)
			}
		})
	}
}

func TestImpossibleFaultsAreRefused(t *testing.T) {
	for name, cfg := range map[string]Config{
		"more than certain":    {Faults: Faults{Failure: 1.1}},
		"less than impossible": {Faults: Faults{DropReply: -0.1}},
		"more than one of all": {Faults: Faults{Failure: 0.6, DropReply: 0.6}},
		"slow without a bound": {Faults: Faults{Slow: 0.1}},
		"late without a bound": {UndoFaults: Faults{Late: 0.1}},
		"not a number":         {Faults: Faults{Failure: math.NaN()}},
		"an undo refused":      {UndoFaults: Faults{Refuse: 0.1}},
		"refusal over one":     {Faults: Faults{Refuse: 2}},
		"a negative pause":     {Faults: Faults{RetryAfter: -1}},
	} {
		cfg.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
		if s, err := Open(cfg); err == nil {
			t.Errorf("%s: accepted", name)
			_ = s.Close()
		} else if !strings.Contains(err.Error(), "faults") {
			t.Errorf("%s: error %q does not name the faults", name, err)
		}
	}
}

func TestChanceFollowsTheProbabilities(t *testing.T) {
	m := Faults{Failure: 0.1, Unavailable: 0.05, DropRequest: 0.1, DropReply: 0.15, Garbage: 0.05,
		Slow: 0.1, Late: 0.05, Refuse: 0.2, MaxDelay: 50 * time.Millisecond}
	const draws = 20000
	got, refused := map[kind]float64{}, 0.0
	for n := range draws {
		d := m.draw(1, callID{string(rune('a' + n%20)), "x", ledger.Execute}, n)
		got[d.kind] += 1.0 / draws
		if (d.kind == slow || d.kind == late) && (d.delay <= 0 || d.delay > m.MaxDelay) {
			t.Fatalf("delay = %s, want above 0 and at most %s", d.delay, m.MaxDelay)
		}
	}
	for n := range draws {
		if m.draw(1, callID{"saga", string(rune(n)), ledger.Execute}, 0).refused {
			refused += 1.0 / draws
		}
	}
	// 20,000 draws deviate from 0.4 by about 0.0035 (one sigma).
	for _, w := range append(m.weights(), weight{noFault, 0.4}) {
		if math.Abs(got[w.kind]-w.p) > 0.02 {
			t.Errorf("%q drawn with frequency %.3f, want %.3f", w.kind, got[w.kind], w.p)
		}
	}
	if math.Abs(refused-m.Refuse) > 0.02 {
		t.Errorf("refused with frequency %.3f, want %.3f", refused, m.Refuse)
	}
}

func TestChanceIsDecidedByTheSeedAndTheCallAlone(t *testing.T) {
	m := Faults{Failure: 0.3, DropReply: 0.3, Slow: 0.3, MaxDelay: time.Second, Refuse: 0.5}
	differs := 0
	for n := range 50 {
		id := callID{"s1", "pay", ledger.Execute}
		if first, again := m.draw(1, id, n), m.draw(1, id, n); first != again {
			t.Fatal("the same call drew two faults")
		}
		if m.draw(1, id, n).refused != m.draw(1, id, n+1).refused {
			t.Fatal("a step was refused on one call and not on the next")
		}
		if m.draw(1, id, n) != m.draw(2, id, n) {
			differs++
		}
	}
	if differs < 25 {
		t.Errorf("another seed changed %d of 50 draws", differs)
	}
}
