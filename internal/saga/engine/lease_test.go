package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
)

const ttl = 10 * time.Second // the engine's default

// failing makes requests of some kinds fail while on is set.
func failing(on *atomic.Bool, ops ...op) func(request) failure {
	return func(r request) failure {
		for _, o := range ops {
			if r.op == o && on.Load() {
				return lostBefore
			}
		}
		return passes
	}
}

// unjittered renews every third of a lease, so that the end of the lease falls between two
// renewals.
func unjittered(c *engine.Config) { c.Jitter = func() float64 { return 0.5 } }

// callsForever creates a saga that calls its only participant every 100 ms, forever.
func (w *world) callsForever(n *node) uuid.UUID {
	d := steps("u")
	d.Retry.MaxAttempts, d.Retry.MaxIntervalMS = 1_000_000, 100
	w.participants.behavior = when(0, saga.Execute, always(unavailable))
	return n.create(d)
}

func TestNothingIsSentAfterTrustInTheLeaseEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a", unjittered)
		var down atomic.Bool
		n.inject(faults{fault: failing(&down, renewing, inquiring, registering)})
		id := w.callsForever(n)
		time.Sleep(time.Minute) // the lease is renewed throughout
		if err := n.engine.Healthy(); err != nil {
			t.Errorf("while the lease is renewed: %v", err)
		}
		down.Store(true)
		cut := now()
		time.Sleep(ttl)
		synctest.Wait()
		if n.engine.Healthy() == nil {
			t.Error("a node whose lease has expired reports that it is healthy")
		}
		sent := len(w.participants.of(id))
		if last := w.participants.of(id)[sent-1].at; last.Sub(cut) < ttl/2 {
			t.Errorf("the last call was made %v after the last possible renewal; a lease lasts %v", last.Sub(cut), ttl)
		}
		time.Sleep(time.Minute)
		if more := len(w.participants.of(id)) - sent; more > 0 {
			t.Errorf("%d calls without a lease", more)
		}
		down.Store(false)
		time.Sleep(2 * time.Second)
		calls := w.participants.of(id)
		if len(calls) == sent {
			t.Fatal("nothing is sent after the node has registered again")
		}
		if before, after := calls[sent-1], calls[sent]; after.Fence != before.Fence+1 || after.Attempt <= before.Attempt {
			t.Errorf("epoch %d, attempt %d after epoch %d, attempt %d", after.Fence, after.Attempt, before.Fence, before.Attempt)
		}
		if err := n.engine.Healthy(); err != nil {
			t.Errorf("after it has registered again: %v", err)
		}
	})
}

// TestLeaseIsTrustedFromBeforeTheRenewalWasSent: the answers to renewals arrive late, and then not
// at all. The lease in the database ends and another node takes over. The first node must have
// stopped by then, which the participants check.
func TestLeaseIsTrustedFromBeforeTheRenewalWasSent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, _ := w.start("a", unjittered), w.start("b")
		var down atomic.Bool
		a.inject(faults{fault: failing(&down, renewing), latency: func(o op) (there, back time.Duration) {
			if o == renewing {
				back = 3 * time.Second
			}
			return 0, back
		}})
		id := w.callsForever(a)
		time.Sleep(30 * time.Second)
		down.Store(true)
		w.until("another node takes over", func() bool {
			calls := w.participants.of(id)
			return calls[len(calls)-1].node == "b"
		})
		time.Sleep(ttl)
	})
}

func TestRefusedRenewalEndsEverythingAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = when(1, saga.Execute, first(1, slowly(yes, time.Hour)))
		n := w.start("a")
		d := steps("uu")
		d.Steps[1].TimeoutMS = time.Hour.Milliseconds()
		id := n.create(d)
		synctest.Wait()
		begin := now()
		if err := w.store.Sagas.Resign(context.Background(), *w.load(id).Saga.LeaseOwner); err != nil {
			t.Fatal(err)
		}
		w.untilEnded(id) // the hanging call was abandoned and repeated
		if took := now().Sub(begin); took > ttl {
			t.Errorf("the lost lease was noticed after %v", took)
		}
		if s, sequence := w.state(id), w.participants.sequence(id); s != saga.Completed || sequence != "X0 X1 X1" {
			t.Errorf("%s by %s", s, sequence)
		}
		w.checkInvariants(id)
	})
}

// TestLeaseRenewedTooLateIsNotTrusted: the lease in the database began later than the node assumes,
// so a renewal can succeed after the node has already dropped an outcome. The node must not
// continue under the same epoch, because only the next owner's claim counts the dropped attempt.
func TestLeaseRenewedTooLateIsNotTrusted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = when(0, saga.Execute, first(1, slowly(lostReply, 1500*time.Millisecond)))
		n := w.prepare("a")
		var dropped atomic.Bool
		n.inject(faults{fault: func(r request) failure {
			if r.op == committing && now().Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) > ttl &&
				dropped.CompareAndSwap(false, true) {
				return lostBefore
			}
			return passes
		}, latency: func(o op) (there, back time.Duration) {
			if o == registering {
				there = ttl - time.Second
			}
			return there, 0
		}})
		n.run()
		time.Sleep(ttl - time.Second)
		id := n.create(steps("uu"))
		w.untilEnded(id)
		if !dropped.Load() {
			t.Error("no commit was lost: the test does not test it")
		}
		w.checkInvariants(id)
	})
}

// TestFlagIsNotActedUponWithoutALease: the outcome of a call is dropped when the node stops
// trusting its lease, and a cancel arrives before the node has noticed that the lease is lost. Only
// the next owner's claim records that the step may have been done. Without that record the cancel
// would compensate too little.
func TestFlagIsNotActedUponWithoutALease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = when(0, saga.Execute, always(slowly(yes, time.Second)))
		n := w.start("a", unjittered)
		time.Sleep(4 * time.Second) // renewed once
		var down atomic.Bool
		n.inject(faults{fault: failing(&down, committing, loading, renewing)})
		id := n.create(steps("uu"))
		time.Sleep(100 * time.Millisecond)
		down.Store(true)
		w.until("the trust ends", func() bool { return n.engine.Healthy() != nil })
		down.Store(false)
		if err := w.intervene(id, cancel); err != nil {
			t.Fatal(err)
		}
		w.untilEnded(id)
		if s := w.state(id); s != saga.Cancelled {
			t.Errorf("%s; want cancelled", s)
		}
		w.checkInvariants(id)
	})
}

func TestSecondNodeTakesOver(t *testing.T) {
	for _, tt := range []struct {
		name     string
		next     string
		min, max time.Duration
	}{
		{"another node waits for the end of the lease", "b", ttl - 4*time.Second, ttl + time.Second},
		{"the same node's next incarnation takes its sagas at once", "a", 0, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = func(c saga.Call, nth int) reply {
					if c.Index == 1 && nth == 1 {
						return slowly(yes, 20*time.Second)
					}
					return yes
				}
				n := w.start("a")
				id := n.create(steps("uuu"))
				time.Sleep(5 * time.Second)
				n.kill()
				killed := now()
				w.start(tt.next)
				w.untilEnded(id)
				calls := w.participants.of(id)
				before, after := calls[1], calls[2]
				if after.Key != before.Key || after.Fence != before.Fence+1 || after.Attempt != before.Attempt+1 {
					t.Errorf("key %s, epoch %d, attempt %d; then key %s, epoch %d, attempt %d",
						before.Key, before.Fence, before.Attempt, after.Key, after.Fence, after.Attempt)
				}
				if took := after.at.Sub(killed); took < tt.min || took > tt.max {
					t.Errorf("taken over after %v; want %v to %v", took, tt.min, tt.max)
				}
				if s := w.state(id); s != saga.Completed {
					t.Errorf("ends %s", s)
				}
				w.checkInvariants(id)
			})
		})
	}
}

// TestFencedAnswerIsDropped: a node that has lost its lease receives an answer late. By then
// another node has continued, so no part of the answer may be written.
func TestFencedAnswerIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, _ := w.start("a"), w.start("b")
		var cut atomic.Bool
		a.inject(faults{fault: failing(&cut, renewing, inquiring, registering)})
		w.participants.behavior = func(c saga.Call, nth int) reply {
			if c.Index == 0 && nth == 1 {
				cut.Store(true)
				return slowly(reply{verdict: saga.Done, output: `"a"`}, 25*time.Second)
			}
			return reply{verdict: saga.Done, output: `"b"`}
		}
		id := a.create(steps("uu"))
		w.untilEnded(id)
		time.Sleep(time.Minute)
		if got := string(w.load(id).Logs[1].Response); got != `"b"` {
			t.Errorf("the recorded output is %s", got)
		}
		if calls := w.participants.of(id); calls[0].node != "a" || calls[1].node != "b" {
			t.Errorf("called by %s, %s", calls[0].node, calls[1].node)
		}
		w.checkInvariants(id)
	})
}

// unknown is a node that cannot say whether another process with its name has ended.
func unknown(c *engine.Config) { c.Gone = nil }

func TestASecondProcessOfANodeEndsAndTheFirstContinues(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = when(0, saga.Execute, always(slowly(yes, 6*time.Second)))
		first := w.start("a", unknown)
		id := first.create(steps("uu"))
		second := w.start("a", unknown)
		w.until("the second process ends", func() bool {
			select {
			case <-second.ran:
				return true
			default:
				return false
			}
		})
		if second.err == nil || !strings.Contains(second.err.Error(), "engine.node_id") {
			t.Errorf("it ended with %v", second.err)
		}
		w.untilEnded(id)
		if sequence := w.participants.sequence(id); sequence != "X0 X1" {
			t.Errorf("the calls were %s", sequence)
		}
		if err := first.engine.Healthy(); err != nil {
			t.Errorf("the first one: %v", err)
		}
	})
}

func TestOfTwoProcessesOfANodeThatStartTogetherOneRemains(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		both := []*node{w.prepare("a", unknown), w.prepare("a", unknown)}
		for _, n := range both {
			n.run()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		ended, healthy := 0, 0
		for _, n := range both {
			select {
			case <-n.ran:
				ended++
			default:
			}
			if n.engine.Healthy() == nil {
				healthy++
			}
		}
		if ended != 1 || healthy != 1 {
			t.Errorf("%d have ended and %d are healthy, want one each", ended, healthy)
		}
	})
}

func TestANodeWaitsForTheLeaseOfAProcessThatMayBeGone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start("a", unknown).kill()
		second := w.start("a", unknown)
		time.Sleep(ttl / 2)
		if second.engine.Healthy() == nil {
			t.Error("it has a lease before the lease of the former process has ended")
		}
		time.Sleep(ttl)
		if err := second.engine.Healthy(); err != nil {
			t.Errorf("after the end of that lease: %v", err)
		}
	})
}

func TestLeasesLostOccasionallyDoNotEndTheNode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a", func(c *engine.Config) { c.LeaseTTL = time.Second })
		for range 10 {
			time.Sleep(2 * time.Minute)
			if _, err := w.store.Sagas.Register(context.Background(), "a", "", 0); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if err := n.engine.Healthy(); err != nil {
			t.Error(err)
		}
	})
}

func TestLeasesLostToAnUnreachableDatabaseDoNotEndTheNode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.prepare("a")
		var away atomic.Bool
		n.inject(faults{fault: failing(&away, inquiring, registering, renewing)})
		n.run()
		for range 10 { // down for two leases, up for half of one
			away.Store(true)
			time.Sleep(2 * ttl)
			away.Store(false)
			time.Sleep(ttl / 2)
		}
		time.Sleep(time.Minute)
		if err := n.engine.Healthy(); err != nil {
			t.Errorf("after ten outages: %v, run ended with %v", err, n.err)
		}
	})
}

func TestNodeRegistersOnceTheDatabaseIsAvailable(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.prepare("a")
		var down atomic.Bool
		down.Store(true)
		n.inject(faults{fault: failing(&down, inquiring, registering)})
		n.run()
		time.Sleep(time.Minute)
		if n.engine.Healthy() == nil {
			t.Error("healthy without a lease")
		}
		if owner, done := n.engine.Admit(context.Background()); owner != nil {
			t.Error("admits sagas without a lease")
		} else {
			done(nil)
		}
		down.Store(false)
		time.Sleep(time.Second)
		if err := n.engine.Healthy(); err != nil {
			t.Error(err)
		}
	})
}
