package jobqueue

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
)

var (
	ours, theirs = uuid.UUID{1}, uuid.UUID{2}
	mailers      = Kind{Queues: []string{"mail", "print"}}
	printers     = Kind{Queues: []string{"print"}}
)

// crowd contains the claims that wait on a node, by name.
type crowd struct {
	t *testing.T
	*Waits
	claims map[string]*waiter
}

func newCrowd(t *testing.T, most int) crowd {
	t.Helper()
	return crowd{t, New(most, func(uuid.UUID, []uuid.UUID) {}), map[string]*waiter{}}
}

func (c crowd) enter(name string, tenant uuid.UUID, k Kind) {
	c.t.Helper()
	p, ok := c.Enter(tenant, uuid.New(), k, nil)
	if !ok {
		c.t.Fatalf("%s may not wait", name)
	}
	c.claims[name] = p
}

// woken lists the claims that were woken since its last call. They poll, find nothing, and wait
// again.
func (c crowd) woken() (names []string) {
	for name, p := range c.claims {
		select {
		case <-p.Awake:
			names = append(names, name)
		default:
		}
	}
	slices.Sort(names)
	return names
}

func (c crowd) want(names ...string) {
	c.t.Helper()
	if got := c.woken(); !slices.Equal(got, names) {
		c.t.Errorf("woken are %v, want %v", got, names)
	}
}

func TestAHintWakesTheFirstOfEachLineThatTakesFromTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 10)
		c.enter("mailer 1", ours, mailers)
		c.enter("mailer 2", ours, mailers)
		c.enter("printer", ours, printers)
		c.enter("their mailer", theirs, mailers)
		c.Admitted(ours, "mail")
		c.want("mailer 1")
		c.Admitted(ours, "print")
		c.want("mailer 2", "printer")
		c.claims["mailer 1"].Requeue() // at the front: mailer 2 is awake
		c.claims["mailer 2"].Requeue()
		c.Admitted(ours, "mail")
		c.want("mailer 1")
		c.Admitted(ours, "unknown")
		c.want()
		c.Admitted(theirs, "mail")
		c.want("their mailer")
	})
}

func TestAHintWhileNoneSleepsIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 10)
		c.enter("mailer", ours, mailers)
		c.Admitted(ours, "mail")
		c.want("mailer")
		c.Admitted(ours, "mail") // while it polls, because the result of that poll may be older
		c.claims["mailer"].Requeue()
		c.want("mailer")
		c.claims["mailer"].Requeue() // the hint was used
		c.want()
	})
}

func TestAClaimThatLeavesHandsItsHintOn(t *testing.T) {
	for name, tt := range map[string]struct {
		hinted, polled, full bool
		want                 []string
	}{
		"asleep":                     {want: nil},
		"woken, and the hint unused": {hinted: true, want: []string{"b"}},
		"woken, and it has polled":   {hinted: true, polled: true, want: nil},
		"full: there may be more":    {hinted: true, polled: true, full: true, want: []string{"b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, 10)
				for _, name := range []string{"a", "b", "c", "d"} {
					c.enter(name, ours, mailers)
				}
				first := c.claims["a"]
				delete(c.claims, "a")
				if tt.hinted {
					c.Admitted(ours, "mail")
				}
				if tt.polled {
					<-first.Awake
				}
				first.Leave(tt.full)
				c.want(tt.want...)
			})
		})
	}
}

func TestNoMoreClaimsWaitThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 2)
		c.enter("one", ours, mailers)
		c.enter("two", theirs, printers)
		if _, ok := c.Enter(ours, uuid.New(), mailers, nil); ok {
			t.Error("a third one waits, two may")
		}
		c.claims["one"].Leave(false)
		c.enter("three", ours, mailers)
	})
}

// Claims for only some of their worker's queues are not woken for the others.
func TestAClaimWaitsForTheQueuesThatItNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 10)
		p, _ := c.Enter(ours, uuid.New(), mailers, []string{"print"})
		c.claims["only print"] = p
		c.Admitted(ours, "mail")
		c.want()
		c.Admitted(ours, "print")
		c.want("only print")
	})
}

func TestTheFirstOfALinePollsAndItsWorkersStayAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		alive := map[uuid.UUID]int{}
		w := New(10, func(tenant uuid.UUID, workers []uuid.UUID) {
			mu.Lock()
			defer mu.Unlock()
			for _, id := range workers {
				alive[id]++
			}
		})
		first, second := uuid.New(), uuid.New()
		if !w.HeartbeatDue(ours, first, 10*time.Second) {
			t.Error("no heartbeat was stored, and none is due")
		}
		a, _ := w.Enter(ours, first, mailers, nil)
		b, _ := w.Enter(ours, second, mailers, nil)
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		select {
		case <-a.Awake:
		default:
			t.Error("nothing makes the first of the line poll")
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		mu.Lock()
		if alive[first] == 0 || alive[second] == 0 {
			t.Errorf("signs of life of %v, want both %s and %s", alive, first, second)
		}
		clear(alive)
		mu.Unlock()
		a.Leave(false)
		b.Leave(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(alive) != 0 || len(w.lines) != 0 {
			t.Errorf("signs of life of %v and %d lines, and no claim waits", alive, len(w.lines))
		}
	})
}

func TestWhatIsKnownOfAWorkerIsItsTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(10, nil)
		p := &jobrun.WorkerProcess{ID: uuid.UUID{7}, TenantID: ours, Queues: []string{"mail"}, Labels: []string{"a=b"}}
		known := w.Know(p)
		if got, ok := w.KindOf(ours, p.ID); !ok || got.rest != known.rest || !slices.Equal(got.Queues, p.Queues) {
			t.Errorf("known is %+v, %t", got, ok)
		}
		if _, ok := w.KindOf(theirs, p.ID); ok {
			t.Error("another tenant's worker is known")
		}
		other := *p
		other.Commands = []string{"x"}
		if w.Know(&other).rest == known.rest {
			t.Error("workers with other commands wait in the same line")
		}
		w.NoteHeartbeat(ours, p.ID)
		if w.HeartbeatDue(ours, p.ID, time.Minute) || !w.HeartbeatDue(theirs, p.ID, time.Minute) {
			t.Error("a heartbeat is due that was just stored, or is not due of another tenant's worker")
		}
		time.Sleep(time.Minute)
		if !w.HeartbeatDue(ours, p.ID, time.Minute) {
			t.Error("no heartbeat is due after the interval")
		}
	})
}
