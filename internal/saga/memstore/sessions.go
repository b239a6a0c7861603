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

// Sessions implements access.Sessions in memory.
type Sessions struct {
	mu   sync.Mutex
	byID map[uuid.UUID]*access.Session // guarded by mu, sessions included
}

// Open implements access.Sessions.
func (st *Sessions) Open(_ context.Context, s access.Session) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	s = copySession(&s)
	st.byID[s.ID] = &s
	return nil
}

// Find implements access.Sessions.
func (st *Sessions) Find(_ context.Context, hash []byte) (access.Session, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, s := range st.byID {
		if bytes.Equal(s.Hash, hash) {
			return copySession(s), nil
		}
	}
	return access.Session{}, access.SessionNotFound()
}

// Get implements access.Sessions.
func (st *Sessions) Get(
	_ context.Context, scope *uuid.UUID, owner string, id uuid.UUID, now time.Time,
) (access.Session, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := st.byID[id]
	if s == nil || !now.Before(s.Ends()) || !visible(s, scope, owner) {
		return access.Session{}, access.SessionNotFound()
	}
	return copySession(s), nil
}

// List implements access.Sessions.
func (st *Sessions) List(
	_ context.Context, scope *uuid.UUID, f access.SessionFilter,
) (page.Of[access.Session], error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	var all []access.Session
	for _, s := range st.byID {
		if visible(s, scope, f.Subject) && f.Now.Before(s.Ends()) {
			all = append(all, copySession(s))
		}
	}
	slices.SortFunc(all, func(a, b access.Session) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	return page.In(f.Request, all, func(s *access.Session, after uuid.UUID) bool {
		return bytes.Compare(s.ID[:], after[:]) < 0
	}), nil
}

// End implements access.Sessions.
func (st *Sessions) End(_ context.Context, scope *uuid.UUID, owner string, id uuid.UUID, _ time.Time) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if s := st.byID[id]; s == nil || !visible(s, scope, owner) {
		return access.SessionNotFound()
	}
	delete(st.byID, id)
	return nil
}

// Used implements access.Sessions.
func (st *Sessions) Used(_ context.Context, at map[uuid.UUID]time.Time, now time.Time) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	for id, t := range at {
		if s := st.byID[id]; s != nil && t.After(s.LastUsedAt) {
			s.LastUsedAt = *micro(&t)
		}
	}
	for id, s := range st.byID {
		if !now.Before(s.Ends()) {
			delete(st.byID, id)
		}
	}
	return nil
}

func visible(s *access.Session, scope *uuid.UUID, owner string) bool {
	return (scope == nil || s.Tenant != nil && s.Tenant.ID == *scope) && (owner == "" || s.Subject == owner)
}

// copySession returns a session that shares nothing with s.
func copySession(s *access.Session) access.Session {
	out := *s
	out.Hash = bytes.Clone(s.Hash)
	if s.KeyID != nil {
		id := *s.KeyID
		out.KeyID = &id
	}
	if s.Tenant != nil {
		t := *s.Tenant
		out.Tenant = &t
	}
	out.CreatedAt, out.ExpiresAt, out.LastUsedAt = *micro(&s.CreatedAt), *micro(&s.ExpiresAt), *micro(&s.LastUsedAt)
	return out
}
