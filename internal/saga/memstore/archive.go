package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// ArchiveExpired implements saga.Archive.
func (st *Sagas) ArchiveExpired(_ context.Context, e saga.Expiry, limit int) (int, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	expired := st.m.expired(e)
	expired = expired[:min(limit, len(expired))]
	for _, s := range expired {
		st.m.archive[s.Ref()] = &saga.Archived{
			Loaded:     saga.Loaded{Saga: *s, Logs: saga.InOrder(st.m.logs[s.Ref()])},
			ArchivedAt: st.m.now().Truncate(time.Microsecond),
		}
		delete(st.m.sagas, s.Ref())
		delete(st.m.logs, s.Ref())
		delete(st.m.restored, s.Ref())
	}
	return len(expired), nil
}

// expired returns the live sagas that e selects.
func (m *memory) expired(e saga.Expiry) []*saga.Saga {
	var out []*saga.Saga
	for _, s := range m.sagas {
		if s.CompletedAt == nil || s.NeedsAttention || e.Tenant != uuid.Nil && e.Tenant != s.Tenant.ID {
			continue
		}
		since := *s.CompletedAt
		if at, back := m.restored[s.Ref()]; back && at.After(since) {
			since = at
		}
		if before, ever := m.cutoff(s, e); ever && since.Before(before) {
			out = append(out, s)
		}
	}
	return out
}

// cutoff returns the time before which s must have ended; ever is false if there is no such time.
func (m *memory) cutoff(s *saga.Saga, e saga.Expiry) (before time.Time, ever bool) {
	if !e.Before.IsZero() {
		return e.Before, true
	}
	keep := e.Default
	h := m.heads[nameID{s.Tenant.ID, s.WorkflowName}]
	if own := h.versions[len(h.versions)-1].def.Retention; own != nil {
		keep.Completed = ofWorkflow(own.CompletedMS, keep.Completed)
		keep.Failed = ofWorkflow(own.FailedMS, keep.Failed)
	}
	live := keep.Failed
	if s.State == saga.Completed {
		live = keep.Completed
	}
	return m.now().Add(-live), live > 0
}

func ofWorkflow(ms int64, def time.Duration) time.Duration {
	switch ms {
	case 0:
		return def
	case workflow.Forever:
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// CountExpired implements saga.Archive.
func (st *Sagas) CountExpired(_ context.Context, e saga.Expiry, maxEach int) ([]saga.Expired, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	counts := map[nameID]*saga.Expired{}
	for _, s := range st.m.expired(e) {
		id := nameID{s.Tenant.ID, s.WorkflowName}
		if counts[id] == nil {
			counts[id] = &saga.Expired{TenantID: id.tenant, WorkflowName: id.name}
		}
		n := &counts[id].Failed
		if s.State == saga.Completed {
			n = &counts[id].Completed
		}
		*n = min(*n+1, maxEach)
	}
	var out []saga.Expired
	for _, c := range counts {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b saga.Expired) int {
		return cmp.Or(cmp.Compare(a.WorkflowName, b.WorkflowName), bytes.Compare(a.TenantID[:], b.TenantID[:]))
	})
	return out[:min(1000, len(out))], nil
}

// GetArchived implements saga.Archive.
func (st *Sagas) GetArchived(_ context.Context, tenant, id uuid.UUID, want saga.Logs) (saga.Archived, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	a := st.m.archive[saga.Ref{Tenant: tenant, ID: id}]
	if a == nil {
		return saga.Archived{}, saga.NotFound(id)
	}
	return saga.Archived{
		Loaded:     saga.Loaded{Saga: copySaga(&a.Saga), Logs: wanted(copyLogs(a.Logs), want)},
		ArchivedAt: a.ArchivedAt,
	}, nil
}

// ListArchived implements saga.Archive.
func (st *Sagas) ListArchived(_ context.Context, tenant uuid.UUID, f saga.Filter) (page.Of[saga.Archived], error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	var all []saga.Archived
	for _, a := range st.m.archive {
		if a.Saga.Tenant.ID == tenant && f.Matches(&a.Saga) && st.m.assigned(a.Saga.Ref(), f) {
			all = append(all, saga.Archived{Loaded: saga.Loaded{Saga: copySaga(&a.Saga)}, ArchivedAt: a.ArchivedAt})
		}
	}
	return listed(&f, all, func(a *saga.Archived) *saga.Saga { return &a.Saga }), nil
}

// Restore implements saga.Archive.
func (st *Sagas) Restore(_ context.Context, r saga.Restoration) error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	ref := saga.Ref{Tenant: r.TenantID, ID: r.SagaID}
	a := st.m.archive[ref]
	if a == nil {
		return saga.NotFound(r.SagaID)
	}
	if r.Key != nil {
		if _, used := st.m.keys[keyOf(r.Key)]; used {
			return saga.KeyUsed()
		}
		st.m.keys[keyOf(r.Key)] = keyRow{string(r.Key.Hash), r.SagaID, st.m.now()}
	}
	st.m.sagas[ref], st.m.logs[ref] = &a.Saga, a.Logs
	st.m.audit = append(st.m.audit, copyEvent(r.Event))
	st.m.restored[ref] = st.m.now().Truncate(time.Microsecond)
	delete(st.m.archive, ref)
	return nil
}
