package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
)

// TestWhoWaitsIsAnsweredWithoutARead checks that a client waiting for its saga is answered from
// what this node has committed, however the saga ends. checkInvariants compares each answer with
// the store.
func TestWhoWaitsIsAnsweredWithoutARead(t *testing.T) {
	second := func(r reply) func(saga.Call, int) reply { return when(1, saga.Execute, always(r)) }
	for _, tt := range []struct {
		name      string
		behavior  func(saga.Call, int) reply
		meanwhile []saga.Event // what others do to the saga, starting 100 ms after its start, at intervals of 100 ms
		ends      saga.State
		reads     int
	}{
		{name: "completed", ends: saga.Completed},
		{name: "completed with slow calls", behavior: second(slowly(yes, 700*time.Millisecond)), ends: saga.Completed},
		{name: "completed after retries", behavior: when(1, saga.Execute, first(2, crashed)), ends: saga.Completed},
		{name: "compensated", behavior: second(no), ends: saga.Compensated},
		{name: "compensated after retries", behavior: second(crashed), ends: saga.Compensated},
		{name: "compensated, with retries of the undo", ends: saga.Compensated, behavior: func(c saga.Call, nth int) reply {
			if c.Action == saga.Compensate {
				return first(2, unavailable)(nth)
			}
			return second(no)(c, nth)
		}},
		{name: "compensated at the first step", behavior: when(0, saga.Execute, always(no)), ends: saga.Compensated},
		{name: "compensated on request", behavior: second(slowly(yes, 200*time.Millisecond)), ends: saga.Compensated,
			meanwhile: []saga.Event{saga.CompensateRequested{By: "ops"}}},
		{name: "cancelled during a call", behavior: second(slowly(yes, 200*time.Millisecond)), ends: saga.Cancelled,
			meanwhile: []saga.Event{cancel}},
		{name: "cancelled during a slow call", behavior: second(slowly(yes, 700*time.Millisecond)), ends: saga.Cancelled,
			meanwhile: []saga.Event{cancel}},
		{name: "cancelled while it waits", behavior: second(reply{verdict: saga.NotApplied, class: "unavailable",
			retryAfter: time.Second}), ends: saga.Cancelled, meanwhile: []saga.Event{cancel}},
		{name: "timed out", behavior: second(slowly(yes, 200*time.Millisecond)), ends: saga.TimedOut,
			meanwhile: []saga.Event{saga.DeadlinePassed{}}},
		{name: "suspended for a moment", behavior: second(slowly(yes, 250*time.Millisecond)), ends: saga.Completed,
			meanwhile: []saga.Event{saga.SuspendRequested{By: "ops"}, saga.UnsuspendRequested{By: "ops"}}},
		{name: "suspended, compensated", behavior: second(slowly(no, 250*time.Millisecond)), ends: saga.Compensated,
			meanwhile: []saga.Event{saga.SuspendRequested{By: "ops"}, saga.UnsuspendRequested{By: "ops"}}},
		// Only the store knows which dead letter the saga refers to.
		{name: "failed", ends: saga.Failed, reads: 1, behavior: func(c saga.Call, nth int) reply {
			if c.Action == saga.Compensate {
				return no
			}
			return second(no)(c, nth)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.participants.behavior = tt.behavior
				n := w.start("a", func(c *engine.Config) { c.CompensationTimeout = time.Hour })
				d := steps("uu")
				w.register(d)
				spec := saga.Spec{ID: w.newID(), Tenant: home, TimeoutMS: time.Hour.Milliseconds()}
				ref := saga.Ref{Tenant: home.ID, ID: spec.ID}
				waiter := n.ends.Watch(longpoll.Key{Kind: longpoll.Saga, Tenant: home.ID, ID: spec.ID})
				defer waiter.Stop()
				if err := n.submit(spec, d); err != nil {
					t.Fatal(err)
				}
				go func() {
					for _, e := range tt.meanwhile {
						time.Sleep(100 * time.Millisecond)
						if err := w.intervene(spec.ID, e); err != nil {
							t.Errorf("%T: %v", e, err)
						}
					}
				}()
				reads := 0
				committed, err := waiter.Await(t.Context(), longpoll.Wait{
					For: time.Hour, Fresh: true, Here: func() bool { return n.engine.Drives(ref) },
				}, func(context.Context) (bool, error) {
					reads++
					return w.state(spec.ID).Terminal(), nil
				})
				if err != nil || reads != tt.reads {
					t.Errorf("answered with %d reads, %v; want %d", reads, err, tt.reads)
				}
				if ended, ok := committed.(*saga.Loaded); ok != (tt.reads == 0) || ok && ended.Saga.State != tt.ends {
					t.Errorf("answered with %+v", committed)
				}
				synctest.Wait()
				if s := w.load(spec.ID).Saga; s.State != tt.ends || s.State == saga.Compensated && s.CompensationTimeoutAt == nil {
					t.Errorf("%s, compensation until %v; want %s", s.State, s.CompensationTimeoutAt, tt.ends)
				}
				w.checkInvariants(spec.ID)
			})
		})
	}
}
