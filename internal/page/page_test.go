package page_test

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
)

func TestOneExtraItemMeansThereIsANextPage(t *testing.T) {
	for name, tt := range map[string]struct {
		read []int
		want page.Of[int]
	}{
		"nothing":      {nil, page.Of[int]{}},
		"a full page":  {[]int{1, 2}, page.Of[int]{Items: []int{1, 2}}},
		"one too many": {[]int{1, 2, 3}, page.Of[int]{Items: []int{1, 2}, More: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := page.Cut(page.Request[string]{Limit: 2}, tt.read)
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPageOfAListInMemoryByOffsetAndByCursor(t *testing.T) {
	follows := func(item *int, place int) bool { return *item > place }
	for name, tt := range map[string]struct {
		asked page.Request[int]
		want  page.Of[int]
	}{
		"all":                 {page.Request[int]{Limit: 9, Total: true}, page.Of[int]{Items: []int{1, 2, 3, 4}, Total: 4}},
		"the first":           {page.Request[int]{Limit: 2}, page.Of[int]{Items: []int{1, 2}, More: true}},
		"by offset":           {page.Request[int]{Limit: 2, Offset: 2, Total: true}, page.Of[int]{Items: []int{3, 4}, Total: 4}},
		"beyond the end":      {page.Request[int]{Limit: 2, Offset: 9}, page.Of[int]{Items: []int{}}},
		"after a place":       {page.Request[int]{Limit: 2, After: new(1), Total: true}, page.Of[int]{Items: []int{2, 3}, More: true, Total: 4}},
		"after the last item": {page.Request[int]{Limit: 2, After: new(4)}, page.Of[int]{Items: []int{}}},
	} {
		if diff := gocmp.Diff(tt.want, page.In(tt.asked, []int{1, 2, 3, 4}, follows)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTotalIsCappedOnlyAboveTheCap(t *testing.T) {
	for name, tt := range map[string]struct {
		total, most, want int64
		capped            bool
	}{
		"no bound": {1 << 40, 0, 1 << 40, false}, "below": {9, 10, 9, false}, "at it": {10, 10, 10, false}, "above": {11, 10, 10, true},
	} {
		p := page.Of[int]{Total: tt.total}
		if p.CapTotal(tt.most); p.Total != tt.want || p.TotalCapped != tt.capped {
			t.Errorf("%s: total %d, capped %v; want %d, %v", name, p.Total, p.TotalCapped, tt.want, tt.capped)
		}
	}
}

func TestPositionsAreOrderedByTimeAndThenByID(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	places := []page.TimeID{
		{noon, uuid.UUID{2}}, {noon, uuid.UUID{2, 1}}, {noon, uuid.UUID{3}}, {noon.Add(time.Microsecond), uuid.UUID{1}},
	}
	for i, a := range places {
		for j, b := range places {
			if got, want := a.Compare(b), min(max(i-j, -1), 1); got != want {
				t.Errorf("place %d against place %d: %d; want %d", i, j, got, want)
			}
		}
	}
}
