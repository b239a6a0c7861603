package audit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/loop"
)

// These values determine how often a tail looks for new events. If this node has written some, it
// looks immediately, but at most once every busy. Otherwise it looks at growing intervals, because
// other nodes write as well.
const (
	busy = 50 * time.Millisecond
	idle = time.Second
)

const (
	tailBatch = 500 // events read at once
	behind    = 32  // number of batches that a follower may fall behind
)

// Tail follows the feeds of the tenants that are watched, with one loop per tenant, however many
// followers there are. It is safe for concurrent use.
type Tail struct {
	trail trail.Trail
	log   *slog.Logger

	mu      sync.Mutex
	tenants map[uuid.UUID]*tenantTail
	loops   sync.WaitGroup
}

// tenantTail is the loop of one tenant and its followers; guarded by Tail.mu.
type tenantTail struct {
	at        trail.Position // every event up to this position was sent to the followers
	followers map[chan []trail.StoredEvent]bool
	news      chan struct{} // capacity 1; signals that this node has written events
	stop      context.CancelFunc
}

// NewTail returns a tail of trail that does not follow any feed yet.
func NewTail(trail trail.Trail, log *slog.Logger) *Tail {
	return &Tail{trail: trail, log: log, tenants: map[uuid.UUID]*tenantTail{}}
}

// Wake signals that this node has committed events. It never blocks.
func (t *Tail) Wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tt := range t.tenants {
		select {
		case tt.news <- struct{}{}:
		default:
		}
	}
}

// Follow returns a channel with every event of the tenant after a position, in the order of the
// feed. The batches are shared, so they must not be changed. The channel is closed when its reader
// falls too far behind; the reader must then call Follow again. The caller must call stop once to
// end the subscription.
func (t *Tail) Follow(
	ctx context.Context,
	tenant uuid.UUID,
) (batches <-chan []trail.StoredEvent, after trail.Position, stop func(), err error) {
	t.mu.Lock()
	tt := t.tenants[tenant]
	t.mu.Unlock()
	var end trail.Position
	if tt == nil { // determined outside of the lock
		if end, err = t.trail.End(ctx, tenant); err != nil {
			return nil, end, nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if tt = t.tenants[tenant]; tt == nil {
		work, cancel := context.WithCancel(context.WithoutCancel(ctx))
		tt = &tenantTail{at: end, followers: map[chan []trail.StoredEvent]bool{}, news: make(chan struct{}, 1), stop: cancel}
		t.tenants[tenant] = tt
		t.loops.Go(func() { t.run(work, tenant, tt) })
	}
	c := make(chan []trail.StoredEvent, behind)
	tt.followers[c] = true
	return c, tt.at, func() { t.leave(tenant, tt, c) }, nil
}

func (t *Tail) leave(tenant uuid.UUID, tt *tenantTail, c chan []trail.StoredEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(tt.followers, c)
	if len(tt.followers) == 0 && t.tenants[tenant] == tt {
		delete(t.tenants, tenant)
		tt.stop()
	}
}

// Close returns when every loop has ended. All followers must have stopped.
func (t *Tail) Close() { t.loops.Wait() }

// run looks for new events until there are no more followers.
func (t *Tail) run(ctx context.Context, tenant uuid.UUID, tt *tenantTail) {
	failing, pause := false, busy
	for {
		found, err := t.look(ctx, tenant, tt)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			t.log.WarnContext(ctx, "cannot read the feed; trying again", slog.Any("error", err))
		}
		if failing = err != nil; failing {
			pause = idle
		} else if found > 0 {
			pause = busy
		} else {
			pause = min(2*pause, idle)
		}
		if found == tailBatch {
			continue // more events are waiting
		}
		if pause = tt.rest(ctx, pause); pause == 0 {
			return
		}
	}
}

// rest pauses, for a shorter time if this node writes, and returns the pause on which the next one
// is based. It returns 0 if ctx has ended.
func (tt *tenantTail) rest(ctx context.Context, pause time.Duration) time.Duration {
	if !loop.Sleep(ctx, busy) {
		return 0
	}
	news := loop.Await(ctx, pause-busy, tt.news)
	switch {
	case ctx.Err() != nil:
		return 0
	case news:
		// Written events become visible once every earlier transaction has ended, so look a few
		// times at short intervals.
		return busy
	}
	return pause
}

// look reads new events and sends them to the followers. It drops a follower whose channel is full.
func (t *Tail) look(ctx context.Context, tenant uuid.UUID, tt *tenantTail) (found int, err error) {
	events, end, err := t.trail.Feed(ctx, tenant, tt.at, trail.EventFilter{}, tailBatch)
	if err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tt.at = end
	if len(events) == 0 {
		return 0, nil
	}
	for c := range tt.followers {
		select {
		case c <- events:
		default:
			delete(tt.followers, c)
			close(c)
		}
	}
	return len(events), nil
}
