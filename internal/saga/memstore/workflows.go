package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Workflows implements workflow.Store in memory.
type Workflows struct{ m *memory }

// Register implements workflow.Store.
func (w *Workflows) Register(
	_ context.Context,
	tenant uuid.UUID,
	d *workflow.Definition,
	inline bool,
	now time.Time,
) (workflow.Registered, bool, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	id := nameID{tenant, d.Name}
	h := w.m.heads[id]
	if h == nil {
		h = &head{enabled: true, inline: inline}
		w.m.heads[id] = h
	}
	hash := string(d.Hash())
	for i, v := range h.versions {
		if v.hash == hash {
			return h.at(id, i+1), false, nil
		}
	}
	now = now.Truncate(time.Microsecond)
	h.versions = append(h.versions, version{def: d, hash: hash, createdAt: now})
	h.revision++
	h.updatedAt = now
	return h.at(id, len(h.versions)), true, nil
}

func (h *head) at(id nameID, ver int) workflow.Registered {
	v := h.versions[ver-1]
	return workflow.Registered{
		TenantID: id.tenant, Name: id.name, Version: ver, Definition: v.def, CreatedAt: v.createdAt, Inline: h.inline,
		Latest: len(h.versions), Enabled: h.enabled, Revision: h.revision, UpdatedAt: h.updatedAt,
	}
}

// Get implements workflow.Store.
func (w *Workflows) Get(_ context.Context, tenant uuid.UUID, name string, ver int) (workflow.Registered, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	id := nameID{tenant, name}
	h := w.m.heads[id]
	if h == nil || ver > len(h.versions) || ver < 0 {
		return workflow.Registered{}, workflow.NotFound(name, ver)
	}
	return h.at(id, cmp.Or(ver, len(h.versions))), nil
}

// List implements workflow.Store.
func (w *Workflows) List(_ context.Context, tenant uuid.UUID, f workflow.Filter) (page.Of[workflow.Registered], error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	var all []workflow.Registered
	for id, h := range w.m.heads {
		if id.tenant == tenant && !h.inline && f.Matches(id.name, h.enabled) {
			all = append(all, h.at(id, len(h.versions)))
		}
	}
	slices.SortFunc(all, func(a, b workflow.Registered) int { return cmp.Compare(a.Name, b.Name) })
	return page.In(f.Request, all, func(r *workflow.Registered, after string) bool { return r.Name > after }), nil
}

// Versions implements workflow.Store.
func (w *Workflows) Versions(
	_ context.Context,
	tenant uuid.UUID,
	name string,
	p page.Request[int],
) (page.Of[workflow.Registered], error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	id := nameID{tenant, name}
	h := w.m.heads[id]
	if h == nil {
		return page.Of[workflow.Registered]{}, workflow.NotFound(name, 0)
	}
	var all []workflow.Registered
	for ver := len(h.versions); ver > 0; ver-- {
		all = append(all, h.at(id, ver))
	}
	return page.In(p, all, func(r *workflow.Registered, after int) bool { return r.Version < after }), nil
}

// SetEnabled implements workflow.Store.
func (w *Workflows) SetEnabled(
	_ context.Context,
	tenant uuid.UUID,
	name string,
	enabled bool,
	revision int64,
	now time.Time,
) (workflow.Registered, error) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	id := nameID{tenant, name}
	h := w.m.heads[id]
	switch {
	case h == nil:
		return workflow.Registered{}, workflow.NotFound(name, 0)
	case revision != 0 && revision != h.revision:
		return workflow.Registered{}, fault.New(
			fault.Precondition,
			workflow.CodeStale,
			"workflow %q is at revision %d",
			name,
			h.revision,
		)
	}
	if h.enabled != enabled {
		h.enabled = enabled
		h.revision++
		h.updatedAt = now.Truncate(time.Microsecond)
	}
	return h.at(id, len(h.versions)), nil
}
