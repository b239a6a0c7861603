package memstore

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
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
		if s.Tenant.ID == tenant && matches(s, f) {
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

func matches(s *saga.Saga, f saga.Filter) bool {
	is := func(want string, have *string) bool { return want == "" || have != nil && *have == want }
	return is(f.WorkflowName, &s.WorkflowName) && is(f.InitiatedBy, &s.InitiatedBy) &&
		is(f.CorrelationID, s.CorrelationID) && is(f.TraceID, s.TraceID) && is(f.BusinessKey, s.BusinessKey) &&
		(f.States == nil || slices.Contains(f.States, s.State)) &&
		(f.NeedsAttention == nil || *f.NeedsAttention == s.NeedsAttention) &&
		(f.Metadata == nil || s.Metadata != nil && contains(decode(s.Metadata), decode(f.Metadata))) &&
		within(s.CreatedAt, f.CreatedFrom, f.CreatedTo) && within(s.UpdatedAt, f.UpdatedFrom, f.UpdatedTo)
}

func within(t, from, to time.Time) bool {
	return (from.IsZero() || !t.Before(from)) && (to.IsZero() || t.Before(to))
}

func decode(j json.RawMessage) any {
	var v any
	_ = json.Unmarshal(j, &v) // canonical JSON: it was checked at the edge
	return v
}

// contains is jsonb's @> operator.
func contains(have, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range w {
			if hv, there := h[k]; !there || !contains(hv, v) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok {
			return false
		}
		for _, v := range w {
			if !slices.ContainsFunc(h, func(hv any) bool { return contains(hv, v) }) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(have, want)
}
