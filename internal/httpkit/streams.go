package httpkit

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

// StreamChunk is how many bytes are buffered before they are sent, as long as more data is available.
const StreamChunk = 32 << 10

// Streams counts the open streams.
type Streams struct {
	Max         int
	MaxOfTenant int
	Changed     func(open int) // called with the number of open streams whenever it changes

	mu      sync.Mutex
	open    int
	tenants map[uuid.UUID]int // open streams by tenant
}

// Enter takes a slot for another stream of the request's tenant; leave releases it. Fault:
// TooMany.
func (s *Streams) Enter(ctx context.Context) (leave func(), err error) {
	tenant := RequestOf(ctx).Tenant.ID
	s.mu.Lock()
	defer s.mu.Unlock()
	switch of := s.tenants[tenant]; {
	case s.open >= s.Max:
		return nil, fault.New(fault.TooMany, CodeTooManyStreams, "the limit on open streams (%d) has been reached: retry later or on another node", s.open)
	case of >= s.MaxOfTenant:
		return nil, fault.New(fault.TooMany, CodeTooManyStreams, "this tenant's limit on open streams (%d) has been reached: close a stream first, or retry on another node", of)
	}
	s.count(tenant, 1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.count(tenant, -1)
	}, nil
}

// count updates the number of open streams. The caller holds mu.
func (s *Streams) count(tenant uuid.UUID, by int) {
	if s.tenants == nil {
		s.tenants = map[uuid.UUID]int{}
	}
	s.open += by
	if s.tenants[tenant] += by; s.tenants[tenant] == 0 {
		delete(s.tenants, tenant)
	}
	s.Changed(s.open)
}
