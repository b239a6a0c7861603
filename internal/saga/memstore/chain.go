package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
)

// Unsealed implements trail.Chain.
func (t *Trail) Unsealed(context.Context) ([]trail.Unsealed, error) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	first := map[uuid.UUID]trail.Unsealed{}
	for i := range t.m.audit {
		e := &t.m.audit[i]
		if _, known := first[e.TenantID]; known || t.m.positionOf(i).Compare(t.m.sealedUpTo(e.TenantID)) <= 0 {
			continue
		}
		first[e.TenantID] = trail.Unsealed{TenantID: e.TenantID, Age: max(0, t.m.now().Sub(e.At)), Settled: true}
	}
	var list []trail.Unsealed
	for _, u := range first {
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b trail.Unsealed) int { return bytes.Compare(a.TenantID[:], b.TenantID[:]) })
	return list, nil
}

// sealedUpTo returns the position of the last event that a tenant's seals cover.
func (m *memory) sealedUpTo(tenant uuid.UUID) trail.Position {
	if seals := m.seals[tenant]; len(seals) > 0 {
		return seals[len(seals)-1].To
	}
	return trail.Position{}
}

// Seal implements trail.Chain.
func (t *Trail) Seal(_ context.Context, tenant uuid.UUID) (int, error) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	seals := t.m.seals[tenant]
	covered := t.m.span(tenant, t.m.sealedUpTo(tenant), t.m.positionOf(len(t.m.audit)), trail.MaxSealed)
	if len(covered) == 0 {
		return 0, nil
	}
	s := trail.Seal{
		TenantID: tenant, Seq: int64(len(seals) + 1), Events: len(covered), Prev: make([]byte, 32),
		From: covered[0].Position, To: covered[len(covered)-1].Position, SealedAt: t.m.now().Truncate(time.Microsecond),
	}
	if len(seals) > 0 {
		s.Prev = seals[len(seals)-1].Hash
	}
	sum := s.Sum(trail.LinksOf(covered))
	s.Hash = sum[:]
	t.m.seals[tenant] = append(seals, s)
	return len(covered), nil
}

// Seals implements trail.Chain.
func (t *Trail) Seals(_ context.Context, tenant uuid.UUID, from int64, limit int) ([]trail.Seal, error) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	seals := t.m.seals[tenant]
	i, _ := slices.BinarySearchFunc(seals, from, func(s trail.Seal, seq int64) int { return cmp.Compare(s.Seq, seq) })
	return slices.Clone(seals[i:min(len(seals), i+limit)]), nil
}

// Span implements trail.Chain.
func (t *Trail) Span(
	_ context.Context,
	tenant uuid.UUID,
	after, upTo trail.Position,
	limit int,
) ([]trail.StoredEvent, error) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	return t.m.span(tenant, after, upTo, limit), nil
}

// Links implements trail.Chain.
func (t *Trail) Links(
	ctx context.Context,
	tenant uuid.UUID,
	after, upTo trail.Position,
	limit int,
) ([]trail.Link, error) {
	events, err := t.Span(ctx, tenant, after, upTo, limit)
	return trail.LinksOf(events), err
}

func (m *memory) span(tenant uuid.UUID, after, upTo trail.Position, limit int) []trail.StoredEvent {
	var events []trail.StoredEvent
	for i := range m.audit {
		if at := m.positionOf(i); len(events) < limit && m.audit[i].TenantID == tenant && at.Compare(after) > 0 &&
			at.Compare(upTo) <= 0 {
			events = append(events, m.storedEvent(i))
		}
	}
	return events
}
