package rest

import (
	"sync"

	"github.com/skald-saga/skald/internal/fault"
)

// StreamChunk is how many bytes are gathered, at least, before they are sent
// though more are at hand.
const StreamChunk = 32 << 10

// Streams counts those that are open.
type Streams struct {
	Max     int
	Changed func(open int) // told how many are open, whenever that changes

	mu   sync.Mutex
	open int
}

// Enter takes a place for one more stream; leave gives it back.
func (s *Streams) Enter() (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= s.Max {
		return nil, fault.New(fault.Unavailable, CodeTooManyStreams, "%d streams are open, which is the limit: retry later or on another node", s.open)
	}
	s.open++
	s.Changed(s.open)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
		s.Changed(s.open)
	}, nil
}
