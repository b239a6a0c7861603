package rest

import (
	"sync"

	"github.com/skald-saga/skald/internal/fault"
)

// StreamChunk is how many bytes are gathered, at least, before they are sent even though
// more are available.
const StreamChunk = 32 << 10

// Streams counts the open streams.
type Streams struct {
	Max     int
	Changed func(open int) // called with the number of open streams whenever it changes

	mu   sync.Mutex
	open int
}

// Enter takes a slot for one more stream; leave gives it back.
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
