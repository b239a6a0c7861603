package cache

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/skald-saga/skald/internal/saga/memstore"
)

// InMemoryCache is seed 4's default cache, whose data is lost with the process. Store contains the
// definitions for Put.
type InMemoryCache struct {
	Stored
	Store *memstore.Store
}

// NewInMemory returns an empty InMemoryCache.
func NewInMemory() *InMemoryCache {
	clock := func() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
	m := memstore.New(clock)
	log := slog.New(slog.DiscardHandler)
	return &InMemoryCache{Stored{Sagas: m.Sagas, Workflows: m.Workflows, Now: clock, Log: log}, m}
}

var current atomic.Pointer[Cache]

// SetCache makes c this process's cache. Call it once, at startup.
func SetCache(c Cache) { current.Store(&c) }

// Current returns this process's cache. Before SetCache it is an InMemoryCache.
func Current() Cache {
	if current.Load() == nil {
		var fallback Cache = NewInMemory()
		current.CompareAndSwap(nil, &fallback)
	}
	return *current.Load()
}
