package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// room limits a node to n calls of new sagas in flight at the same time.
func room(n int) func(*engine.Config) { return func(c *engine.Config) { c.MaxRunning = n } }

func TestAdmissionWaitsBrieflyForRoom(t *testing.T) {
	for _, tt := range []struct {
		name  string
		frees time.Duration // when the only slot is returned
		waits time.Duration
		owned bool
	}{
		{"room that comes in time is taken", 60 * time.Millisecond, 60 * time.Millisecond, true},
		{"without room the saga is stored unowned", time.Second, 100 * time.Millisecond, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				n := w.start("a", room(1))
				_, done := n.engine.Admit(context.Background())
				time.AfterFunc(tt.frees, func() { done(nil) })
				begin := now()
				owner, done2 := n.engine.Admit(context.Background())
				if waited := now().Sub(begin); waited != tt.waits || (owner != nil) != tt.owned {
					t.Errorf("after %v it is owned: %v; want %v, %v", waited, owner != nil, tt.waits, tt.owned)
				}
				done2(nil)
				time.Sleep(2 * time.Second)
			})
		})
	}
}

func TestAdmissionEndsWithItsClient(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a", room(1))
		_, done := n.engine.Admit(context.Background())
		gone, leave := context.WithCancel(context.Background())
		leave()
		begin := now()
		owner, done2 := n.engine.Admit(gone)
		if waited := now().Sub(begin); waited != 0 || owner != nil {
			t.Errorf("Admit of a client that has left takes %v and returns owner %v", waited, owner)
		}
		done(nil)
		done2(nil)
	})
}

// TestSagaStoredUnownedStartsAsSoonAsThereIsRoom checks that such a saga is claimed from the table
// without waiting for the next poll.
func TestSagaStoredUnownedStartsAsSoonAsThereIsRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = when(0, saga.Execute, always(slowly(yes, 1234*time.Millisecond)))
		n := w.start("a", room(1))
		time.Sleep(10 * time.Second)
		begin := now()
		var ids []uuid.UUID
		for range 4 { // one on the slot for new sagas, one on the slot for resumed sagas, two in the table
			ids = append(ids, n.create(steps("n")))
		}
		w.untilEnded(ids...)
		var last time.Time
		for _, id := range ids {
			if at := *w.load(id).Saga.CompletedAt; at.After(last) {
				last = at
			}
		}
		// There were two rounds of two calls each, and the second create waited for 100 ms.
		if took := last.Sub(begin); took > 2*1234*time.Millisecond+150*time.Millisecond {
			t.Errorf("four sagas on two slots took %v", took)
		}
		if most := w.participants.busiest(); most != 2 {
			t.Errorf("%d calls at once; want 2", most)
		}
		w.checkInvariants(ids...)
	})
}

// TestFloodOfCreatesStarvesNoOtherSaga checks that retries, unowned sagas and the sagas of a dead
// node make progress while clients create sagas as fast as they are allowed to. A client that finds
// no room stores nothing, because the store chooses which saga in the table is claimed first.
func TestFloodOfCreatesStarvesNoOtherSaga(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = func(c saga.Call, nth int) reply {
			if c.By.HTTP.URL == "http://retries/do/0" && nth == 1 {
				return reply{verdict: saga.NotApplied, class: "unavailable", retryAfter: 3 * time.Second}
			}
			return slowly(yes, 100*time.Millisecond)
		}
		victims := map[string][]uuid.UUID{}
		dead := w.start("dead")
		for range 20 {
			victims["of a dead node"] = append(victims["of a dead node"], dead.create(named("dead", "n")))
		}
		synctest.Wait()
		dead.kill()
		time.Sleep(ttl)
		n := w.start("a", room(8))
		for range 20 {
			victims["to be retried"] = append(victims["to be retried"], n.create(named("retries", "n")))
			victims["unowned"] = append(victims["unowned"], w.createUnowned(named("unowned", "n")))
		}
		w.participants.busiest()
		begin := now()
		var clients sync.WaitGroup
		var created atomic.Int64
		for range 64 {
			clients.Go(func() {
				for now().Sub(begin) < 10*time.Second {
					if owner, done := n.engine.Admit(context.Background()); owner == nil {
						done(nil)
					} else {
						w.startOn(n, owner, done, named("flood", "n"))
						created.Add(1)
					}
				}
			})
		}
		time.Sleep(7 * time.Second)
		synctest.Wait()
		for kind, ids := range victims {
			open := 0
			for _, id := range ids {
				if !w.state(id).Terminal() {
					open++
				}
			}
			if open > 0 {
				t.Errorf("in the flood, %d of %d sagas %s have made no progress", open, len(ids), kind)
			}
		}
		clients.Wait()
		if most := w.participants.busiest(); most > 8+2 {
			t.Errorf("%d calls at once; want at most 8 for new sagas and 2 for resumed ones", most)
		}
		if created.Load() < 500 {
			t.Errorf("only %d creates: that is not a flood", created.Load())
		}
	})
}

// startOn stores a saga that a node has room for, and starts it there.
func (w *world) startOn(n *node, owner *int64, done func(*saga.Instance), d *workflow.Definition) saga.Saga {
	w.register(d)
	s := saga.New(saga.Spec{ID: w.newID(), Tenant: home}, d, 1, owner, now(), 0)
	if _, err := n.creates.Do(context.Background(), saga.NewSaga{Saga: s}); err != nil {
		w.t.Error(err)
	}
	done(new(saga.NewInstance(s, d)))
	return s
}

func TestWatchersAreNotifiedOfTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.participants.behavior = when(0, saga.Execute, always(slowly(yes, time.Second)))
		n, other := w.start("a"), w.start("b")
		spec := saga.Spec{ID: w.newID(), Tenant: home}
		first, stop := n.watcher(refOf(spec.ID))
		defer stop()
		second, stop2 := n.watcher(refOf(spec.ID))
		left, leave := n.watcher(refOf(spec.ID))
		elsewhere, stop3 := other.watcher(refOf(spec.ID))
		defer stop3()
		leave()
		d := steps("n")
		w.register(d)
		if err := n.submit(spec, d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(999 * time.Millisecond)
		if closed(first) || closed(second) {
			t.Error("watchers are notified before the saga has ended")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !closed(first) || !closed(second) || w.state(spec.ID) != saga.Completed {
			t.Errorf("first %v, second %v, when the saga was %s", closed(first), closed(second), w.state(spec.ID))
		}
		stop2() // harmless after the end
		if closed(left) || closed(elsewhere) {
			t.Errorf("notified although it has left: %v; on another node: %v", closed(left), closed(elsewhere))
		}
	})
}

func closed(ch <-chan any) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestWatcherIsNotifiedWhenTheDeadlineEndsASagaThatNeverRan(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		n := w.start("a", room(1))
		_, hold := n.engine.Admit(context.Background()) // there is no room for anything
		w.participants.behavior = when(0, saga.Execute, always(slowly(yes, time.Minute)))
		d := named("busy", "n")
		d.Steps[0].TimeoutMS = time.Hour.Milliseconds()
		busy := n.create(d)
		d = named("late", "n")
		d.TimeoutMS = 2000
		late := n.create(d)
		ended, stop := n.watcher(refOf(late))
		defer stop()
		time.Sleep(4 * time.Second)
		if !closed(ended) {
			t.Error("the watcher is not notified")
		}
		if s, sequence := w.state(late), w.participants.sequence(late); s != saga.TimedOut || sequence != "" {
			t.Errorf("%s by %q", s, sequence)
		}
		hold(nil)
		w.untilEnded(busy)
		w.checkInvariants(busy, late)
	})
}

func TestStrayIsAdopted(t *testing.T) {
	for _, tt := range []struct {
		name string
		lose func(n *node, w *world, id uuid.UUID)
		max  time.Duration
	}{
		{"the answer to its create was lost", func(*node, *world, uuid.UUID) {}, 7 * time.Second},
		{"another node set its flag", func(_ *node, w *world, id uuid.UUID) {
			run := w.run(id)
			c, err := saga.Apply(run, cancel, saga.Moment{Now: now(), NewID: w.newID})
			if err != nil {
				w.t.Fatal(err)
			}
			if _, err := w.api.Commit(context.Background(), []saga.Change{c}); err != nil {
				w.t.Fatal(err)
			}
		}, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				n := w.start("a")
				d := steps("uu")
				w.register(d)
				owner, done := n.engine.Admit(context.Background())
				s := saga.New(saga.Spec{ID: w.newID(), Tenant: home}, d, 1, owner, now(), 0)
				if _, err := n.creates.Do(context.Background(), saga.NewSaga{Saga: s}); err != nil {
					t.Fatal(err)
				}
				done(nil)
				begin := now()
				tt.lose(n, w, s.ID)
				w.untilEnded(s.ID)
				if took := now().Sub(begin); took > tt.max {
					t.Errorf("it took %v; want at most %v", took, tt.max)
				}
				if w.takeovers[s.ID] != 0 {
					t.Error("it was taken over from a live node")
				}
				w.checkInvariants(s.ID)
			})
		})
	}
}
