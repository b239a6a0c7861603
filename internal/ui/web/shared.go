package web

import (
	"maps"
	"sync"
	"time"
)

// Shared keeps what was made for one visitor for others who would get the same, because fifty open
// overviews each send a request every ten seconds. The returned values must not be changed.
type Shared[T any] struct {
	For time.Duration // how long a value is shared

	mu   sync.Mutex
	made map[string]made[T] // guarded by mu
}

// mostShared is the maximum number of values that are kept at once. Beyond that, each request
// creates its own value.
const mostShared = 100

type made[T any] struct {
	value T
	at    time.Time
}

// Get returns the value for a key, which must identify everything that the value depends on. If no
// recent value is kept, it calls create. Errors are not kept.
func (s *Shared[T]) Get(key string, now time.Time, create func() (T, error)) (T, error) {
	s.mu.Lock()
	m, ok := s.made[key]
	s.mu.Unlock()
	if ok && now.Sub(m.at) < s.For {
		return m.value, nil
	}
	value, err := create()
	if err != nil {
		return value, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.made, func(_ string, m made[T]) bool { return now.Sub(m.at) >= s.For })
	if s.made == nil {
		s.made = map[string]made[T]{}
	}
	if len(s.made) < mostShared {
		s.made[key] = made[T]{value, now}
	}
	return value, nil
}
