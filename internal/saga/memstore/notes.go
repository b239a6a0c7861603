package memstore

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

// Notes implements saga.Notes.
func (st *Sagas) Notes(_ context.Context, tenant uuid.UUID, sagas ...uuid.UUID) (map[uuid.UUID]saga.Note, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	found := map[uuid.UUID]saga.Note{}
	for _, id := range sagas {
		if n, noted := st.m.notes[saga.Ref{Tenant: tenant, ID: id}]; noted {
			found[id] = n
		}
	}
	return found, nil
}

// PutNote implements saga.Notes.
func (st *Sagas) PutNote(_ context.Context, n saga.Noted) error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	if st.m.notes[n.Saga].Version != n.Note.Version-1 {
		return fault.New(fault.Conflict, saga.CodeStale, "the note of saga %s has changed since it was read", n.Saga.ID)
	}
	st.m.notes[n.Saga] = n.Note
	st.m.audit = append(st.m.audit, copyEvent(n.Event))
	return nil
}

// assigned reports whether a saga is assigned to f's assignee. It is true if f names none.
func (m *memory) assigned(r saga.Ref, f saga.Filter) bool {
	return f.Assignee == "" || m.notes[r].Assignee == f.Assignee
}
