package overviewapi

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/ops/overview"
)

type tenantID = uuid.UUID

// How often a node refreshes an overview that people view, and for how long after the last request.
// Pages request it every ten seconds. An overview that takes long to read is read less often, so
// that reading it uses at most 1/200 of a connection's time. However, a page is never older than
// 30 s, or than two readings if these take longer.
const (
	every    = 5 * time.Second
	seldom   = 15 * time.Second
	lookedAt = 15 * time.Second
	share    = 200
	maxKnown = 1000 // number of tenants
)

// known caches the overviews that this node has read recently. No matter how many people view it,
// each tenant's overview is read only once at a time. While people view it, it is refreshed in the
// background, so that requests do not wait; only the first request after a pause waits for a
// reading.
type known struct {
	read     func(context.Context, tenantID) (overview.Overview, error)
	now      func() time.Time
	within   time.Duration   // time limit for a reading
	stopping <-chan struct{} // nil: the node never stops

	mu sync.Mutex
	of map[tenantID]*kept // guarded by mu
}

// kept is one tenant's overview.
type kept struct {
	is      overview.Overview
	at      time.Time     // when the overview was read; zero: not yet
	took    time.Duration // how long the reading took
	asked   time.Time     // when it was last requested
	reading *reading      // nil: no reading is in progress
}

// reading is a reading in progress; done is closed when it ends.
type reading struct {
	done chan struct{}
	is   overview.Overview
	err  error
}

// again is the pause before the next reading.
func (o *kept) again() time.Duration { return max(every, min(share*o.took, max(seldom, o.took))) }

// tooOld reports whether the overview is too old to be shown.
func (o *kept) tooOld(now time.Time) bool { return o.at.IsZero() || now.Sub(o.at) >= 2*o.again() }

// get returns a recent overview of a tenant.
func (k *known) get(ctx context.Context, tenant tenantID) (overview.Overview, error) {
	k.mu.Lock()
	now := k.now()
	o := k.of[tenant]
	if o == nil {
		if len(k.of) >= maxKnown {
			k.forget(now)
		}
		o = &kept{}
		k.of[tenant] = o
	}
	o.asked = now
	if o.reading == nil && (o.at.IsZero() || now.Sub(o.at) >= o.again()) {
		k.begin(tenant, o)
	}
	if !o.tooOld(now) {
		defer k.mu.Unlock()
		return o.is, nil
	}
	r := o.reading
	k.mu.Unlock()
	select {
	case <-r.done:
		return r.is, r.err
	case <-ctx.Done():
		return overview.Overview{}, ctx.Err()
	}
}

// begin reads the overview in the background. The caller holds mu.
func (k *known) begin(tenant tenantID, o *kept) {
	r := &reading{done: make(chan struct{})}
	o.reading = r
	begun := k.now()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), k.within)
		defer cancel()
		r.is, r.err = k.read(ctx, tenant)
		k.mu.Lock()
		defer k.mu.Unlock()
		defer close(r.done)
		o.reading = nil
		if r.err != nil { // not cached: the next request reads the overview
			return
		}
		o.is, o.at = r.is, k.now()
		o.took = o.at.Sub(begun)
		time.AfterFunc(o.again(), func() { k.goOn(tenant, o) })
	}()
}

// goOn reads the overview again if people still view it.
func (k *known) goOn(tenant tenantID, o *kept) {
	select {
	case <-k.stopping:
		return
	default:
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if o.reading == nil && k.now().Sub(o.asked) < lookedAt {
		k.begin(tenant, o)
	}
}

// forget drops overviews that are too old. The caller holds mu.
func (k *known) forget(now time.Time) {
	for tenant, o := range k.of {
		if o.reading == nil && o.tooOld(now) {
			delete(k.of, tenant)
		}
	}
}
