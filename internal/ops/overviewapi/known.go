package overviewapi

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/ops/overview"
)

type tenantID = uuid.UUID

// fresh is how long a node relies on an overview that it has read, and maxKnown how many it remembers.
const (
	fresh    = 3 * time.Second
	maxKnown = 1000
)

// known are the overviews that this node has read lately. However many people look, each tenant's is read once at a
// time and once every few seconds.
type known struct {
	mu sync.Mutex
	of map[tenantID]*reading
}

// reading is one tenant's overview; done is closed when it has been read.
type reading struct {
	done chan struct{}
	at   time.Time
	is   overview.Overview
	err  error
}

// get returns a tenant's overview as it is, or was a moment ago. An error is not kept.
func (k *known) get(ctx context.Context, tenant tenantID, now func() time.Time,
	read func() (overview.Overview, error)) (overview.Overview, error) {
	k.mu.Lock()
	r := k.of[tenant]
	if r == nil || r.over() && (r.err != nil || now().Sub(r.at) >= fresh) {
		if len(k.of) >= maxKnown {
			k.forget(now())
		}
		r = &reading{done: make(chan struct{})}
		k.of[tenant] = r
		go func() {
			defer close(r.done)
			r.is, r.err = read()
			r.at = now()
		}()
	}
	k.mu.Unlock()
	select {
	case <-r.done:
		return r.is, r.err
	case <-ctx.Done():
		return overview.Overview{}, ctx.Err()
	}
}

func (r *reading) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// forget drops what is no longer fresh. The caller holds mu.
func (k *known) forget(now time.Time) {
	for tenant, r := range k.of {
		if r.over() && now.Sub(r.at) >= fresh {
			delete(k.of, tenant)
		}
	}
}
