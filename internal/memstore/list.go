package memstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// List implements saga.Store.
func (st *Sagas) List(_ context.Context, tenant uuid.UUID, f saga.Filter) (saga.Page, error) {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	var all []saga.Saga
	for _, s := range st.m.sagas {
		if s.Tenant.ID == tenant && f.Matches(s) {
			all = append(all, copySaga(s))
		}
	}
	page := saga.Page{}
	page.Sagas, page.More, page.Total = cut(all, f, func(s *saga.Saga) *saga.Saga { return s })
	if page.TotalCapped = f.TotalCap > 0 && page.Total > f.TotalCap; page.TotalCapped {
		page.Total = f.TotalCap
	}
	return page, nil
}

// cut sorts what fits a filter, newest first, and takes the page asked for.
func cut[T any](all []T, f saga.Filter, head func(*T) *saga.Saga) (page []T, more bool, total int64) {
	slices.SortFunc(all, func(a, b T) int { return -position(head(&a), head(&b).CreatedAt, head(&b).ID) })
	if f.Total {
		total = int64(len(all))
	}
	if f.After != nil {
		all = slices.DeleteFunc(all, func(s T) bool { return position(head(&s), f.After.CreatedAt, f.After.ID) >= 0 })
	}
	all = all[min(f.Offset, len(all)):]
	return all[:min(f.Limit, len(all))], len(all) > f.Limit, total
}

// position compares a saga with a place in the list's order.
func position(s *saga.Saga, at time.Time, id uuid.UUID) int {
	if c := s.CreatedAt.Compare(at); c != 0 {
		return c
	}
	return bytes.Compare(s.ID[:], id[:])
}
