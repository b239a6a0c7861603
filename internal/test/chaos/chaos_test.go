package chaos

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

var plans = map[string]plan{
	"": {
		lease: 2 * time.Second, nodes: 2, clients: 14, think: 900 * time.Millisecond, sagas: 200, drain: time.Minute,
		kills: 9, stops: 2, terms: 1, shops: 1, crashes: 1, cuts: 4, gap: 2000 * time.Millisecond,
		gateway: true,
	},
	"long": {
		lease: 2 * time.Second, nodes: 2, clients: 32, think: 900 * time.Millisecond, sagas: 2000, drain: 2 * time.Minute,
		kills: 110, stops: 30, terms: 15, shops: 15, crashes: 6, cuts: 40, blackouts: 4, gap: 3 * time.Second,
		gateway: true,
	},
}

// TestChaos shows that no promise about a saga depends on a process staying alive.
func TestChaos(t *testing.T) {
	t.Parallel()
	p := plans[chaosMode(t)]
	w := newWorld(t, p, seed(t), binary(t, buildPlain))
	began := time.Now()
	ctx := t.Context()
	db, err := ownDatabase(ctx, w.dir)
	w.db = db
	if err != nil {
		t.Fatal(err)
	}
	w.open(db, unreliable(w.dir, w.seed))
	if err := w.heal(ctx); err != nil {
		t.Fatal(err)
	}
	if c := (&client{w: w, dice: w.dice("registrar")}); !c.register(ctx) {
		t.Fatal("the workflows cannot be registered")
	}

	looking, lookAway := context.WithCancel(ctx)
	defer lookAway()
	watcher := newProbe(w)
	watched := make(chan struct{})
	go func() { watcher.run(looking); close(watched) }()

	more, enough := context.WithCancel(ctx)
	defer enough()
	traded := make(chan struct{})
	go func() { w.trade(ctx, more); close(traded) }()
	(&nemesis{w: w, dice: w.dice("nemesis")}).run(ctx)
	for w.stored(ctx) < p.sagas && pause(ctx, 50*time.Millisecond) {
	}
	enough()
	if err := w.heal(ctx); err != nil {
		t.Error(err)
	}
	<-traded
	w.drained(ctx)
	lookAway()
	<-watched

	v, err := w.judge(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(w.summary(v, watcher.looks, time.Since(began)))
	w.report(v)
	for _, missing := range w.unmet(v) {
		t.Errorf("the run proves nothing: %s", missing)
	}
}

// chaosMode is the size of a run: "" (short) or "long".
func chaosMode(t *testing.T) string {
	t.Helper()
	mode := os.Getenv("TEST_CHAOS")
	if _, known := plans[mode]; !known {
		t.Fatalf("TEST_CHAOS=%q; it may be empty or long", mode)
	}
	return mode
}

// seed returns the seed from the environment, or a random one.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("TEST_CHAOS_SEED")
	if text == "" {
		return rand.Uint64() >> 32
	}
	s, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("TEST_CHAOS_SEED: %v", err)
	}
	return s
}
