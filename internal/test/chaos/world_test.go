package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/examples/order/shop"
	"github.com/skald-saga/skald/internal/test/patience"
)

// plan defines a run.
type plan struct {
	lease   time.Duration
	nodes   int
	clients int
	think   time.Duration // longest pause of a client between two orders
	sagas   int           // minimum number of orders
	drain   time.Duration // T_drain: how long sagas may take after healing

	gateway bool // a gateway stands in front of the participants

	calm bool // no node dies and no call is abandoned, so no call may be repeated

	// The faults that the nemesis injects, in random order, and the longest pause between two of
	// them.
	kills, stops, terms, shops, crashes, cuts, blackouts int
	gap                                                  time.Duration
}

// world is a running system with its clients and its faults.
type world struct {
	*findings
	t     *testing.T
	dir   string
	bin   string
	env   []string // for every node, in addition to the common environment
	plan  plan
	seed  uint64
	log   *eventLog
	db    *database
	shop  *participants
	nodes []*node
	flows []flow
	http  *http.Client
	// before stands in front of the participants; nil means that only a gateway may stand there.
	before func(http.Handler) http.Handler

	mu     sync.Mutex
	orders []*order // guarded by mu

	tally struct{ kills, stops, terms, shops, crashes, cuts, blackouts, replays atomic.Int64 }
}

// newWorld prepares a run. Its directory is kept if the test fails and removed otherwise.
func newWorld(t *testing.T, p plan, seed uint64, bin string) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "skald-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{findings: &findings{}, t: t, dir: dir, bin: bin, plan: p, seed: seed,
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 5 * time.Second}}}
	t.Cleanup(func() { w.close() })
	// PostgreSQL may have to run as another user, which must be able to traverse the directory.
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if w.log, err = openEventLog(filepath.Join(dir, "events.log")); err != nil {
		t.Fatal(err)
	}
	for i := range p.nodes {
		n, err := newNode(w, fmt.Sprintf("node-%d", i+1))
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, n)
	}
	return w
}

// open adds the database and the participants to the world.
func (w *world) open(db *database, faults shop.Config) {
	w.t.Helper()
	w.db = db
	var g *gateway
	if w.plan.gateway {
		g = newGateway(w.dice("gateway"))
	}
	p, err := openParticipants(faults, newWitness(db, w.findings), g, w.before)
	if err != nil {
		w.t.Fatal(err)
	}
	w.shop = p
	w.flows = makeFlows(w.dice("flows"), p.addr)
	p.witness.knows(w.flows)
}

// dice returns a source of randomness that depends only on the seed and the purpose.
func (w *world) dice(purpose string) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, b := range []byte(purpose) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(w.seed, h))
}

func (w *world) close() {
	for _, n := range w.nodes {
		n.end(syscall.SIGKILL)
		n.log.file.Close()
	}
	var err error
	if w.shop != nil {
		err = w.shop.close()
		w.shop.witness.wait.Wait()
	}
	if w.db != nil {
		err = errors.Join(err, w.db.close())
	}
	w.http.CloseIdleConnections()
	if w.log != nil {
		w.log.file.Close()
	}
	if err != nil {
		w.t.Errorf("clean up: %v", err)
	}
	if w.t.Failed() {
		w.t.Logf("seed %d; the ledger, the logs and the event log are in %s", w.seed, w.dir)
		return
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Error(err)
	}
}

// newOrder generates an order and records it before it is sent.
func (w *world) newOrder(r *rand.Rand, k kind) *order {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := newOrder(r, fmt.Sprintf("order-%05d", len(w.orders)), w.flows, k)
	w.orders = append(w.orders, o)
	return o
}

// stored counts the existing sagas; not every order leads to one.
func (w *world) stored(ctx context.Context) (n int) {
	_ = w.db.sql().QueryRowContext(ctx, `SELECT count(*) FROM saga.saga_states`).Scan(&n) // the database may be down
	return n
}

// trade lets the clients work until more ends. They finish the orders that they have begun, unless
// run ends first.
func (w *world) trade(run, more context.Context) {
	var clients sync.WaitGroup
	for i := range w.plan.clients {
		c := &client{w: w, dice: w.dice(fmt.Sprintf("client %d", i))}
		clients.Go(func() {
			for more.Err() == nil {
				c.serve(run, w.newOrder(c.dice, anyKind(c.dice)))
				pause(more, time.Duration(c.dice.Int64N(int64(w.plan.think))))
			}
		})
	}
	clients.Wait()
}

// heal starts everything that is down.
func (w *world) heal(ctx context.Context) error {
	for _, n := range w.nodes {
		if n.alive() == nil {
			if err := n.start(); err != nil {
				return err
			}
		}
	}
	return w.allReady(ctx)
}

func (w *world) allReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience.Limit)
	defer cancel()
	for _, n := range w.nodes {
		if err := n.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// drained waits until no saga is unfinished, but no longer than the plan allows.
func (w *world) drained(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.plan.drain)
	defer cancel()
	for {
		var left int
		err := w.db.sql().QueryRowContext(ctx, `SELECT count(*) FROM saga.saga_states WHERE completed_at IS NULL`).Scan(&left)
		if err == nil && left == 0 || !pause(ctx, 50*time.Millisecond) {
			return // the judge will report those that haven't ended
		}
	}
}
