package chaos

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// nemesis injects the faults that are not part of the sagas themselves.
type nemesis struct {
	w    *world
	dice *rand.Rand
	// back waits for everything that recovers later: nodes that are down or stopped.
	back sync.WaitGroup
}

// run injects all faults of the plan and returns when everything is running again.
func (n *nemesis) run(ctx context.Context) {
	p := n.w.plan
	var faults []func(context.Context)
	for _, d := range []struct {
		times int
		do    func(context.Context)
	}{
		{p.kills, n.kill}, {p.stops, n.stop}, {p.terms, n.term},
		{p.shops, n.restartShop}, {p.crashes, n.crashDatabase}, {p.cuts, n.cutDatabase}, {p.blackouts, n.blackout},
	} {
		for range d.times {
			faults = append(faults, d.do)
		}
	}
	n.dice.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	for _, do := range faults {
		if !n.rest(ctx, 0, p.gap) {
			break
		}
		do(ctx)
	}
	n.back.Wait()
}

// rest pauses for a random time and reports whether there is more to do.
func (n *nemesis) rest(ctx context.Context, least, most time.Duration) bool {
	return pause(ctx, least+time.Duration(n.dice.Int64N(int64(most-least))))
}

// victim returns a node that is up or, if none is, a node that soon will be.
func (n *nemesis) victim(ctx context.Context) *node {
	for {
		var up []*node
		for _, v := range n.w.nodes {
			if v.alive() != nil {
				up = append(up, v)
			}
		}
		if len(up) > 0 {
			return up[n.dice.IntN(len(up))]
		}
		if !pause(ctx, 10*time.Millisecond) {
			return nil
		}
	}
}

// absence returns how long a node stays down: often so briefly that it reclaims its own sagas, and
// often so long that another node has taken them over.
func (n *nemesis) absence() time.Duration {
	if n.dice.IntN(2) == 0 {
		return time.Duration(n.dice.Int64N(int64(300 * time.Millisecond)))
	}
	return n.w.plan.lease + time.Duration(n.dice.Int64N(int64(1500*time.Millisecond)))
}

// kill kills a node without warning.
func (n *nemesis) kill(ctx context.Context) {
	v, down := n.victim(ctx), n.absence()
	if v == nil {
		return
	}
	n.w.log.write("%s: SIGKILL, back in %s", v.name, down)
	v.end(syscall.SIGKILL)
	n.w.tally.kills.Add(1)
	n.back.Go(func() { n.bringBack(v, down) })
}

// bringBack starts a node after a while, even if the run is ending: at the end of a run, all nodes
// are up.
func (n *nemesis) bringBack(v *node, after time.Duration) {
	pause(context.Background(), after)
	if err := v.start(); err != nil {
		n.w.add("node", "", "", "%v", err)
	}
}

// stop pauses a node for longer than its lease. The node then continues as a zombie, with calls and
// decisions in progress, and must notice its lost lease before it acts.
func (n *nemesis) stop(ctx context.Context) {
	v := n.victim(ctx)
	if v == nil {
		return
	}
	proc, d := v.alive(), n.w.plan.lease+time.Duration(300+n.dice.IntN(1200))*time.Millisecond
	if proc == nil {
		return
	}
	n.w.log.write("%s: SIGSTOP for %s", v.name, d)
	from := time.Now()
	proc.signal(syscall.SIGSTOP)
	n.w.tally.stops.Add(1)
	n.back.Go(func() {
		pause(context.Background(), d)
		n.w.log.stopped(interval{from, time.Now()})
		n.w.log.write("%s: SIGCONT", v.name)
		proc.signal(syscall.SIGCONT)
	})
}

// term simulates a deployment: a node may finish its calls, hands over the rest and exits. No saga
// may suffer from it.
func (n *nemesis) term(ctx context.Context) {
	v := n.victim(ctx)
	if v == nil || v.awaitReady(ctx) != nil { // before it is ready, SIGTERM simply ends the process
		return
	}
	n.w.log.write("%s: SIGTERM", v.name)
	proc := v.take()
	proc.signal(syscall.SIGTERM)
	n.w.tally.terms.Add(1)
	n.back.Go(func() {
		<-proc.done
		if proc.err != nil {
			n.w.add("O2", "", "", "%s did not stop in order: %v", v.name, proc.err)
		}
		n.bringBack(v, 0)
	})
}

// restartShop stops the participants while they are answering calls and restarts them from their
// ledger.
func (n *nemesis) restartShop(ctx context.Context) {
	n.w.log.write("participants: down")
	if err := n.w.shop.close(); err != nil {
		n.w.add("input", "", "", "close the participants: %v", err)
	}
	n.rest(ctx, 0, 200*time.Millisecond)
	if err := n.w.shop.open(); err != nil {
		n.w.add("input", "", "", "open the participants: %v", err)
		return
	}
	n.w.log.write("participants: up")
	n.w.tally.shops.Add(1)
}

// steady waits until all nodes are up: a node that starts without its database gives up, which is
// correct and not tested here.
func (n *nemesis) steady(ctx context.Context) bool {
	n.back.Wait()
	return n.w.allReady(ctx) == nil
}

// crashDatabase makes PostgreSQL crash and recover while the nodes run.
func (n *nemesis) crashDatabase(ctx context.Context) {
	if !n.steady(ctx) {
		return
	}
	n.w.log.write("PostgreSQL: a backend is killed, so it recovers from a crash")
	if err := n.w.db.crash(ctx); err != nil {
		n.w.add("input", "", "", "%v", err)
		return
	}
	n.w.tally.crashes.Add(1)
	n.w.log.write("PostgreSQL: back")
}

// cutDatabase terminates connections of the nodes, whatever they are doing.
func (n *nemesis) cutDatabase(ctx context.Context) {
	kind := []string{"writer", "writer", "api", "lease"}[n.dice.IntN(4)]
	n.w.log.write("PostgreSQL: all %s connections are cut", kind)
	err := n.w.db.cut(ctx, kind)
	for tries := 0; err != nil && ctx.Err() == nil && tries < 600; tries++ { // it may still be recovering from a crash
		time.Sleep(100 * time.Millisecond)
		err = n.w.db.cut(ctx, kind)
	}
	if err != nil && ctx.Err() == nil {
		n.w.add("input", "", "", "cut connections: %v", err)
		return
	}
	n.w.tally.cuts.Add(1)
}

// blackout kills the database and all nodes. PostgreSQL restarts on another port, so the nodes get
// its new address.
func (n *nemesis) blackout(ctx context.Context) {
	if !n.steady(ctx) {
		return
	}
	n.w.log.write("blackout: SIGKILL to PostgreSQL and all nodes")
	n.w.tally.blackouts.Add(1)
	if err := n.w.db.kill(); err != nil {
		n.w.add("input", "", "", "%v", err)
		return
	}
	for _, v := range n.w.nodes {
		v.end(syscall.SIGKILL)
		n.w.tally.kills.Add(1)
	}
	if err := n.w.db.boot(ctx); err != nil {
		n.w.add("input", "", "", "PostgreSQL does not come back: %v", err)
		return
	}
	n.w.log.write("PostgreSQL: back")
	for _, v := range n.w.nodes {
		n.bringBack(v, 0)
	}
}
