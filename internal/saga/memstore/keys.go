package memstore

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/page"
)

// Keys implements access.Store in memory.
type Keys struct {
	mu   sync.Mutex
	byID map[uuid.UUID]*access.Key // guarded by mu, keys included
}

// Create implements access.Store.
func (s *Keys) Create(_ context.Context, k access.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.byID {
		if other.Prefix == k.Prefix {
			return access.ErrPrefixTaken
		}
	}
	k = copyKey(&k)
	s.byID[k.ID] = &k
	return nil
}

// Find implements access.Store.
func (s *Keys) Find(_ context.Context, prefix string) (access.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.byID {
		if k.Prefix == prefix {
			return copyKey(k), nil
		}
	}
	return access.Key{}, access.KeyNotFound(uuid.Nil)
}

// Get implements access.Store.
func (s *Keys) Get(_ context.Context, scope *uuid.UUID, id uuid.UUID) (access.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byID[id]
	if k == nil || !inScope(k, scope) {
		return access.Key{}, access.KeyNotFound(id)
	}
	return copyKey(k), nil
}

// List implements access.Store.
func (s *Keys) List(_ context.Context, scope *uuid.UUID, f access.Filter) (page.Of[access.Key], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []access.Key
	for _, k := range s.byID {
		if inScope(k, scope) && (f.Active == nil || *f.Active == k.Active(f.Now)) {
			all = append(all, copyKey(k))
		}
	}
	slices.SortFunc(all, func(a, b access.Key) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	return page.In(f.Request, all, func(k *access.Key, after uuid.UUID) bool {
		return bytes.Compare(k.ID[:], after[:]) < 0
	}), nil
}

// Revoke implements access.Store.
func (s *Keys) Revoke(_ context.Context, scope *uuid.UUID, id uuid.UUID, by string, at time.Time) (access.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byID[id]
	if k == nil || !inScope(k, scope) {
		return access.Key{}, access.KeyNotFound(id)
	}
	if k.RevokedAt == nil {
		k.RevokedAt, k.RevokedBy = micro(&at), by
	}
	return copyKey(k), nil
}

// Used implements access.Store.
func (s *Keys) Used(_ context.Context, at map[uuid.UUID]time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range at {
		if k := s.byID[id]; k != nil && (k.LastUsedAt == nil || !t.Before(k.LastUsedAt.Add(access.UsedEvery))) {
			k.LastUsedAt = micro(&t)
		}
	}
	return nil
}

func inScope(k *access.Key, tenant *uuid.UUID) bool {
	return tenant == nil || k.Tenant != nil && k.Tenant.ID == *tenant
}

// copyKey returns a key that shares nothing with k.
func copyKey(k *access.Key) access.Key {
	out := *k
	out.Hash, out.Queues = bytes.Clone(k.Hash), slices.Clone(k.Queues)
	if k.Tenant != nil {
		t := *k.Tenant
		out.Tenant = &t
	}
	out.CreatedAt = *micro(&k.CreatedAt)
	out.ExpiresAt, out.RevokedAt, out.LastUsedAt = micro(k.ExpiresAt), micro(k.RevokedAt), micro(k.LastUsedAt)
	return out
}
