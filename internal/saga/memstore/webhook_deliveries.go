package memstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
)

// Add implements webhook.Log.
func (w *Webhooks) Add(_ context.Context, d webhook.Delivery) error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	h, err := w.m.hook(d.TenantID, d.WebhookID)
	if err == nil {
		h.deliveries[d.ID] = &leasedDelivery{Delivery: copyDelivery(d)}
	}
	return err
}

// delivery returns a delivery of one of the tenant's subscriptions. Fault: NotFound.
func (m *memory) delivery(tenant, webhookID, id uuid.UUID) (*leasedDelivery, error) {
	h, err := m.hook(tenant, webhookID)
	if err != nil {
		return nil, err
	}
	p := h.deliveries[id]
	if p == nil {
		return nil, webhook.DeliveryNotFound(id)
	}
	return p, nil
}

// Delivery implements webhook.Log.
func (w *Webhooks) Delivery(_ context.Context, tenant, webhookID, id uuid.UUID) (webhook.Delivery, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	p, err := w.m.delivery(tenant, webhookID, id)
	if err != nil {
		return webhook.Delivery{}, err
	}
	return copyDelivery(p.Delivery), nil
}

// sorted returns the deliveries for which keep returns true, by id.
func (h *hook) sorted(keep func(*leasedDelivery) bool) []*leasedDelivery {
	var all []*leasedDelivery
	for _, p := range h.deliveries {
		if keep(p) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *leasedDelivery) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return all
}

// Deliveries implements webhook.Log.
func (w *Webhooks) Deliveries(
	_ context.Context,
	tenant, webhookID uuid.UUID,
	f webhook.Filter,
) (page.Of[webhook.Delivery], error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	h, err := w.m.hook(tenant, webhookID)
	if err != nil {
		return page.Of[webhook.Delivery]{}, err
	}
	var all []webhook.Delivery
	for _, p := range h.sorted(func(p *leasedDelivery) bool { return f.Status == "" || p.Status == f.Status }) {
		d := copyDelivery(p.Delivery)
		d.Body = nil
		all = append(all, d)
	}
	slices.Reverse(all)
	return page.In(f.Request, all, func(d *webhook.Delivery, after uuid.UUID) bool {
		return bytes.Compare(d.ID[:], after[:]) < 0
	}), nil
}

// Redeliver implements webhook.Log.
func (w *Webhooks) Redeliver(
	_ context.Context,
	tenant, webhookID, id uuid.UUID,
	m webhook.Moment,
) (webhook.Delivery, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	p, err := w.m.delivery(tenant, webhookID, id)
	if err != nil {
		return webhook.Delivery{}, err
	}
	p.Delivery = copyDelivery(webhook.Redeliver(p.Delivery, m.Now))
	return copyDelivery(p.Delivery), nil
}

// RedeliverFailed implements webhook.Log.
func (w *Webhooks) RedeliverFailed(
	_ context.Context,
	tenant, webhookID uuid.UUID,
	since time.Time,
	m webhook.Moment,
) (count int, more bool, err error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	h, err := w.m.hook(tenant, webhookID)
	if err != nil {
		return 0, false, err
	}
	failed := h.failedSince(since)
	count = min(len(failed), webhook.MaxRedeliver)
	for _, p := range failed[:count] {
		p.Delivery = copyDelivery(webhook.Redeliver(p.Delivery, m.Now))
	}
	return count, len(failed) > count, nil
}

// failedSince returns the failed deliveries that were created since the given time, oldest first.
func (h *hook) failedSince(since time.Time) []*leasedDelivery {
	return h.sorted(func(p *leasedDelivery) bool { return p.Status == webhook.Failed && !p.CreatedAt.Before(since) })
}

// Redeliverable implements webhook.Log.
func (w *Webhooks) Redeliverable(
	_ context.Context,
	tenant, webhookID uuid.UUID,
	since time.Time,
) (all []webhook.Delivery, more bool, err error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	h, err := w.m.hook(tenant, webhookID)
	if err != nil {
		return nil, false, err
	}
	failed := h.failedSince(since)
	for _, p := range failed[:min(len(failed), webhook.MaxRedeliver)] {
		all = append(all, copyDelivery(p.Delivery))
	}
	return all, len(failed) > len(all), nil
}

// Letters implements webhook.Log. The memory store has no letters.
func (w *Webhooks) Letters(context.Context, uuid.UUID, []webhook.Delivery) (map[dlq.Status]int64, error) {
	return map[dlq.Status]int64{}, nil
}

// due reports whether a delivery can be claimed.
func (m *memory) due(p *leasedDelivery, now time.Time) bool {
	return p.Status == webhook.Pending && !p.DueAt.After(now) && !p.leaseUntil.After(m.now())
}

// Ready implements webhook.Queue.
func (w *Webhooks) Ready(_ context.Context, now time.Time) ([]webhook.Work, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	var all []webhook.Work
	for _, h := range w.m.hooks {
		pending, work := 0, webhook.Work{Subscription: copySubscription(h.Subscription), Cursor: h.cursor}
		for _, p := range h.deliveries {
			work.Due = work.Due || w.m.due(p, now)
			if p.Status == webhook.Pending {
				pending++
			}
		}
		work.FeedReady = pending < webhook.MaxPending &&
			slices.ContainsFunc(w.m.audit[min(h.cursor.TxID, uint64(len(w.m.audit))):],
				func(e saga.AuditEvent) bool { return e.TenantID == h.TenantID })
		if h.Enabled && (work.FeedReady || work.Due) {
			all = append(all, work)
		}
	}
	return all, nil
}

// present returns the subscription if it is enabled and has this version, and nil otherwise.
func (m *memory) present(s *webhook.Subscription) *hook {
	h, err := m.hook(s.TenantID, s.ID)
	if err != nil || !h.Enabled || h.Version != s.Version {
		return nil
	}
	return h
}

// Enqueue implements webhook.Queue.
func (w *Webhooks) Enqueue(
	_ context.Context,
	s *webhook.Subscription,
	from, to trail.Position,
	deliveries []webhook.Delivery,
) (bool, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	h := w.m.present(s)
	if h == nil || h.cursor != from {
		return false, nil
	}
	h.cursor = to
	for _, d := range deliveries {
		h.deliveries[d.ID] = &leasedDelivery{Delivery: copyDelivery(d)}
	}
	return true, nil
}

// Claim implements webhook.Queue.
func (w *Webhooks) Claim(
	_ context.Context,
	s *webhook.Subscription,
	now time.Time,
	lease time.Duration,
	limit int,
) ([]webhook.Delivery, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	h := w.m.present(s)
	if h == nil {
		return nil, nil
	}
	due := h.sorted(func(p *leasedDelivery) bool { return w.m.due(p, now) })
	slices.SortStableFunc(due, func(a, b *leasedDelivery) int { return a.DueAt.Compare(b.DueAt) })
	var claimed []webhook.Delivery
	for _, p := range due[:min(limit, len(due))] {
		p.Attempt++
		p.LastAttemptAt, p.leaseUntil = micro(&now), w.m.now().Add(lease)
		claimed = append(claimed, copyDelivery(p.Delivery))
	}
	return claimed, nil
}

// Settle implements webhook.Queue.
func (w *Webhooks) Settle(
	_ context.Context,
	d *webhook.Delivery,
	o webhook.Outcome,
	p webhook.Policy,
	m webhook.Moment,
) (webhook.Result, bool, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	own, err := w.m.delivery(d.TenantID, d.WebhookID, d.ID)
	if err != nil || own.Attempt != d.Attempt || own.Status != webhook.Pending {
		return webhook.Result{}, false, nil //nolint:nilerr // a deleted delivery is not an error here
	}
	h := w.m.hooks[d.WebhookID]
	r := webhook.Settle(copySubscription(h.Subscription), copyDelivery(own.Delivery), o, p, m)
	own.Delivery, own.leaseUntil = copyDelivery(r.Delivery), time.Time{}
	h.Subscription = copySubscription(r.Subscription)
	if r.Recovered {
		for _, other := range h.deliveries {
			if other.Status == webhook.Pending && other.DueAt.After(m.Now) {
				other.DueAt = *micro(&m.Now)
			}
		}
	}
	return r, true, nil
}

// Expire implements webhook.Queue.
func (w *Webhooks) Expire(_ context.Context, before time.Time) (int64, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	var n int64
	for _, h := range w.m.hooks {
		for id, p := range h.deliveries {
			if p.Status != webhook.Pending && p.CreatedAt.Before(before) {
				delete(h.deliveries, id)
				n++
			}
		}
	}
	return n, nil
}

// Backlog implements webhook.Queue.
func (w *Webhooks) Backlog(context.Context) (pending int64, oldest time.Time, err error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	waits := func(since time.Time) {
		if oldest.IsZero() || since.Before(oldest) {
			oldest = since
		}
	}
	for _, h := range w.m.hooks {
		if !h.Enabled {
			continue
		}
		for _, p := range h.deliveries {
			if p.Status == webhook.Pending {
				pending++
				waits(p.CreatedAt)
			}
		}
		for i := range w.m.audit {
			if e := w.m.storedEvent(i); e.TenantID == h.TenantID && e.Compare(h.cursor) > 0 {
				waits(e.At)
				break
			}
		}
	}
	return pending, oldest, nil
}
