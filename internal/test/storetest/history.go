package storetest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/saga"
)

var histories = []contract{
	{"pages of any size make up a saga's history, oldest or newest first", historyPages},
	{"every filter selects exactly its events of the saga", historyFilters},
	{"a foreign or unknown saga has none", historyForeign},
}

func (f *fixture) history(id uuid.UUID, filter trail.EventFilter, newestFirst bool, size int) []trail.StoredEvent {
	f.t.Helper()
	all, after := []trail.StoredEvent{}, int64(0)
	for {
		events, more, err := f.Trail.Events(f.t.Context(), f.tenant.ID, id, filter, newestFirst, after, size)
		if err != nil || len(events) > size || more && len(events) < size {
			f.t.Fatalf("%d events in a page of %d, more %v, %v", len(events), size, more, err)
		}
		all = append(all, events...)
		if !more {
			return all
		}
		after = events[size-1].ID
	}
}

func historyPages(f *fixture) {
	for id, events := range told(f) {
		for _, size := range []int{1, 2, len(events), 100} {
			got := f.history(id, trail.EventFilter{}, false, size)
			var plain []saga.AuditEvent
			for _, e := range got {
				plain = append(plain, e.AuditEvent)
			}
			if diff := cmp.Diff(events, plain, sameJSON); diff != "" {
				f.t.Errorf("pages of %d (-committed +read):\n%s", size, diff)
			}
			back := f.history(id, trail.EventFilter{}, true, size)
			slices.Reverse(back)
			if diff := cmp.Diff(got, back); diff != "" {
				f.t.Errorf("pages of %d, newest first (-want +got):\n%s", size, diff)
			}
		}
	}
}

func historyFilters(f *fixture) {
	told(f)
	all := f.feed(trail.EventFilter{}, 1000)
	for name, tt := range eventFilters(all) {
		f.t.Run(name, func(t *testing.T) {
			f := f.in(t)
			seen := map[uuid.UUID]bool{}
			for _, e := range all {
				if seen[e.SagaID] {
					continue
				}
				seen[e.SagaID] = true
				want := slices.DeleteFunc(
					slices.Clone(all),
					func(o trail.StoredEvent) bool { return o.SagaID != e.SagaID || !tt.keep(&o) },
				)
				if diff := cmp.Diff(positions(want), positions(f.history(e.SagaID, tt.filter, false, 4))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func historyForeign(f *fixture) {
	run := f.stored(f.unowned())[0]
	neighbour := begin(f.t, f.Env)
	for _, id := range []uuid.UUID{run.ID, newID()} {
		if got := neighbour.history(id, trail.EventFilter{}, false, 10); len(got) != 0 {
			f.t.Errorf("another tenant sees %d events of the saga", len(got))
		}
	}
}
