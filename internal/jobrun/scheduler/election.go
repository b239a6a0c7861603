package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/jobrun"
)

// election is what this node knows of who leads. One goroutine uses it.
type election struct {
	s *Scheduler
	// current is nil while this node does not lead.
	current *leaderTerm
	// ending is a term that was stopped and may still wait for the database; the
	// next one begins after it. Nil: none.
	ending *leaderTerm
	// standAsideUntil is until when the node does not campaign: it was forced to resign, or could not
	// begin, and another one is to have the chance.
	standAsideUntil time.Time
}

// leaderTerm is one term in which this node leads.
type leaderTerm struct {
	term   jobrun.Term
	stop   context.CancelFunc
	expire *time.Timer // stops it when its lease ends by our clock
	done   chan struct{}
	failed chan struct{} // closed when it cannot lead, and is to step down
	pulse  pulse
}

// How often a lease is renewed, and how often others look whether it has ended,
// of its length: 3 s of 10 s, and within two seconds after it has.
func intervals(ttl time.Duration) (renew, look time.Duration) {
	renew = ttl * 3 / 10
	return renew, min(renew, time.Second)
}

// margin is how long before the end of a lease its holder stops (River).
func margin(ttl time.Duration) time.Duration { return min(time.Second, ttl/4) }

// acquiring bounds a renewal: the database ends it after two seconds.
const acquiring = 3 * time.Second

// campaign renews the lease, or tries to get it, and returns how long to wait until
// the next time.
func (e *election) campaign(ctx context.Context) time.Duration {
	ttl := e.s.settings(ctx).Seconds(jobrun.LeaderTTL)
	renew, look := intervals(ttl)
	e.look(ctx, ttl)
	if e.ending != nil && !isClosed(e.ending.done) {
		return look
	}
	e.ending = nil
	if time.Now().Before(e.standAsideUntil) {
		return look
	}
	if e.current != nil && failpoint.Hit(failpoint.LeaderRenew) != nil {
		e.end()
		return look
	}
	// The lease begins no earlier than the call, so by our clock it ends no later
	// than so long after this.
	began := time.Now()
	call, cancel := context.WithTimeout(ctx, acquiring)
	term, leads, err := e.s.cfg.Elections.Acquire(call, e.s.cfg.ID, e.s.cfg.Node, ttl)
	cancel()
	deadline := began.Add(ttl - margin(ttl))
	switch r := e.current; {
	case err != nil:
		if ctx.Err() == nil {
			e.s.cfg.Log.WarnContext(ctx, "leader election failed", slog.Bool("led", r != nil), slog.Any("error", err))
		}
		e.end()
		return look
	case !leads:
		e.end()
		return look
	case r != nil && r.term == term:
		r.expire.Reset(time.Until(deadline))
		return renew
	case r != nil: // its lease had ended: it was too late, or deposed
		e.s.cfg.Log.WarnContext(ctx, "leadership of the scheduler lost", slog.Int64("epoch", r.term.Epoch))
		r.term = term
		e.stepDown(ctx, ttl)
		return look
	}
	if failpoint.Hit(failpoint.LeaderAcquireAfter) != nil {
		return look
	}
	e.begin(ctx, term, deadline)
	return renew
}

// begin leads until end, the deadline, or the end of ctx.
func (e *election) begin(ctx context.Context, term jobrun.Term, deadline time.Time) {
	work, stop := context.WithCancel(ctx)
	r := &leaderTerm{term: term, stop: stop, done: make(chan struct{}), failed: make(chan struct{})}
	r.expire = time.AfterFunc(time.Until(deadline), stop)
	r.pulse.beat()
	e.current = r
	e.s.cfg.Log.InfoContext(ctx, "elected leader of the scheduler", slog.Int64("epoch", term.Epoch))
	e.s.cfg.Observer.Leads(true, term.Epoch)
	go func() {
		defer close(r.done)
		var told sync.WaitGroup
		defer told.Wait()
		defer stop()
		told.Go(func() { // at once, while a statement may still hang
			<-work.Done()
			e.s.cfg.Observer.Leads(false, term.Epoch)
		})
		if !e.s.lead(work, r) {
			close(r.failed)
		}
	}()
}

// look takes note of a term that has ended: it could not
// begin, its term or its lease is over, or it stands still.
func (e *election) look(ctx context.Context, ttl time.Duration) {
	r := e.current
	switch {
	case r == nil:
	case isClosed(r.failed) || r.pulse.since() > e.s.cfg.Stalled:
		e.s.cfg.Log.WarnContext(ctx, "stepping down as leader of the scheduler", slog.Int64("epoch", r.term.Epoch))
		e.stepDown(ctx, ttl)
	case isClosed(r.done):
		e.end()
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

// end stops leading, if this node does. The lease stays: it is only not used.
func (e *election) end() {
	r := e.current
	if r == nil {
		return
	}
	r.stop()
	r.expire.Stop()
	e.current, e.ending = nil, r
}

// stepDown ends the term and its lease, and stands aside for a while. When the
// reign does not end in time, its lease ends by itself.
func (e *election) stepDown(ctx context.Context, ttl time.Duration) {
	term := e.current.term
	e.end()
	e.standAsideUntil = time.Now().Add(ttl / 2)
	call, cancel := context.WithTimeout(ctx, acquiring)
	defer cancel()
	select { // so that nothing that it has begun is refused; but it may hang
	case <-e.ending.done:
	case <-call.Done():
		return
	}
	if err := e.s.cfg.Elections.StepDown(call, term); err != nil && ctx.Err() == nil {
		e.s.cfg.Log.WarnContext(ctx, "cannot step down; the lease will expire", slog.Any("error", err))
	}
}

// resign is the end of the scheduler: whoever stands by may lead at once.
func (e *election) resign(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	if e.current != nil {
		e.stepDown(ctx, 0)
	}
	call, cancel := context.WithTimeout(ctx, acquiring)
	defer cancel()
	if err := e.s.cfg.Elections.Gone(call, e.s.cfg.ID); err != nil {
		e.s.cfg.Log.WarnContext(ctx, "cannot remove this node from the list of schedulers", slog.Any("error", err))
	}
}
