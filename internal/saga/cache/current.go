package cache

import (
	"sync/atomic"
)

// current is the process-wide cache of seed 4, as set by SetCache.
var current atomic.Pointer[Cache]

// SetCache makes c the cache of this process. Call it once, at startup.
func SetCache(c Cache) { current.Store(&c) }

// Current returns the cache of this process: before SetCache an InMemoryCache, which is
// created on first use.
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
