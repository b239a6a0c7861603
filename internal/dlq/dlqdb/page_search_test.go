package dlqdb_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// testEverySearch checks that every method finds the same page and the right total.
func testEverySearch(t *testing.T, b pgtest.LetterStore, rare, like *dlq.Letter) {
	const long, short = time.Minute, time.Millisecond
	reach := func(q dlq.Query, inOrder, gathered time.Duration) ([]string, int64) {
		t.Helper()
		letters, total, err := dlqdb.FindLetters(t.Context(), b.Letters, b.Tenant, q, inOrder, gathered)
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		return idsOf(letters), total
	}
	gathered := 0
	for _, p := range letterPurposes(rare, like) {
		for _, q := range []dlq.Query{
			{ByTime: page.ByTime{Limit: 20}}, {ByTime: page.ByTime{Limit: 20}, Oldest: true}, {ByTime: page.ByTime{Limit: 20, Offset: 30}},
			{ByTime: page.ByTime{Limit: 20, After: &page.TimeID{At: like.CreatedAt.Add(-20 * 24 * time.Hour), ID: like.ID}}},
		} {
			if q.Filter = p.Filter; q.Topic == "" {
				q.Topic = "orders.made"
			}
			want, total := reach(q, long, long)
			if total != -1 {
				t.Errorf("%s: the order of the list tells of a total of %d", p.name, total)
			}
			// Some pages are found within a millisecond; the others must be found by one of the
			// methods.
			for _, then := range []time.Duration{short, long} {
				got, total := reach(q, short, then)
				if !slices.Equal(got, want) {
					t.Errorf("%s, %+v, gathered for %s: %d letters, want %d", p.name, q, then, len(got), len(want))
				}
				if total < 0 {
					continue
				}
				gathered++
				all, err := b.List(t.Context(), b.Tenant, dlq.Query{Filter: q.Filter, ByTime: page.ByTime{Limit: 1, Total: true}})
				if err != nil || q.After != nil || total != all.Total {
					t.Errorf("%s, %+v: gathered a total of %d of %d, %v", p.name, q, total, all.Total, err)
				}
			}
		}
	}
	if gathered == 0 {
		t.Error("nothing was gathered")
	}
	nothing := dlq.Query{ByTime: page.ByTime{Limit: 20}, Filter: dlq.Filter{Topic: "orders.made", ErrorType: "Rare"}}
	if letters, total, ok, err := dlqdb.GatherLetters(t.Context(), b.Letters, b.Tenant, nothing,
		math.Inf(1)); len(letters) > 0 || total != 0 || !ok || err != nil {
		t.Errorf("gathered what there is not: %v of %d, %v, %v", idsOf(letters), total, ok, err)
	}
	if _, _, ok, err := dlqdb.GatherLetters(t.Context(), b.Letters, b.Tenant, nothing, 1); ok || err != nil {
		t.Errorf("gathered at any cost: %v, %v", ok, err)
	}
	many := dlq.Query{ByTime: page.ByTime{Limit: 20}, Filter: dlq.Filter{Classes: dlq.Classes}}
	if _, _, ok, err := dlqdb.GatherLetters(t.Context(), b.Letters, b.Tenant, many, math.Inf(1)); ok || err != nil {
		t.Errorf("gathered nearly all there are: %v, %v", ok, err)
	}
}
