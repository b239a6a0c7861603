package memstore

import (
	"bytes"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
)

// Webhooks implements webhook.Store, webhook.Log and webhook.Queue in memory.
type Webhooks struct{ m *memory }

// hook returns one of the tenant's subscriptions. Fault: NotFound.
func (m *memory) hook(tenant, id uuid.UUID) (*hook, error) {
	h := m.hooks[id]
	if h == nil || h.TenantID != tenant {
		return nil, webhook.NotFound(id)
	}
	return h, nil
}

// end returns the position after all existing events.
func (m *memory) end() trail.Position {
	return trail.Position{TxID: uint64(len(m.audit)), ID: int64(len(m.audit))}
}

// Create implements webhook.Store.
func (w *Webhooks) Create(_ context.Context, s webhook.Subscription, fromBeginning bool) error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	count := 0
	for _, h := range w.m.hooks {
		if h.TenantID == s.TenantID {
			count++
		}
	}
	if count >= webhook.MaxPerTenant {
		return fault.New(fault.Conflict, webhook.CodeLimit, "the tenant already has %d webhooks", webhook.MaxPerTenant)
	}
	h := &hook{Subscription: copySubscription(s), cursor: w.m.end(), deliveries: map[uuid.UUID]*leasedDelivery{}}
	if fromBeginning {
		h.cursor = trail.Position{}
	}
	w.m.hooks[s.ID] = h
	return nil
}

// Get implements webhook.Store.
func (w *Webhooks) Get(_ context.Context, tenant, id uuid.UUID) (webhook.Subscription, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	h, err := w.m.hook(tenant, id)
	if err != nil {
		return webhook.Subscription{}, err
	}
	return copySubscription(h.Subscription), nil
}

// List implements webhook.Store.
func (w *Webhooks) List(_ context.Context, tenant uuid.UUID, f webhook.Filter) (page.Of[webhook.Listed], error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	var all []webhook.Listed
	for _, h := range w.m.hooks {
		if h.TenantID != tenant {
			continue
		}
		l := webhook.Listed{Subscription: copySubscription(h.Subscription)}
		for _, d := range h.deliveries {
			if d.Status != webhook.Pending {
				continue
			}
			l.Pending++
			if l.Oldest == nil || d.CreatedAt.Before(*l.Oldest) {
				l.Oldest = micro(&d.CreatedAt)
			}
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b webhook.Listed) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return page.In(f.Request, all, func(s *webhook.Listed, after uuid.UUID) bool {
		return bytes.Compare(s.ID[:], after[:]) > 0
	}), nil
}

// Replace implements webhook.Store.
func (w *Webhooks) Replace(_ context.Context, s webhook.Subscription, skip bool) error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	h, err := w.m.hook(s.TenantID, s.ID)
	switch {
	case err != nil:
		return err
	case h.Version != s.Version-1:
		return webhook.Stale(s.ID, h.Version)
	}
	s.CreatedAt, s.CreatedBy = h.CreatedAt, h.CreatedBy
	h.Subscription = copySubscription(s)
	if skip {
		h.cursor = w.m.end()
		for _, p := range h.deliveries {
			if p.Status == webhook.Pending {
				p.Status, p.EndedAt = webhook.Discarded, micro(&s.UpdatedAt)
			}
		}
	}
	return nil
}

// Delete implements webhook.Store.
func (w *Webhooks) Delete(_ context.Context, tenant, id uuid.UUID, version int64) error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	h, err := w.m.hook(tenant, id)
	switch {
	case err != nil:
		return err
	case version != 0 && version != h.Version:
		return webhook.Stale(id, h.Version)
	}
	delete(w.m.hooks, id)
	return nil
}

// copySubscription returns a copy that shares nothing with s. Its times have PostgreSQL's
// precision.
func copySubscription(s webhook.Subscription) webhook.Subscription {
	s.EventTypes, s.WorkflowNames = slices.Clone(s.EventTypes), slices.Clone(s.WorkflowNames)
	s.CreatedAt, s.UpdatedAt = *micro(&s.CreatedAt), *micro(&s.UpdatedAt)
	s.DisabledAt, s.Health.FailingSince = micro(s.DisabledAt), micro(s.Health.FailingSince)
	s.Secrets = slices.Clone(s.Secrets)
	for i, k := range s.Secrets {
		s.Secrets[i] = webhook.Secret{
			Key:       slices.Clone(k.Key),
			CreatedAt: *micro(&k.CreatedAt),
			ExpiresAt: micro(k.ExpiresAt),
		}
	}
	return s
}

// copyDelivery returns a copy that shares nothing with d. Its times have PostgreSQL's precision.
func copyDelivery(d webhook.Delivery) webhook.Delivery {
	d.Body = slices.Clone(d.Body)
	d.DueAt, d.CreatedAt = *micro(&d.DueAt), *micro(&d.CreatedAt)
	d.LastAttemptAt, d.EndedAt = micro(d.LastAttemptAt), micro(d.EndedAt)
	return d
}
