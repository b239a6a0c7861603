package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/skald-saga/skald/examples/order/ledger"
)

// putBack moves the calls of stopped nodes to where they belong. A node can be stopped between its
// last check of the clock and the sending of a call. It then sends the call when it continues,
// seconds later, with a fence that is no longer valid (invariant I6 permits one such call). The
// call counts as received when it was decided, that is, before the first call of the next owner.
// Its late arrival must do no harm, which the participants' effects show.
//
// putBack takes the entries of one ledger in any order. It returns them in order of arrival with
// new numbers, and the number of entries moved.
func putBack(entries []ledger.Entry, stops []interval) ([]ledger.Entry, int) {
	calls := slices.Clone(entries)
	slices.SortStableFunc(calls, func(a, b ledger.Entry) int { return int(a.Seq - b.Seq) })
	type life struct {
		saga  string
		fence int64
		stop  int
	}
	newest := map[string]int64{}
	used := map[life]bool{}
	var out, late []ledger.Entry
	for _, e := range calls {
		if at := afterStop(e.Time, stops); e.Fence < newest[e.Saga] && at >= 0 && !used[life{e.Saga, e.Fence, at}] {
			used[life{e.Saga, e.Fence, at}] = true
			late = append(late, e)
			continue
		}
		newest[e.Saga] = max(newest[e.Saga], e.Fence)
		out = append(out, e)
	}
	for _, e := range late {
		i := slices.IndexFunc(out, func(o ledger.Entry) bool { return o.Saga == e.Saga && o.Fence > e.Fence })
		e.Time = out[i].Time
		out = slices.Insert(out, i, e)
	}
	for i := range out {
		out[i].Seq = int64(i + 1)
	}
	return out, len(late)
}

// afterStop returns the index of the stop that had just ended at a given time, or -1 if there is
// none.
func afterStop(at time.Time, stops []interval) int {
	return slices.IndexFunc(
		stops,
		func(s interval) bool { return at.After(s.to.Add(-clumsy/10)) && at.Before(s.to.Add(clumsy)) },
	)
}

func TestOneCallOfAStoppedNodePerSagaIsPutBack(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	stops := []interval{{t0, t0.Add(3 * time.Second)}}
	entry := func(seq int64, saga string, fence int64, attempt int, after time.Duration) ledger.Entry {
		return ledger.Entry{Seq: seq, Saga: saga, Fence: fence, Attempt: attempt, Time: t0.Add(after)}
	}
	for _, tt := range []struct {
		name     string
		attempts []int // the expected order of saga a
		moved    int
		entries  []ledger.Entry
	}{
		{"a call under the old fence right after the stop goes before the new owner's", []int{1, 2, 3, 4}, 1, []ledger.Entry{
			entry(1, "a", 1, 1, -time.Second), entry(2, "a", 2, 3, 2*time.Second), entry(3, "a", 2, 4, 3*time.Second),
			entry(4, "a", 1, 2, 3100*time.Millisecond)}},
		{"a second one of the same owner stays", []int{2, 3, 4}, 1, []ledger.Entry{
			entry(1, "a", 2, 3, 2*time.Second), entry(2, "a", 1, 2, 3100*time.Millisecond),
			entry(3, "a", 1, 4, 3200*time.Millisecond)}},
		{"one long after the stop stays", []int{3, 2}, 0, []ledger.Entry{
			entry(1, "a", 2, 3, 2*time.Second), entry(2, "a", 1, 2, 9*time.Second)}},
		{"one under the valid fence stays", []int{1, 2}, 0, []ledger.Entry{
			entry(1, "a", 1, 1, 2*time.Second), entry(2, "b", 7, 9, 2*time.Second), entry(3, "a", 1, 2, 3100*time.Millisecond)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, moved := putBack(tt.entries, stops)
			var attempts []int
			for i, e := range out {
				if e.Seq != int64(i+1) {
					t.Errorf("entry %d has seq %d", i, e.Seq)
				}
				if e.Saga == "a" {
					attempts = append(attempts, e.Attempt)
				}
			}
			if moved != tt.moved || !slices.Equal(attempts, tt.attempts) {
				t.Errorf("moved %d, attempts in order %v; want %d, %v", moved, attempts, tt.moved, tt.attempts)
			}
		})
	}
}
