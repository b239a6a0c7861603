package memstore

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/rest/page"
	"github.com/skald-saga/skald/internal/saga"
)

// List implements saga.Store.
func (st *Sagas) List(_ context.Context, tenant uuid.UUID, f saga.Filter) (page.Of[saga.Saga], error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	var all []saga.Saga
	for _, s := range st.m.sagas {
		if s.Tenant.ID == tenant && f.Matches(s) {
			all = append(all, copySaga(s))
		}
	}
	found := newest(f.ByTime, all, (*saga.Saga).Place)
	found.CapTotal(f.TotalCap)
	return found, nil
}

// newest sorts the items that match a filter, newest first, and returns the requested page.
func newest[T any](r page.ByTime, all []T, place func(*T) page.TimeID) page.Of[T] {
	slices.SortFunc(all, func(a, b T) int { return place(&b).Compare(place(&a)) })
	return page.In(r, all, func(item *T, after page.TimeID) bool { return place(item).Compare(after) < 0 })
}
