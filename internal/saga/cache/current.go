package cache

import (
	"sync/atomic"
)

// current is seed 4's one place: what SetCache has set.
var current atomic.Pointer[Cache]

// SetCache makes c the cache of this process; called once, at start.
func SetCache(c Cache) { current.Store(&c) }

// Current returns the cache of this process. Before SetCache it is fallback's:
// an InMemoryCache, made on first use.
func Current() Cache {
	for {
		if c := current.Load(); c != nil {
			return *c
		}
		fresh := NewInMemory(nil)
		var c Cache = fresh
		if current.CompareAndSwap(nil, &c) {
			return c
		}
	}
}
