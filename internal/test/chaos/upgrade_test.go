//go:build upgrade

package chaos

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/examples/order/shop"
)

// rollout is the plan of a rollout. Its lease is long, so that a saga that no node hands over is noticed.
var rollout = plan{lease: 15 * time.Second, nodes: 2, clients: 24, think: 300 * time.Millisecond, sagas: 10_000,
	drain: time.Minute, calm: true}

// longestGap is how long a saga may wait between two of its calls while its node is replaced.
const longestGap = 5 * time.Second

// TestAnUpgradeAndTheWayBack replaces the nodes of the previous version by those of this one, one by one, and
// back, several times, while clients start sagas: SKALD_PREVIOUS is the program of the previous version. No call
// may be repeated, no client may get an error other than a 503, and no saga may wait for a lease to expire.
func TestAnUpgradeAndTheWayBack(t *testing.T) {
	previous := os.Getenv("SKALD_PREVIOUS")
	if previous == "" {
		t.Fatal("SKALD_PREVIOUS does not name the program of the previous version")
	}
	rounds := 5
	if text := os.Getenv("SKALD_ROLLOUTS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatalf("SKALD_ROLLOUTS: %v", err)
		}
	}
	this := binary(t, buildPlain)
	p := rollout
	p.sagas = p.sagas * rounds / 5
	w := newWorld(t, p, seed(t), previous)
	ctx := t.Context()
	db, err := ownDatabase(ctx, w.dir)
	w.db = db
	if err != nil {
		t.Fatal(err)
	}
	w.open(db, shop.Config{Ledger: filepath.Join(w.dir, "ledger.jsonl"), Seed: w.seed,
		Faults:     shop.Faults{Slow: 0.1, Refuse: 0.03, MaxDelay: pauses},
		UndoFaults: shop.Faults{Slow: 0.1, MaxDelay: pauses}})
	w.flows = w.flows[:len(w.flows)/2] // those that wait long enough, so that no call is given up
	if err := w.heal(ctx); err != nil {
		t.Fatal(err)
	}
	if c := (&client{w: w, dice: w.dice("registrar")}); !c.register(ctx) {
		t.Fatal("the workflows cannot be registered")
	}
	began := time.Now()
	more, enough := context.WithCancel(ctx)
	defer enough()
	traded := make(chan struct{})
	go func() { w.trade(ctx, more); close(traded) }()
	for range rounds {
		w.replace(ctx, this)
		w.replace(ctx, previous)
	}
	w.replace(ctx, this)
	for w.stored(ctx) < p.sagas && pause(ctx, 50*time.Millisecond) {
	}
	enough()
	<-traded
	w.drained(ctx)
	gap, err := w.gap(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if gap > longestGap {
		w.add("upgrade", "", "", "a saga waited for %s between two calls", gap)
	}
	v, err := w.judge(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rollouts in %s: seed=%d sagas=%d calls=%d duplicates=%d takeovers=%d longest gap %s, ends %v, violations=%d",
		2*rounds+1, time.Since(began).Round(time.Second), w.seed, len(v.sagas), v.calls, v.duplicates, v.takeovers, gap,
		v.ends, len(w.all()))
	w.report(v)
}

// replace lets all nodes run another program, one after the other.
func (w *world) replace(ctx context.Context, bin string) {
	for _, n := range w.nodes {
		if !pause(ctx, time.Second) {
			return
		}
		w.log.write("%s: SIGTERM, next is %s", n.name, bin)
		proc := n.take()
		proc.signal(syscall.SIGTERM)
		<-proc.done
		if proc.err != nil {
			w.add("O2", "", "", "%s did not stop in order: %v", n.name, proc.err)
		}
		n.bin = bin
		if err := n.start(); err != nil {
			w.t.Fatal(err)
		}
		if err := w.allReady(ctx); err != nil {
			w.t.Fatal(err)
		}
		w.tally.terms.Add(1)
	}
}

// gap returns the longest time between the end of an attempt and the beginning of the next one of its saga.
func (w *world) gap(ctx context.Context) (time.Duration, error) {
	var seconds float64
	err := w.db.sql().QueryRowContext(ctx, `
		SELECT coalesce(extract(epoch FROM max(started_at - before)), 0)
		  FROM (SELECT l.started_at, lag(l.completed_at) OVER (PARTITION BY l.tenant_id, l.saga_id ORDER BY l.started_at) AS before
		          FROM saga.saga_step_logs l WHERE l.status <> 'SKIPPED') AS attempts`).Scan(&seconds)
	return time.Duration(seconds * float64(time.Second)), err
}
