package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// TestStopFailsNoSaga is O2: a deployment interrupts sagas at every stage, and each of them ends as
// if it had not been interrupted.
func TestStopFailsNoSaga(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = func(c saga.Call, nth int) reply {
			switch stage := strings.Split(c.By.HTTP.URL, "/")[2]; {
			case stage == "in flight" && c.Index == 1, stage == "first call":
				return slowly(yes, 300*time.Millisecond)
			case stage == "slow" && c.Index == 1:
				return slowly(yes, 8*time.Second)
			case stage == "fails meanwhile" && nth == 1:
				return reply{
					verdict:    saga.NotApplied,
					class:      "unavailable",
					takes:      300 * time.Millisecond,
					retryAfter: 2 * time.Second,
				}
			case stage == "waits for a moment" && nth < 3:
				return reply{verdict: saga.Unknown, class: "network", retryAfter: 2 * time.Second}
			case stage == "waits for long" && nth < 3:
				return reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: time.Minute}
			case stage == "undoes" && c.Index == 2:
				return no
			case stage == "undoes" && c.Action == saga.Compensate:
				return slowly(yes, time.Second)
			}
			return yes
		}
		a := w.start("a")
		ids := map[string]uuid.UUID{}
		for _, stage := range []string{"in flight", "slow", "waits for a moment", "waits for long", "undoes", "first call",
			"fails meanwhile"} {
			ids[stage] = a.create(named(stage, "uuu"))
		}
		synctest.Wait()
		begin := now()
		a.stop()
		if took := now().Sub(begin); took > 9*time.Second {
			t.Errorf("the stop took %v; the slowest call takes 8 s", took)
		}
		for stage, id := range ids {
			s := w.load(id).Saga
			if s.State == saga.Failed || s.State == saga.Cancelled || !s.State.Terminal() && s.LeaseOwner != nil {
				t.Errorf("%s: after the stop it is %s, owned by %v", stage, s.State, s.LeaseOwner)
			}
			for _, c := range w.participants.of(id) {
				if c.at.After(begin) {
					t.Errorf("%s: the stopping node calls %s", stage, c.Step)
				}
			}
		}
		w.start("b")
		for stage, id := range ids {
			w.untilEnded(id)
			want := saga.Completed
			if stage == "undoes" {
				want = saga.Compensated
			}
			if s := w.state(id); s != want || w.takeovers[id] != 0 {
				t.Errorf(
					"%s: it ends %s after %d takeovers by %s; want %s after none",
					stage,
					s,
					w.takeovers[id],
					w.participants.sequence(id),
					want,
				)
			}
			w.checkInvariants(id)
		}
	})
}

func TestStopWaitsForCallsLongerThanTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, _ := w.start("a"), w.start("b")
		w.participants.behavior = when(0, saga.Execute, always(slowly(yes, 18*time.Second)))
		id := a.create(steps("uu"))
		synctest.Wait()
		a.stop()
		w.untilEnded(id)
		if sequence := w.participants.sequence(id); sequence != "X0 X1" || w.takeovers[id] != 0 {
			t.Errorf("%s, %d takeovers; want X0 X1 without any", sequence, w.takeovers[id])
		}
		w.checkInvariants(id)
	})
}

func TestStopGivesUpCallsThatTakeTooLong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.start("a")
		w.participants.behavior = when(0, saga.Execute, first(1, slowly(yes, 25*time.Second)))
		d := steps("uu")
		d.Retry.MaxAttempts = 1 // the abandoned call does not count
		id := a.create(d)
		synctest.Wait()
		begin := now()
		a.stop()
		if took := now().Sub(begin); took != 20*time.Second {
			t.Errorf("the stop took %v; want the whole drain of 20 s", took)
		}
		w.start("b")
		w.untilEnded(id)
		if sequence := w.participants.sequence(id); sequence != "X0 X0 X1" || w.state(id) != saga.Completed {
			t.Errorf("%s by %s", w.state(id), sequence)
		}
		w.checkInvariants(id)
	})
}

func TestStopHandsOverWaitingSagasBeforeItDrains(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, _ := w.start("a"), w.start("b")
		w.participants.behavior = func(c saga.Call, nth int) reply {
			switch {
			case c.By.HTTP.URL == "http://waits/do/0" && nth == 1:
				return reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: 2 * time.Second}
			case c.By.HTTP.URL == "http://calls/do/0":
				return slowly(yes, 15*time.Second)
			}
			return yes
		}
		waits, calls := a.create(named("waits", "u")), a.create(named("calls", "n"))
		synctest.Wait()
		begin := now()
		a.stop()
		w.untilEnded(waits, calls)
		if took := w.load(waits).Saga.CompletedAt.Sub(begin); took > 3*time.Second {
			t.Errorf("a retry due after 2 s was made after %v, when the other saga's call was over", took)
		}
		w.checkInvariants(waits, calls)
	})
}

// TestStopKeepsASagaWithACallInFlight: the saga was woken before its create returned, and is still
// queued to be read when its call is in flight. A stop hands over the queue, but must not hand over
// this saga.
func TestStopKeepsASagaWithACallInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, _ := w.start("a"), w.start("b")
		w.participants.behavior = when(0, saga.Execute, always(slowly(yes, 5*time.Second)))
		a.inject(faults{latency: func(o op) (there, back time.Duration) {
			if o == loading {
				there = 3 * time.Second
			}
			return there, 0
		}})
		a.engine.Wake(refOf(w.newID())) // keeps the intake busy
		synctest.Wait()
		owner, done := a.engine.Admit(context.Background())
		s := w.startOn(a, owner, func(run *saga.Instance) {
			a.engine.Wake(refOf(run.ID))
			done(run)
		}, steps("uu"))
		synctest.Wait()
		a.stop()
		w.untilEnded(s.ID)
		if sequence := w.participants.sequence(s.ID); sequence != "X0 X1" {
			t.Errorf("%s; want X0 X1", sequence)
		}
		w.checkInvariants(s.ID)
	})
}

func TestIdleNodeStopsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a")
		time.Sleep(time.Minute)
		begin := now()
		n.stop()
		if took := now().Sub(begin); took != 0 || n.err != nil {
			t.Errorf("it took %v and returned %v", took, n.err)
		}
		if n.engine.Healthy() == nil {
			t.Error("a stopped node reports that it is healthy")
		}
	})
}

func TestStopWithoutDatabaseEndsToo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = when(0, saga.Execute, first(1, slowly(yes, time.Second)))
		a := w.start("a")
		id := a.create(steps("u"))
		synctest.Wait()
		a.inject(faults{fault: func(request) failure { return lostBefore }})
		begin := now()
		a.stop()
		if took := now().Sub(begin); took > 30*time.Second {
			t.Errorf("the stop took %v", took)
		}
		w.start("b")
		w.untilEnded(id)
		w.checkInvariants(id)
	})
}
