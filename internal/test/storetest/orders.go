package storetest

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// listOrders reads each list page by page. Between two pages, a saga is added and one of those
// added earlier ends; every order has positions for such sagas both before and after the page.
func listOrders(f *fixture) {
	all := library(f)
	added := map[uuid.UUID]bool{}
	disturb := func() {
		n := len(added)
		run := f.into([]saga.State{saga.Running, saga.Completed, saga.Failed}[n%3], func(s *saga.NewSaga) {
			s.BusinessKey, s.CorrelationID = new(fmt.Sprintf("%c %d", 'a'+n%26, n)), new([]string{"c", "", "z", "№"}[n%4]+"c%")
			s.CreatedAt = all[n%len(all)].CreatedAt
		})
		added[run.ID] = true
	}
	filters := map[string]saga.Filter{"all": {}, "by code": {ErrorCode: "http_409"},
		"ended": {EndedFrom: all[len(all)-1].CreatedAt}, "changed": {UpdatedFrom: all[len(all)-1].CreatedAt},
		"by key": {KeyPrefix: "b"}, "by correlation": {CorrelationPrefix: "c"}}
	for name, filter := range filters {
		for _, sort := range []saga.Sort{saga.ByCreation, saga.ByEnd, saga.ByBusinessKey, saga.ByCorrelation} {
			for _, ascending := range []bool{false, true} {
				filter.Sort, filter.Ascending, filter.After = sort, ascending, nil
				filter.Limit, filter.Total = 200, true
				before := f.list(filter)
				expected := only(before.Items, func(s *saga.Saga) bool { return !added[s.ID] })
				want := sorted(all, &filter)
				if !slices.Equal(ids(want), ids(expected)) || before.Total != int64(len(before.Items)) {
					f.t.Errorf("%s by %q, ascending %t: %d sagas of %d, want %d in another order", name, sort, ascending,
						len(expected), before.Total, len(want))
				}
				var got []saga.Saga
				filter.Limit, filter.Total = 5, false
				for more := true; more; {
					found := f.list(filter)
					got, more = append(got, found.Items...), found.More
					if more {
						place, _ := sort.Place(&found.Items[4])
						filter.After, filter.AfterKey = &place.TimeID, place.Key
						if len(added) < 20 {
							disturb()
						}
					}
				}
				got = only(got, func(s *saga.Saga) bool { return !added[s.ID] })
				if !slices.Equal(ids(expected), ids(got)) {
					f.t.Errorf("%s by %q, ascending %t, by cursor: %d sagas, want %d", name, sort, ascending, len(got),
						len(expected))
				}
			}
		}
	}
}

// sorted returns the sagas that a filter selects, in the filter's order.
func sorted(all []saga.Saga, f *saga.Filter) []saga.Saga {
	found := only(all, f.Matches)
	slices.SortFunc(found, func(a, b saga.Saga) int {
		x, _ := f.Sort.Place(&a)
		y, _ := f.Sort.Place(&b)
		if f.Ascending {
			return x.Compare(y)
		}
		return y.Compare(x)
	})
	return found
}
