package memstore

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
)

// Publications implements trail.Publications in memory.
type Publications struct{ m *memory }

// Lead implements trail.Publications.
func (s *Publications) Lead(_ context.Context, name, owner string, ttl time.Duration) (int64, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	p := s.m.publications[name]
	if p == nil {
		p = &publication{cursors: map[uuid.UUID]trail.Position{}}
		s.m.publications[name] = p
	}
	if p.until.After(s.m.now()) && p.owner != owner {
		return 0, nil
	}
	p.owner, p.until = owner, s.m.now().Add(ttl)
	p.epoch++
	return p.epoch, nil
}

// term returns the publication if the leader's term epoch has not ended, and nil otherwise.
func (m *memory) term(name string, epoch int64) *publication {
	if p := m.publications[name]; p != nil && p.epoch == epoch {
		return p
	}
	return nil
}

// Renew implements trail.Publications.
func (s *Publications) Renew(_ context.Context, name string, epoch int64, ttl time.Duration) (bool, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	p := s.m.term(name, epoch)
	if p != nil {
		p.until = s.m.now().Add(ttl)
	}
	return p != nil, nil
}

// Resign implements trail.Publications.
func (s *Publications) Resign(_ context.Context, name string, epoch int64) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if p := s.m.term(name, epoch); p != nil {
		p.until = s.m.now()
	}
	return nil
}

// Unpublished implements trail.Publications.
func (s *Publications) Unpublished(_ context.Context, name string) ([]trail.Unpublished, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	cursors := map[uuid.UUID]trail.Position{}
	if p := s.m.publications[name]; p != nil {
		cursors = p.cursors
	}
	seen := map[uuid.UUID]bool{}
	var all []trail.Unpublished
	for i := range s.m.audit {
		e := s.m.storedEvent(i)
		if after := cursors[e.TenantID]; !seen[e.TenantID] && e.Compare(after) > 0 {
			seen[e.TenantID] = true
			all = append(all, trail.Unpublished{TenantID: e.TenantID, After: after, Since: e.At})
		}
	}
	return all, nil
}

// Advance implements trail.Publications.
func (s *Publications) Advance(
	_ context.Context,
	name string,
	epoch int64,
	tenant uuid.UUID,
	to trail.Position,
) (bool, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	p := s.m.term(name, epoch)
	if p != nil {
		p.cursors[tenant] = to
	}
	return p != nil, nil
}
