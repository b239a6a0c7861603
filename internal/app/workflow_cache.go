package app

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/workflow"
)

// pinned caches workflow versions. Versions are immutable, so entries never become stale; the cache
// is emptied when it grows too large.
type pinned struct {
	store workflow.Store

	mu    sync.RWMutex
	known map[pinnedID]*workflow.Definition // guarded by mu
}

type pinnedID struct {
	tenant  uuid.UUID
	name    string
	version int
}

const maxPinned = 10_000

func newPinned(s workflow.Store) *pinned {
	return &pinned{store: s, known: map[pinnedID]*workflow.Definition{}}
}

func (p *pinned) definition(
	ctx context.Context,
	tenant uuid.UUID,
	name string,
	version int,
) (*workflow.Definition, error) {
	id := pinnedID{tenant, name, version}
	p.mu.RLock()
	d := p.known[id]
	p.mu.RUnlock()
	if d != nil {
		return d, nil
	}
	r, err := p.store.Get(ctx, tenant, name, version)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxPinned {
		clear(p.known)
	}
	p.known[id] = r.Definition
	return r.Definition, nil
}
