package sagadb_test

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// testCounts requests counts that take longer than the time they are allowed.
func testCounts(t *testing.T, l large) {
	hurried, err := postgres.Open(t.Context(), postgres.Config{DSN: l.dsn, CountFor: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	defer hurried.Close()
	all := saga.Filter{NeedsAttention: new(false), ByTime: page.ByTime{Limit: 10, Total: true, TotalCap: 1_000_000}}
	whole, err := sagadb.NewSagas(l.db).List(t.Context(), pgtest.Big, all)
	if err != nil || whole.TotalCapped || whole.Total < sagasInLargeTable*9/10 {
		t.Fatalf("with time: total %d, capped %v, %v", whole.Total, whole.TotalCapped, err)
	}
	last := whole.Items[9]
	for _, tt := range []struct {
		name   string
		change func(f *saga.Filter)
		total  int64
		capped bool
	}{
		{"at the first page: its sagas and one more", func(*saga.Filter) {}, 11, true},
		{"at a later page: all before it too", func(f *saga.Filter) { f.Offset = 30 }, 41, true},
		{"after a cursor: what lies before is not known", func(f *saga.Filter) { f.After = &page.TimeID{At: last.CreatedAt, ID: last.ID} }, 11, true},
		{"asked to the end: there is no hurry", func(f *saga.Filter) { f.TotalCap = 0 }, whole.Total, false},
		{"at the last page: nothing is counted", func(f *saga.Filter) { f.Offset = int(whole.Total) - 10 }, whole.Total, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := all
			tt.change(&f)
			found, err := sagadb.NewSagas(hurried).List(t.Context(), pgtest.Big, f)
			if err != nil || found.Total != tt.total || found.TotalCapped != tt.capped || len(found.Items) != 10 {
				t.Errorf("%d sagas, total %d, capped %v, %v; want total %d, capped %v", len(found.Items), found.Total, found.TotalCapped, err, tt.total, tt.capped)
			}
		})
	}
}
