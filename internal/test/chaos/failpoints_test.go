package chaos

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/examples/order/shop"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// sweep is the plan for one failpoint: a single node with a short lease, so that leases are renewed
// often, and participants without random faults.
var sweep = plan{lease: time.Second, nodes: 1, clients: 6, drain: 30 * time.Second}

// TestEveryFailpointIsSurvived kills a node at each point in the code where something has just
// become durable or is about to, and restarts it.
func TestEveryFailpointIsSurvived(t *testing.T) {
	t.Parallel()
	bin := binary(t, buildFailpoints)
	// The first node of a database takes nothing over; TestLostClaimsAreRecovered covers that
	// point.
	names := slices.DeleteFunc(slices.Clone(failpoint.Sagas), func(n failpoint.Name) bool {
		return n == failpoint.LeaseTakeover
	})
	eachLife(t, names, func(t *testing.T, names []failpoint.Name) { dieAt(t, bin, names) })
}

// eachLife divides the points into lists and runs the lists concurrently. The points of one list
// are the successive deaths of one node; in a long run, each node dies only once.
func eachLife(t *testing.T, names []failpoint.Name, run func(*testing.T, []failpoint.Name)) {
	lives := 6
	if chaosMode(t) == "long" {
		lives = 1
	}
	lists := make(chan []failpoint.Name)
	var runners sync.WaitGroup
	for range 4 { // more than t.Parallel would run at once, because they mostly wait
		runners.Go(func() {
			for list := range lists {
				t.Run(fmt.Sprint(list), func(t *testing.T) { run(t, list) })
			}
		})
	}
	for list := range slices.Chunk(names, lives) {
		lists <- list
	}
	close(lists)
	runners.Wait()
}

// perPoint is the time in which a node must reach a point.
const perPoint = 20 * time.Second

// dieAt kills a node at each of the points, when the node reaches the point for the first, second
// or third time.
func dieAt(t *testing.T, bin string, names []failpoint.Name) {
	w := newSweep(t, bin, sweep)
	var points []string
	for _, name := range names {
		points = append(points, fmt.Sprintf("%s=kill@%d", name, 1+w.dice("hit "+string(name)).IntN(3)))
	}
	n := w.nodes[0]
	died := n.startDoomed(t, points...)
	v := w.sweep(t, died, perPoint*time.Duration(len(points)))
	t.Logf("%v: %d sagas, %d calls of which %d repeated, %d takeovers", points, len(v.sagas), v.calls, v.duplicates, v.takeovers)
	for i, name := range names {
		if !n.log.passed(string(name)) {
			t.Errorf("%s: the point was never reached", points[i])
		}
	}
	select {
	case <-died:
	default:
		t.Errorf("%v: the node did not die of each in %d sagas", points, len(v.sagas))
	}
}

// TestLostCommitAnswersAreReadBack makes every fifth commit succeed but report an error. A node
// that believed the error would repeat calls. Since no node dies and no call is abandoned, no call
// may be repeated.
func TestLostCommitAnswersAreReadBack(t *testing.T) {
	t.Parallel()
	p := sweep
	p.calm = true
	w := newSweep(t, binary(t, buildFailpoints), p)
	w.flows = w.flows[:len(w.flows)/2] // only flows whose timeouts are long enough
	n := w.nodes[0]
	if err := n.start("SKALD_FAILPOINTS=" + string(failpoint.CommitUnknown) + "=exec_err%0.2"); err != nil {
		t.Fatal(err)
	}
	rounds := make(chan struct{})
	time.AfterFunc(4*time.Second, func() { close(rounds) })
	v := w.sweep(t, rounds, perPoint)
	t.Logf("%d sagas, %d calls of which %d repeated", len(v.sagas), v.calls, v.duplicates)
	if !n.log.passed(string(failpoint.CommitUnknown)) {
		t.Error("no commit passed the point")
	}
}

// TestLostClaimsAreRecovered loses the response to the claim with which a restarted node reclaims
// its sagas: the node owns them without knowing it. It must find them, and it must not drive a saga
// that it doesn't know it owns.
func TestLostClaimsAreRecovered(t *testing.T) {
	t.Parallel()
	w := newSweep(t, binary(t, buildFailpoints), sweep)
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	n := w.nodes[0]
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	if !(&client{w: w, dice: w.dice("registrar")}).register(ctx) {
		t.Fatal("the workflows cannot be registered")
	}
	served, enough := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		for number := 0; !closed(enough) && ctx.Err() == nil; number++ {
			w.round(ctx, number)
		}
	}()
	// The node is stopped before its sagas are counted, so that they are still in flight when it is
	// killed.
	for pause(ctx, 5*time.Millisecond) {
		n.alive().signal(syscall.SIGSTOP)
		if w.inFlight(ctx, t) >= 3 {
			break
		}
		n.alive().signal(syscall.SIGCONT)
	}
	close(enough)
	n.end(syscall.SIGKILL)
	if err := n.start("SKALD_FAILPOINTS=" + string(failpoint.LeaseTakeover) + "=err@1"); err != nil {
		t.Fatal(err)
	}
	<-served
	v := w.settle(ctx, t)
	t.Logf("%d sagas, %d takeovers, %d calls of which %d repeated", len(v.sagas), v.takeovers, v.calls, v.duplicates)
	if v.takeovers < 3 || !n.log.passed(string(failpoint.LeaseTakeover)) {
		t.Errorf("%d takeovers, want those of at least 3 sagas", v.takeovers)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// inFlight counts the sagas that a node is driving. It returns 0 while a running statement of a
// node may still change that number.
func (w *world) inFlight(ctx context.Context, t *testing.T) (n int) {
	t.Helper()
	err := w.db.sql().QueryRowContext(ctx, `
		SELECT count(*) FROM saga.saga_states WHERE completed_at IS NULL AND lease_owner IS NOT NULL
		   AND NOT EXISTS (SELECT FROM pg_stat_activity
		                    WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid())`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newSweep(t *testing.T, bin string, p plan) *world {
	t.Helper()
	w := newWorld(t, p, seed(t), bin)
	db := &database{}
	if err := db.use(testdb.DSN(t)); err != nil {
		t.Fatal(err)
	}
	w.open(db, shop.Config{Ledger: filepath.Join(w.dir, "ledger.jsonl"), Seed: w.seed})
	return w
}

// startDoomed starts a node that kills itself at the first of the points and restarts it to die at
// the next one. After the last death, the node stays up, and died is closed.
func (n *node) startDoomed(t *testing.T, points ...string) (died <-chan struct{}) {
	t.Helper()
	if err := n.start("SKALD_FAILPOINTS=" + points[0]); err != nil {
		t.Fatal(err)
	}
	proc := n.take() // supervise must not report that it ends
	done := make(chan struct{})
	back := make(chan struct{})
	go func() {
		defer close(back)
		for i, point := range points {
			select {
			case <-proc.done:
			case <-t.Context().Done():
				return
			}
			if t.Context().Err() != nil {
				return // the end of the test killed it
			}
			if !proc.killed() {
				n.w.add("node", "", "", "%s ended by itself: %v", n.name, proc.cmd.ProcessState)
			}
			n.w.log.write("%s: died at %s", n.name, point)
			var next []string
			if i+1 < len(points) {
				next = []string{"SKALD_FAILPOINTS=" + points[i+1]}
			}
			if err := n.start(next...); err != nil {
				n.w.add("node", "", "", "%v", err)
				return
			}
			if next != nil {
				proc = n.take()
			}
		}
		close(done)
	}()
	t.Cleanup(func() { <-back })
	return done
}

// sweep processes orders of every kind, again and again until enough is closed but no longer than
// limit, and judges the result.
func (w *world) sweep(t *testing.T, enough <-chan struct{}, limit time.Duration) *verdict {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit+time.Minute)
	defer cancel()
	if !(&client{w: w, dice: w.dice("registrar")}).register(ctx) {
		t.Fatal("the workflows cannot be registered")
	}
	for round, began := 0, time.Now(); ; round++ {
		w.round(ctx, round)
		select {
		case <-enough:
		case <-time.After(100 * time.Millisecond):
			if time.Since(began) < limit {
				continue
			}
		}
		break
	}
	return w.settle(ctx, t)
}

// round processes one order of each kind and returns when all clients are done.
func (w *world) round(ctx context.Context, number int) {
	var clients sync.WaitGroup
	for i, k := range []kind{plain, plain, refused, refused, cancelled, deadline} {
		c := &client{w: w, dice: w.dice(fmt.Sprintf("client %d of round %d", i, number))}
		clients.Go(func() { c.serve(ctx, w.newOrder(c.dice, k)) })
	}
	clients.Wait()
}

// settle waits until the system is idle and judges the run.
func (w *world) settle(ctx context.Context, t *testing.T) *verdict {
	t.Helper()
	if err := w.heal(ctx); err != nil {
		t.Error(err)
	}
	w.drained(ctx)
	if err := newProbe(w).look(ctx); err != nil {
		t.Error(err)
	}
	v, err := w.judge(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w.report(v)
	return v
}
