package memstore

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
)

// List implements saga.Store.
func (st *Sagas) List(_ context.Context, tenant uuid.UUID, f saga.Filter) (page.Of[saga.Saga], error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	var all []saga.Saga
	for _, s := range st.m.sagas {
		if s.Tenant.ID == tenant && f.Matches(s) && st.m.assigned(s.Ref(), f) && st.m.waitsFor(s.Ref(), f) &&
			f.Fits(s, st.m.troubles[s.Ref()], st.m.currentStep(s)) {
			all = append(all, copySaga(s))
		}
	}
	found := listed(&f, all, func(s *saga.Saga) *saga.Saga { return s })
	found.CapTotal(f.TotalCap)
	return found, nil
}

// currentStep returns the name of a saga's current step; "" means that the saga is past the last
// step.
func (m *memory) currentStep(s *saga.Saga) string {
	h := m.heads[nameID{s.Tenant.ID, s.WorkflowName}]
	if h == nil || s.WorkflowVersion > len(h.versions) {
		return ""
	}
	if steps := h.versions[s.WorkflowVersion-1].def.Steps; s.CurrentStep < len(steps) {
		return steps[s.CurrentStep].Name
	}
	return ""
}

// listed sorts the items that match a filter in the requested order, and returns the requested
// page.
func listed[T any](f *saga.Filter, all []T, of func(*T) *saga.Saga) page.Of[T] {
	compare := func(a, b page.KeyTimeID) int {
		if f.Ascending {
			return a.Compare(b)
		}
		return b.Compare(a)
	}
	place := func(item *T) page.KeyTimeID {
		at, _ := f.Sort.Place(of(item))
		return at
	}
	slices.SortFunc(all, func(a, b T) int { return compare(place(&a), place(&b)) })
	return page.In(f.ByTime, all, func(item *T, after page.TimeID) bool {
		return compare(place(item), page.KeyTimeID{Key: f.AfterKey, TimeID: after}) > 0
	})
}
