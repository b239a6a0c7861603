package lease

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

// Election elects one leader among several nodes, each of which runs one Election. The term T is
// the fencing token. It is part of everything that the leader writes, so that the store can reject
// writes from a term that is over. The lease, measured by this node's clock, only makes such writes
// rare.
//
// All functions are required.
type Election[T comparable] struct {
	TTL func(ctx context.Context) time.Duration // called before every renewal
	// Acquire renews the lease of this node, or takes the lease if it is free. If it is unknown
	// whether the lease was taken, err is not nil, and the next call renews it.
	Acquire func(ctx context.Context, ttl time.Duration) (term T, leads bool, err error)
	// StepDown ends the lease of a term, so that another node can lead immediately.
	StepDown func(ctx context.Context, term T) error
	// Lead does the leader's work until ctx ends. It returns false if it could not begin, or if the
	// store rejected the term as over; the node then steps down.
	Lead func(ctx context.Context, term T, p *Progress) bool
	// Leads is called when this node begins to lead and when it stops leading.
	Leads func(leads bool, term T)
	// Stalled is how long a leader may go without progress before it steps down; 0 means forever.
	Stalled time.Duration
	Log     *slog.Logger // its messages identify this election
}

// Progress records when a leader last made progress, by the monotonic clock.
type Progress struct{ at atomic.Pointer[time.Time] }

// Made records progress.
func (p *Progress) Made() { p.at.Store(new(time.Now())) }

func (p *Progress) since() time.Duration { return time.Since(*p.at.Load()) }

// calling bounds the duration of a call to the store.
const calling = 3 * time.Second

// Run takes part in the election, and leads while elected, until ctx ends. It then steps down, so
// that another node can lead immediately, and returns.
func (e Election[T]) Run(ctx context.Context) {
	c := candidate[T]{Election: e}
	for ctx.Err() == nil {
		loop.Sleep(ctx, loop.Jittered(c.campaign(ctx)))
	}
	if c.term != nil {
		c.stepDown(context.WithoutCancel(ctx), 0)
	}
}

// candidate is this node's view of the election. Only one goroutine uses it.
type candidate[T comparable] struct {
	Election[T]
	// term is nil while this node does not lead.
	term *term[T]
	// ending is a term that was stopped and may still be waiting for the store. The next term
	// begins after it. Nil means that there is none.
	ending *term[T]
	// aside is the time until which this node is not a candidate, because it was forced to resign
	// or could not begin to lead. This gives another node the chance to lead.
	aside time.Time
}

// term is one term of this node as leader.
type term[T comparable] struct {
	is       T
	stop     context.CancelFunc
	expire   *time.Timer // ends the term when its lease ends by this node's clock
	done     chan struct{}
	failed   chan struct{} // closed when the node cannot lead and must step down
	progress Progress
}

// campaign renews the lease or tries to get it, and returns how long to wait before the next
// attempt. While another node leads, it checks at least every second.
func (c *candidate[T]) campaign(ctx context.Context) time.Duration {
	ttl := c.TTL(ctx)
	renew := Interval(ttl)
	look := min(renew, time.Second)
	c.look(ctx, ttl)
	if c.ending != nil && !isClosed(c.ending.done) {
		return look
	}
	c.ending = nil
	if time.Now().Before(c.aside) {
		return look
	}
	// The lease begins no earlier than the call, so by this node's clock it lasts at least until
	// this time plus its length.
	asked := time.Now()
	call, cancel := context.WithTimeout(ctx, calling)
	is, leads, err := c.Acquire(call, ttl)
	cancel()
	deadline := asked.Add(ttl - Margin(ttl))
	switch t := c.term; {
	case err != nil:
		if ctx.Err() == nil {
			c.Log.WarnContext(ctx, "leader election failed", slog.Bool("led", t != nil), slog.Any("error", err))
		}
		c.end()
		return look
	case !leads:
		c.end()
		return look
	case t != nil && t.is == is:
		t.expire.Reset(time.Until(deadline))
		return renew
	case t != nil: // the lease had ended, because the renewal was late or the node was forced to resign
		c.Log.WarnContext(ctx, "leadership lost", slog.Any("term", t.is))
		t.is = is
		c.stepDown(ctx, ttl)
		return look
	}
	c.begin(ctx, is, deadline)
	return renew
}

// begin leads until end, the deadline, or the end of ctx.
func (c *candidate[T]) begin(ctx context.Context, is T, deadline time.Time) {
	work, stop := context.WithCancel(ctx)
	t := &term[T]{is: is, stop: stop, done: make(chan struct{}), failed: make(chan struct{})}
	t.expire = time.AfterFunc(time.Until(deadline), stop)
	t.progress.Made()
	c.term = t
	c.Log.InfoContext(ctx, "elected leader", slog.Any("term", is))
	c.Leads(true, is)
	go func() {
		defer close(t.done)
		var told sync.WaitGroup
		defer told.Wait()
		defer stop()
		told.Go(func() { // immediately, while a statement may still hang
			<-work.Done()
			c.Leads(false, is)
		})
		if !c.Lead(work, is, &t.progress) {
			close(t.failed)
		}
	}()
}

// look detects a term that has ended: it could not begin, the term or its lease has expired, or it
// makes no progress.
func (c *candidate[T]) look(ctx context.Context, ttl time.Duration) {
	t := c.term
	switch {
	case t == nil:
	case isClosed(t.failed) || c.Stalled > 0 && t.progress.since() > c.Stalled:
		c.Log.WarnContext(ctx, "stepping down as leader", slog.Any("term", t.is))
		c.stepDown(ctx, ttl)
	case isClosed(t.done):
		c.end()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// end stops leading, if this node leads. It keeps the lease but does not use it.
func (c *candidate[T]) end() {
	t := c.term
	if t == nil {
		return
	}
	t.stop()
	t.expire.Stop()
	c.term, c.ending = nil, t
}

// stepDown ends the term and its lease, and pauses the candidacy for a while. If the work does not
// end in time, the lease expires without being released.
func (c *candidate[T]) stepDown(ctx context.Context, ttl time.Duration) {
	is := c.term.is
	c.end()
	c.aside = time.Now().Add(ttl / 2)
	call, cancel := context.WithTimeout(ctx, calling)
	defer cancel()
	select { // so that none of its pending writes is rejected; but it may hang
	case <-c.ending.done:
	case <-call.Done():
		return
	}
	if err := c.StepDown(call, is); err != nil && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "cannot step down; the lease will expire", slog.Any("error", err))
	}
}
