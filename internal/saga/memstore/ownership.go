package memstore

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// Former implements saga.Ownership.
func (st *Sagas) Former(_ context.Context, node string) (f saga.Incarnation, found bool, err error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	for _, n := range st.m.nodes {
		if n.name == node && n.until.After(st.m.now()) && n.until.After(f.LeaseUntil) {
			f, found = saga.Incarnation{Process: n.process, LeaseUntil: n.until}, true
		}
	}
	return f, found, nil
}

// Register implements saga.Ownership.
func (st *Sagas) Register(_ context.Context, node, process string, ttl time.Duration) (int64, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	now := st.m.now()
	for _, n := range st.m.nodes {
		if n.name == node && n.until.After(now) {
			n.until = now
		}
	}
	id := int64(len(st.m.nodes) + 1)
	st.m.nodes[id] = &nodeRow{name: node, process: process, until: now.Add(ttl)}
	return id, nil
}

// Renew implements saga.Ownership.
func (st *Sagas) Renew(_ context.Context, owner int64, ttl time.Duration) (bool, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	if !st.m.alive(owner) {
		return false, nil
	}
	st.m.nodes[owner].until = st.m.now().Add(ttl)
	return true, nil
}

// Resign implements saga.Ownership.
func (st *Sagas) Resign(_ context.Context, owner int64) error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	if st.m.alive(owner) {
		st.m.nodes[owner].until = st.m.now()
	}
	return nil
}

func (m *memory) alive(owner int64) bool {
	n := m.nodes[owner]
	return n != nil && n.until.After(m.now())
}

// Claim implements saga.Ownership.
func (st *Sagas) Claim(_ context.Context, owner int64, limit int) ([]saga.Loaded, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	now := st.m.now().Truncate(time.Microsecond)
	var free, left []*saga.Saga
	for _, s := range st.m.sagas {
		switch {
		case s.State.Terminal() || s.SuspendedAt != nil:
		case s.LeaseOwner == nil && s.NextRunAt != nil && !s.NextRunAt.After(now):
			free = append(free, s)
		case s.LeaseOwner != nil && *s.LeaseOwner != owner && !st.m.alive(*s.LeaseOwner):
			left = append(left, s)
		}
	}
	slices.SortFunc(free, func(a, b *saga.Saga) int { return a.NextRunAt.Compare(*b.NextRunAt) })
	slices.SortFunc(left, func(a, b *saga.Saga) int { // sagas in flight, which have no due time, come first
		return cmp.Or(dueTime(a).Compare(dueTime(b)), a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	left, free = st.m.inTurn(left, limit), st.m.inTurn(free, limit)
	var out []saga.Loaded
	// Sagas of dead nodes come first, because their number is limited, and that of a backlog may
	// not be.
	for i, s := range append(left, free...) {
		if len(out) == limit {
			break
		}
		out = append(out, st.m.loaded(st.m.claim(s, owner, i < len(left), now)))
		st.m.lastTurn = s.Tenant.ID
	}
	return out, nil
}

// dueTime returns when a saga is due. The zero time means that it was in flight.
func dueTime(s *saga.Saga) time.Time {
	if s.NextRunAt == nil {
		return time.Time{}
	}
	return *s.NextRunAt
}

// inTurn gives the tenants of sagas equal shares of limit, starting with the tenant after the one
// served last.
func (m *memory) inTurn(sagas []*saga.Saga, limit int) []*saga.Saga {
	byTenant := map[uuid.UUID][]*saga.Saga{}
	for _, s := range sagas {
		byTenant[s.Tenant.ID] = append(byTenant[s.Tenant.ID], s)
	}
	before := func(id uuid.UUID) bool { return bytes.Compare(id[:], m.lastTurn[:]) <= 0 }
	tenants := slices.SortedFunc(maps.Keys(byTenant), func(a, b uuid.UUID) int {
		if before(a) != before(b) {
			return map[bool]int{true: 1, false: -1}[before(a)]
		}
		return bytes.Compare(a[:], b[:])
	})
	tenants = tenants[:min(limit, len(tenants))]
	var out []*saga.Saga
	for _, id := range tenants {
		share := (limit + len(tenants) - 1) / len(tenants)
		out = append(out, byTenant[id][:min(share, len(byTenant[id]))]...)
	}
	return out
}

// claim corresponds to one row of the claim statement; taken means that the saga is taken from a
// dead owner.
func (m *memory) claim(old *saga.Saga, owner int64, taken bool, now time.Time) *saga.Saga {
	s := *old
	if taken {
		m.closeRunning(s.Ref(), now)
		s.Uncertain = true
	}
	if taken || s.Attempt == 0 {
		s.Attempt++
	}
	if !taken || s.NextRunAt != nil && !s.NextRunAt.After(now) {
		s.NextRunAt = nil
	}
	if s.StartedAt == nil {
		s.StartedAt = &now
	}
	s.LeaseOwner = &owner
	s.LeaseEpoch++
	s.Version++
	s.UpdatedAt = now
	m.sagas[s.Ref()] = &s
	return &s
}

func (m *memory) closeRunning(ref saga.Ref, now time.Time) {
	logs := slices.Clone(m.logs[ref])
	for i := range logs {
		if l := &logs[i]; l.Status == saga.LogRunning {
			code := "owner_lost"
			l.Status, l.CompletedAt, l.UpdatedAt, l.Outcome = saga.LogFailed, &now, now, &code
			l.Error = &saga.Error{
				Code:      code,
				Message:   "the node that made this call was lost; the call is repeated",
				Type:      "network",
				Retryable: true,
				Timestamp: now,
			}
		}
	}
	m.logs[ref] = logs
}

// Release implements saga.Ownership.
func (st *Sagas) Release(_ context.Context, owner int64, refs []saga.Ref) error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	now := st.m.now().Truncate(time.Microsecond)
	for _, ref := range refs {
		old := st.m.sagas[ref]
		if old == nil || old.LeaseOwner == nil || *old.LeaseOwner != owner || old.State.Terminal() {
			continue
		}
		s := *old
		s.LeaseOwner = nil
		if s.NextRunAt == nil {
			s.NextRunAt = &now
		}
		s.Version++
		s.UpdatedAt = now
		st.m.sagas[ref] = &s
	}
	return nil
}

// Due implements saga.Ownership.
func (st *Sagas) Due(_ context.Context, owner int64, idle time.Duration, limit int) ([]saga.Ref, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	now := st.m.now()
	var refs []saga.Ref
	for ref, s := range st.m.sagas {
		if s.State.Terminal() || s.SuspendedAt != nil || s.LeaseOwner == nil || *s.LeaseOwner != owner || len(refs) == limit {
			continue
		}
		if s.NextRunAt != nil && !s.NextRunAt.After(now) || s.NextRunAt == nil && s.UpdatedAt.Before(now.Add(-idle)) {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// Overdue implements saga.Ownership.
func (st *Sagas) Overdue(_ context.Context, after saga.Deadline, limit int) ([]saga.Deadline, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	now := st.m.now()
	passed := func(t *time.Time) bool { return t != nil && !t.After(now) }
	var page []saga.Deadline
	for _, s := range st.m.sagas {
		forward := s.State.Forward() && s.EndCause == nil && passed(s.TimeoutAt) &&
			(s.TimedOutAt == nil || s.TimedOutAt.Before(*s.TimeoutAt))
		undoing := s.State == saga.Compensating && !s.CompensationExpired && passed(s.CompensationTimeoutAt)
		d := saga.Deadline{Ref: s.Ref()}
		switch {
		case !s.DeadlineCounts() || !forward && !undoing:
			continue
		case forward:
			d.At = *s.TimeoutAt
		default:
			d.At = *s.CompensationTimeoutAt
		}
		if byDeadline(d, after) > 0 {
			page = append(page, d)
		}
	}
	slices.SortFunc(page, byDeadline)
	return page[:min(limit, len(page))], nil
}

func byDeadline(a, b saga.Deadline) int {
	return cmp.Or(a.At.Compare(b.At), a.Ref.Compare(b.Ref))
}

// Stuck implements saga.Ownership.
func (st *Sagas) Stuck(context.Context) (int, map[saga.State]int, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	stuck, live := 0, map[saga.State]int{}
	for _, s := range st.m.sagas {
		if s.State.Terminal() {
			continue
		}
		live[s.State]++
		switch {
		case s.SuspendedAt != nil:
		case s.LeaseOwner == nil && s.NextRunAt == nil, s.LeaseOwner != nil && st.m.nodes[*s.LeaseOwner] == nil:
			stuck++
		}
	}
	return stuck, live, nil
}

// Neglected implements saga.Ownership.
func (st *Sagas) Neglected(_ context.Context, q saga.NeglectedQuery) (page []saga.Stalled, next saga.Ref, err error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	since := st.m.now().Add(-q.Idle)
	for _, s := range st.m.sagas {
		if s.State.Terminal() || s.SuspendedAt != nil || s.NeedsAttention || s.Ref().Compare(q.After) <= 0 {
			continue
		}
		due := s.UpdatedAt
		if s.NextRunAt != nil && s.NextRunAt.After(due) {
			due = *s.NextRunAt
		}
		reason := ""
		switch {
		case s.Failures >= q.Failures:
			reason = saga.ReasonFailing
		case !due.Before(since):
		case s.LeaseOwner != nil && st.m.alive(*s.LeaseOwner):
			reason = saga.ReasonNoAnswer
		default:
			reason = saga.ReasonUnowned
		}
		if reason != "" {
			page = append(page, saga.Stalled{Saga: copySaga(s), Reason: reason})
		}
	}
	slices.SortFunc(page, func(a, b saga.Stalled) int { return a.Saga.Ref().Compare(b.Saga.Ref()) })
	if len(page) >= q.Limit {
		page = page[:q.Limit]
		next = page[q.Limit-1].Saga.Ref()
	}
	return page, next, nil
}

// Node implements saga.Ownership.
func (st *Sagas) Node(_ context.Context, owner int64) (saga.Node, bool, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	n := st.m.nodes[owner]
	if n == nil {
		return saga.Node{}, false, nil
	}
	return saga.Node{Name: n.name, LeaseUntil: n.until, Alive: st.m.alive(owner)}, true, nil
}
