package lease_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/loop/lease"
)

// office is the store of an election: a lease by its own clock, and an epoch that grows with every
// takeover.
type office struct {
	mu    sync.Mutex
	owner string
	epoch int
	until time.Time
	down  map[string]bool // the nodes that get no answer
	hangs bool            // these nodes get no error either, and wait for an answer
}

func (o *office) acquire(node string) (epoch int, leads bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// The call waits whatever the caller's deadline is, like a process that is paused.
	for begun := time.Now(); o.hangs && o.down[node] && time.Since(begun) < time.Hour; {
		o.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
		o.mu.Lock()
	}
	now := time.Now()
	switch {
	case o.down[node]:
		return 0, false, errDown
	case now.Before(o.until) && o.owner != node:
		return 0, false, nil
	case !now.Before(o.until):
		o.owner, o.epoch = node, o.epoch+1
	}
	o.until = now.Add(ttl)
	return o.epoch, true, nil
}

func (o *office) end(epoch int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if epoch == o.epoch {
		o.until = time.Now()
	}
}

func (o *office) cut(node string, down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down[node] = down
}

// contest contains the nodes that take part in one election, in a synctest bubble.
type contest struct {
	t *testing.T
	*office
	mu      sync.Mutex
	leading []string // the nodes that lead now
	story   []string // the nodes that have led, one after the other
	overlap bool     // a leader whose lease was ended without its knowledge learns of it at its next renewal
	wg      sync.WaitGroup
}

// stand makes a node a candidate until the returned function is called. work is the leader's work
// until ctx ends; nil means that the leader only waits.
func (c *contest) stand(
	node string,
	stalled time.Duration,
	work func(context.Context, *lease.Progress) bool,
) (leave func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	if work == nil {
		work = func(ctx context.Context, _ *lease.Progress) bool { <-ctx.Done(); return true }
	}
	c.wg.Go(func() {
		lease.Election[int]{
			TTL:      func(context.Context) time.Duration { return ttl },
			Acquire:  func(context.Context, time.Duration) (int, bool, error) { return c.acquire(node) },
			StepDown: func(_ context.Context, epoch int) error { c.end(epoch); return nil },
			Lead:     func(ctx context.Context, _ int, p *lease.Progress) bool { return work(ctx, p) },
			Leads:    func(leads bool, _ int) { c.tell(node, leads) },
			Stalled:  stalled, Log: slog.New(slog.DiscardHandler),
		}.Run(ctx)
	})
	return cancel
}

func (c *contest) tell(node string, leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if leads {
		c.leading = append(c.leading, node)
		c.story = append(c.story, node)
		if len(c.leading) > 1 && !c.overlap {
			c.t.Errorf("%v lead at the same time", c.leading)
		}
	} else {
		c.leading = slices.DeleteFunc(c.leading, func(n string) bool { return n == node })
	}
}

func (c *contest) leader() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.leading) != 1 {
		return ""
	}
	return c.leading[0]
}

// until waits for at most the given time until node leads.
func (c *contest) until(node string, most time.Duration) {
	c.t.Helper()
	for began := time.Now(); c.leader() != node; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > most {
			c.t.Fatalf("after %s %q leads; want %q", most, c.leader(), node)
		}
	}
}

func inContest(t *testing.T, f func(c *contest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &contest{t: t, office: &office{down: map[string]bool{}}}
		f(c)
	})
}

func TestALeaderThatLeavesIsFollowedWithinALook(t *testing.T) {
	inContest(t, func(c *contest) {
		leave := c.stand("a", 0, nil)
		c.until("a", 0)
		defer c.stand("b", 0, nil)()
		time.Sleep(time.Minute)
		if c.leader() != "a" {
			t.Error("a leader that renews was replaced")
		}
		leave()
		c.until("b", 1200*time.Millisecond)
	})
}

// a leader that cannot renew its lease stops before another node leads.
func TestALeaderThatGetsNoAnswerStopsBeforeItsLeaseEnds(t *testing.T) {
	for name, hangs := range map[string]bool{"an error": false, "nothing": true} {
		t.Run(name, func(t *testing.T) {
			inContest(t, func(c *contest) {
				c.hangs = hangs
				defer c.stand("a", 0, nil)()
				c.until("a", 0)
				defer c.stand("b", 0, nil)()
				time.Sleep(time.Minute)
				c.cut("a", true)
				c.until("b", ttl+1200*time.Millisecond) // tell fails the test if both lead
				c.cut("a", false)
				time.Sleep(time.Minute)
				if c.leader() != "b" || c.epoch != 2 {
					t.Errorf("%q leads in term %d; b never stopped", c.leader(), c.epoch)
				}
			})
		})
	}
}

// A statement that hangs neither keeps the node in the lead nor lets the next term begin beside it.
func TestALeaderWhoseWorkHangsStopsLeadingAndBeginsNoTermBesideIt(t *testing.T) {
	inContest(t, func(c *contest) {
		hang := make(chan struct{})
		defer c.stand("a", 0, func(ctx context.Context, _ *lease.Progress) bool {
			<-ctx.Done()
			<-hang
			return true
		})()
		c.until("a", 0)
		c.cut("a", true)
		time.Sleep(ttl)
		if c.leader() != "" {
			t.Error("it leads without a lease")
		}
		c.cut("a", false)
		time.Sleep(time.Minute)
		if c.leader() != "" {
			t.Error("a second term began beside the first")
		}
		close(hang)
		c.until("a", 1200*time.Millisecond)
	})
}

func TestALeaderThatCannotBeginOrStallsLetsOthersLead(t *testing.T) {
	for name, work := range map[string]func(context.Context, *lease.Progress) bool{
		"cannot begin":      func(context.Context, *lease.Progress) bool { return false },
		"makes no progress": func(ctx context.Context, _ *lease.Progress) bool { <-ctx.Done(); return true },
	} {
		t.Run(name, func(t *testing.T) {
			inContest(t, func(c *contest) {
				defer c.stand("a", 5*time.Second, work)()
				time.Sleep(500 * time.Millisecond)
				defer c.stand("b", 5*time.Second, func(ctx context.Context, p *lease.Progress) bool {
					for loop.Sleep(ctx, time.Second) {
						p.Made()
					}
					return true
				})()
				c.until("b", 12*time.Second)
				time.Sleep(5 * time.Minute)
				if c.leader() != "b" {
					t.Errorf("%q leads", c.leader())
				}
			})
		})
	}
}

func TestALeaderThatIsForcedToResignStandsAside(t *testing.T) {
	inContest(t, func(c *contest) {
		defer c.stand("a", 0, nil)()
		c.until("a", 0)
		defer c.stand("b", 0, nil)()
		time.Sleep(time.Minute)
		c.overlap = true
		c.end(1)
		c.until("b", 4*time.Second)
		time.Sleep(time.Minute)
		if c.leader() != "b" || !slices.Equal(c.story, []string{"a", "b"}) {
			c.t.Errorf("%q leads; %v have led", c.leader(), c.story)
		}
	})
}
