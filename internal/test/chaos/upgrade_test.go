package chaos

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/examples/order/shop"
)

// shortRollout is the plan of the rollout in every test run. Its lease is so long that a saga which
// a node fails to hand over doesn't end in time.
var shortRollout = plan{lease: 5 * time.Minute, nodes: 2, clients: 6, think: 300 * time.Millisecond, sagas: 300,
	drain: 2 * time.Minute, calm: true}

// TestAShortUpgradeAndTheWayBack is TestAnUpgradeAndTheWayBack with one rollout in each direction
// and few sagas. A saga's waiting time is compared only with the lease, because other tests run at
// the same time.
func TestAShortUpgradeAndTheWayBack(t *testing.T) {
	t.Parallel()
	build := exec.CommandContext(t.Context(), "sh", "scripts/previous.sh")
	var why bytes.Buffer
	build.Dir, build.Stderr = "../../..", &why
	out, err := build.Output()
	if build.ProcessState.ExitCode() == 3 {
		t.Skip(why.String()) // decision 0154
	}
	if err != nil {
		t.Fatalf("the program of the previous version: %v\n%s", err, &why)
	}
	rolledOut(t, shortRollout, strings.TrimSpace(string(out)), 1, shortRollout.lease)
}

// rolledOut replaces the nodes of the previous version with nodes of this version and back, a
// number of times, while clients start sagas, and judges the outcome. No saga may wait longer than
// longestGap.
func rolledOut(t *testing.T, p plan, previous string, rounds int, longestGap time.Duration) {
	t.Helper()
	this := binary(t, buildPlain)
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
	// These flows have timeouts long enough that no call is abandoned, and use nothing that the
	// previous version doesn't know.
	w.flows = []flow{w.flows[0], w.flows[2]}
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

// replace makes all nodes run another program, one after the other.
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

// gap returns the longest time between the end of an attempt and the beginning of its saga's next
// attempt.
func (w *world) gap(ctx context.Context) (time.Duration, error) {
	var seconds float64
	err := w.db.sql().QueryRowContext(ctx, `
		SELECT coalesce(extract(epoch FROM max(started_at - before)), 0)
		  FROM (SELECT l.started_at, lag(l.completed_at) OVER (PARTITION BY l.tenant_id, l.saga_id ORDER BY l.started_at) AS before
		          FROM saga.saga_step_logs l WHERE l.status <> 'SKIPPED') AS attempts`).Scan(&seconds)
	return time.Duration(seconds * float64(time.Second)), err
}
