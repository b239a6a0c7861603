package storetest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
)

// archiveLists lists sagas before and after they are archived: the archive then lists each of them
// as it was while it was live.
func archiveLists(f *fixture) {
	all := library(f)
	f.archive(f.everythingEnded())
	want := only(all, func(s *saga.Saga) bool { return s.State.Terminal() && !s.NeedsAttention })
	for _, tt := range filterCases(f, all) {
		f.t.Run(tt.name, func(t *testing.T) {
			f := f.in(t)
			tt.filter.Limit, tt.filter.Total = 200, true
			want := only(want, tt.keep)
			found := f.listArchived(tt.filter)
			if diff := cmp.Diff(want, heads(found.Items)); diff != "" && len(want)+len(found.Items) > 0 {
				t.Errorf("sagas (-want +got):\n%s", diff)
			}
			if found.Total != int64(len(want)) || found.More {
				t.Errorf("total %d, more %v; want %d, false", found.Total, found.More, len(want))
			}
		})
	}
	for _, size := range []int{1, 3, len(want)} {
		var offset, cursor []saga.Saga
		next := saga.Filter{ByTime: page.ByTime{Limit: size}}
		for more := true; more && len(cursor) <= len(want); {
			found := f.listArchived(next)
			more = found.More
			cursor = append(cursor, heads(found.Items)...)
			beside := f.listArchived(saga.Filter{ByTime: page.ByTime{Limit: size, Offset: len(offset)}})
			offset = append(offset, heads(beside.Items)...)
			last := cursor[len(cursor)-1]
			next.After = &page.TimeID{At: last.CreatedAt, ID: last.ID}
		}
		if !slices.Equal(ids(cursor), ids(want)) || !slices.Equal(ids(offset), ids(want)) {
			f.t.Errorf(
				"pages of %d: %d sagas by cursor, %d by offset; want the %d, in order",
				size,
				len(cursor),
				len(offset),
				len(want),
			)
		}
	}
}

func heads(archived []saga.Archived) []saga.Saga {
	var out []saga.Saga
	for _, a := range archived {
		out = append(out, a.Saga)
	}
	return out
}
