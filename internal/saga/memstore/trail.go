package memstore

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/saga"
)

// Trail implements trail.Trail in memory. Each event counts as one transaction, and none is ever
// pending, because the lock is held during a write.
type Trail struct{ m *memory }

// Feed implements trail.Trail.
func (t *Trail) Feed(
	_ context.Context,
	tenant uuid.UUID,
	after trail.Position,
	f trail.EventFilter,
	limit int,
) (events []trail.StoredEvent, end trail.Position, err error) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	end = after
	looked := 0
	// The i-th of all events has the position (i, i).
	//nolint:gosec // bounded
	for i := int(min(after.TxID, uint64(len(t.m.audit)))); i < len(t.m.audit) && len(events) < limit &&
		looked < max(limit, trail.FeedScan); i++ {
		if t.m.audit[i].TenantID != tenant {
			continue
		}
		looked++
		e := t.m.storedEvent(i)
		end = e.Position
		if f.Matches(&e) {
			events = append(events, e)
		}
	}
	return events, end, nil
}

// End implements trail.Trail.
func (t *Trail) End(_ context.Context, tenant uuid.UUID) (trail.Position, error) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	for i := len(t.m.audit) - 1; i >= 0; i-- {
		if t.m.audit[i].TenantID == tenant {
			return t.m.positionOf(i), nil
		}
	}
	return trail.Position{}, nil
}

// Events implements trail.Trail.
func (t *Trail) Events(
	_ context.Context,
	tenant, sagaID uuid.UUID,
	f trail.EventFilter,
	newestFirst bool,
	after int64,
	limit int,
) ([]trail.StoredEvent, bool, error) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	events := []trail.StoredEvent{}
	for i := range t.m.audit {
		if a := &t.m.audit[i]; a.TenantID != tenant || a.SagaID != sagaID {
			continue
		}
		e := t.m.storedEvent(i)
		before := after > 0 && (newestFirst && e.ID >= after || !newestFirst && e.ID <= after)
		if !before && f.Matches(&e) {
			events = append(events, e)
		}
	}
	if newestFirst {
		slices.Reverse(events)
	}
	return events[:min(limit, len(events))], len(events) > limit, nil
}

func (m *memory) positionOf(i int) trail.Position {
	return trail.Position{TxID: uint64(i + 1), ID: int64(i + 1)} //nolint:gosec // an index
}

// storedEvent returns the stored form of event i.
func (m *memory) storedEvent(i int) trail.StoredEvent {
	digest := m.audit[i].Digest()
	e := trail.StoredEvent{
		AuditEvent: copyEvent(m.audit[i]),
		Position:   m.positionOf(i),
		Stored:     digest[:],
	}
	if s := m.sagas[saga.Ref{Tenant: e.TenantID, ID: e.SagaID}]; s != nil {
		e.WorkflowName, e.CorrelationID, e.BusinessKey = s.WorkflowName, copied(s.CorrelationID), copied(s.BusinessKey)
		e.TraceState, e.Baggage = copied(s.TraceState), copied(s.Baggage)
		if strings.HasPrefix(s.WorkflowName, saga.InlinePrefix) {
			e.Label = s.SagaType
		}
	}
	return e
}
