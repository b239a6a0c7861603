package engine_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
	"github.com/skald-saga/skald/internal/saga/participantgate"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// gated gives a node a gate, which watches the participants while the node runs.
func gated(w *world, name string) func(*engine.Config) {
	known := participantgate.NewKnown(w.store.Participants)
	g := participantgate.New(participantgate.Config{
		Store: w.store.Participants, Known: known, Node: name, Now: now,
		Log: w.log.With(slog.String("gate", name)),
		Due: func() {
			for _, n := range w.nodes {
				n.engine.Backlog()
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.t.Cleanup(func() { cancel(); <-done })
	go func() { defer close(done); g.Run(ctx) }()
	return func(c *engine.Config) { c.Gate, c.Address = g, known.Address }
}

// participant registers the participant of all calls of a workflow.
func (w *world) participant(name string, change ...func(*registry.Settings)) {
	w.t.Helper()
	s := registry.Settings{BaseURL: "http://" + name}
	s.Outage.MinCalls = 10
	for _, f := range change {
		f(&s)
	}
	s, err := s.Checked(name)
	if err != nil {
		w.t.Fatal(err)
	}
	p := registry.New(home.ID, name, s, "", now())
	if err := w.store.Participants.Put(context.Background(), p, 0, registry.VerbPut); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // every node knows it
	synctest.Wait()
}

// gateOf returns a participant as stored.
func (w *world) gateOf(name string) registry.Participant {
	p, err := w.store.Participants.Get(context.Background(), home.ID, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// order applies an operator's action.
func (w *world) order(name string, f func(registry.Participant) registry.Participant) {
	p := w.gateOf(name)
	if err := w.store.Participants.Put(context.Background(), f(p), p.Epoch, registry.VerbHold); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// calls returns how many calls of a workflow were received.
func (p *participants) callsTo(workflow string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, entries := range p.ledger {
		for _, e := range entries {
			if strings.HasPrefix(e.By.HTTP.URL, "http://"+workflow+"/") {
				n++
			}
		}
	}
	return n
}

// TestADeadParticipantGetsCanariesAndNothingElse (invariants I23, I25) checks that the sagas of a
// participant spend no attempts while it does not answer. Once it is back, they are let through at
// a growing rate, and all of them end. Two nodes share one gate, and one of the nodes is killed in
// the meantime.
func TestADeadParticipantGetsCanariesAndNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.start("a", gated(w, "a")), w.start("b", gated(w, "b"))
		w.participant("card")
		card, stock := named("card", "n"), named("stock", "n")
		var dead atomic.Bool
		dead.Store(true)
		w.participants.behavior = func(c saga.Call, _ int) reply {
			if dead.Load() && strings.HasPrefix(c.By.HTTP.URL, "http://card/") {
				return reply{verdict: saga.NotApplied, class: retry.Network}
			}
			return yes
		}
		var first []uuid.UUID
		for range 10 { // the nodes notice
			first = append(first, a.create(card))
		}
		w.until("the gate is held", func() bool { return w.gateOf("card").Gate.State == registry.Held })
		time.Sleep(5 * time.Second)
		w.untilEndedOr(first...)
		before, begun := w.participants.callsTo("card"), time.Now()
		var late, others []uuid.UUID
		for i := range 200 {
			late = append(late, []*node{a, b}[i%2].create(card))
			others = append(others, a.create(stock))
		}
		w.untilEnded(others...) // sagas that do not use the participant do not wait
		time.Sleep(30 * time.Second)
		b.kill()
		time.Sleep(30 * time.Second)
		canaries := w.participants.callsTo("card") - before
		if most := int(time.Since(begun)/(10*time.Second)) + 1; canaries > most || canaries < most-3 {
			t.Errorf("%d calls in %s, want %d canaries at most", canaries, time.Since(begun), most)
		}
		waiting := 0
		for _, id := range late {
			l := w.load(id).Saga
			if l.State.Terminal() {
				t.Errorf("saga %s has ended as %s", id, l.State)
			}
			if l.Attempt == 1 && l.Failures == 0 {
				waiting++
			}
			if l.LeaseOwner == nil && l.NextRunAt == nil {
				t.Errorf("saga %s waits without a due time", id)
			}
		}
		if waiting < len(late)-canaries {
			t.Errorf("%d of %d sagas have spent nothing, want all but %d canaries", waiting, len(late), canaries)
		}
		dead.Store(false)
		back := time.Now()
		w.untilEnded(late...)
		if took := time.Since(back); took > 40*time.Second {
			t.Errorf("they ended %s after it was back", took)
		}
		for _, id := range late {
			if s := w.state(id); s != saga.Completed {
				t.Errorf("saga %s ended as %s", id, s)
			}
		}
		w.until("the gate is open", func() bool { return w.gateOf("card").Gate.State == registry.Open })
		time.Sleep(2 * time.Second) // every node knows it
		if again := a.create(card); !w.endsSoon(again) {
			t.Error("a new saga waits at an open gate")
		}
	})
}

func (w *world) endsSoon(id uuid.UUID) bool {
	synctest.Wait()
	return w.state(id).Terminal()
}

// untilEndedOr advances time until the sagas have ended or wait.
func (w *world) untilEndedOr(ids ...uuid.UUID) {
	w.until("they end or wait", func() bool {
		for _, id := range ids {
			if s := w.load(id).Saga; !s.State.Terminal() && s.LeaseOwner != nil {
				return false
			}
		}
		return true
	})
}

// Operator actions and deadlines take precedence over a gate.
func TestASagaAtAGateIsCancelledAndTimesOut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a", gated(w, "a"))
		w.participant("card")
		w.order("card", func(p registry.Participant) registry.Participant { return p.Hold("ann", "", "", now()) })
		d := named("card", "un")
		cancelled, late, stays := n.create(d), n.create(d), n.create(d)
		w.untilEndedOr(cancelled, late, stays)
		for id, e := range map[uuid.UUID]saga.Event{
			cancelled: saga.CancelRequested{By: "bob"}, late: saga.CompensateRequested{By: "bob"},
		} {
			if err := w.intervene(id, e); err != nil {
				t.Fatal(err)
			}
		}
		w.untilEnded(cancelled, late)
		if w.state(cancelled) != saga.Cancelled || w.participants.callsTo("card") != 0 {
			t.Errorf("%s after %d calls", w.state(cancelled), w.participants.callsTo("card"))
		}
		// no canary is sent, however long it takes, and the saga checks the gate now and then
		time.Sleep(3 * time.Hour)
		if w.participants.callsTo("card") != 0 || w.state(stays).Terminal() {
			t.Errorf("a person holds it, and there were %d calls", w.participants.callsTo("card"))
		}
		if l := w.load(stays).Saga; l.Attempt != 1 || l.Failures != 0 {
			t.Errorf("it has spent %d attempts", l.Attempt)
		}
		w.order("card", func(p registry.Participant) registry.Participant {
			p, _ = p.Release("ann", 0, now())
			return p
		})
		w.untilEnded(stays)
		if w.state(stays) != saga.Completed {
			t.Error(w.state(stays))
		}
	})
}

// If a node dies between the grant and the call, the grant is spent and the saga waits again.
func TestAGrantWhoseNodeDiesIsGivenAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.start("a", gated(w, "a"))
		w.participant("card")
		w.order("card", func(p registry.Participant) registry.Participant { return p.Hold("ann", "", "", now()) })
		id := a.create(named("card", "n"))
		w.untilEndedOr(id)
		p := w.gateOf("card")
		l := w.load(id)
		call := l.Saga.NextCall()
		d := registry.Decision{Gate: p.Gate, Grants: 5}
		let, stored, err := w.store.Participants.Decide(context.Background(), &p, d, now())
		if let != 1 || !stored || err != nil {
			t.Fatalf("%d were let through, %t, %v", let, stored, err)
		}
		grants := []registry.Grant{{Of: refOf(id), Participant: "card", Call: call}}
		if taken, err := w.store.Participants.Take(context.Background(), grants); !taken[0] || err != nil {
			t.Fatalf("%t %v", taken, err) // as the dead node did
		}
		w.until("it waits again", func() bool {
			wait, err := w.store.Participants.Wait(context.Background(), refOf(id))
			return err == nil && wait != nil && w.load(id).Saga.LeaseOwner == nil
		})
		if w.participants.callsTo("card") != 0 {
			t.Error("it was called without a grant")
		}
		w.order("card", func(p registry.Participant) registry.Participant { p, _ = p.Release("", 0, now()); return p })
		w.untilEnded(id)
	})
}

// When a participant asks for time, all of its sagas give it that time.
func TestRetryAfterHoldsTheParticipant(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a", gated(w, "a"))
		w.participant("card")
		var asked atomic.Bool
		w.participants.behavior = func(saga.Call, int) reply {
			if !asked.Swap(true) {
				r := unavailable
				r.retryAfter = 5 * time.Minute
				return r
			}
			return yes
		}
		first := n.create(named("card", "n"))
		w.until("the gate is held", func() bool { return w.gateOf("card").Gate.State == registry.Held })
		begun := time.Now()
		second := n.create(named("card", "n"))
		w.untilEnded(first, second)
		if took := time.Since(begun); took < 4*time.Minute+50*time.Second || took > 6*time.Minute {
			t.Errorf("the second ended after %s", took)
		}
	})
}

// When a participant has reached its limit of calls in flight, its sagas wait without holding a
// slot or spending attempts.
func TestSagasAboveTheLimitOfCallsInFlightWaitWithoutASlot(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a", gated(w, "a"), func(c *engine.Config) { c.MaxRunning = 8 })
		w.participant("card", func(s *registry.Settings) { s.MaxInFlight = 2 })
		w.participants.behavior = func(saga.Call, int) reply { return slowly(yes, 200*time.Millisecond) }
		var all []uuid.UUID
		begun := time.Now()
		for range 30 {
			all = append(all, n.create(named("card", "n")))
		}
		w.untilEnded(all...)
		if most := w.participants.busiest(); most != 2 {
			t.Errorf("%d calls at once, want 2", most)
		}
		if took := time.Since(begun); took > 15*time.Second {
			t.Errorf("30 calls of 200 ms, two at a time, took %s", took)
		}
		for _, id := range all {
			if l := w.load(id); l.Saga.State != saga.Completed || len(l.Logs) != 1 || l.Logs[0].Attempt != 1 {
				t.Errorf("%s after %d attempts", l.Saga.State, len(l.Logs))
			}
		}
	})
}
