package dlq

import (
	"time"

	"github.com/skald-saga/skald/internal/bulk"
)

// What a redrive covers is what any operation on many things does (package bulk), whether it
// starts at once, at a time, or when it is approved. One that is to include letters that
// come later says so (IncludeLater), and then covers what exists when it starts.

// Requested completes a new redrive with what its store saw.
func (r Redrive) Requested(s bulk.Seen) Redrive {
	r.CreatedAt, r.UpdatedAt, r.Expected, r.Pauses = s.At, s.At, &s.Count, Pauses{}
	if !r.IncludeLater {
		r.Snapshot = s.Snapshot
	}
	r.HaltsAbove = bulk.AtMost(r.HaltsAbove, s.Count, r.Action == BulkDiscard || r.Action == BulkDelete)
	return r
}

// CoveredBefore bounds the times of the letters that it covers. Without a Snapshot (it was
// requested on an earlier version) the bound is all there is.
func (r *Redrive) CoveredBefore() time.Time {
	at := r.CreatedAt
	if r.IncludeLater && r.StartedAt != nil && r.Snapshot != "" {
		at = *r.StartedAt
	}
	return bulk.Before(r.Snapshot, at)
}

// Collected returns a redrive with one more page of its letters, of which some were not
// among them before; last: it has all now. It halts before the first of too many letters
// is touched.
func (r Redrive) Collected(stored int64, last bool, now time.Time) (after Redrive, halted bool) {
	r.Matched += stored
	r.Gathered = last
	if !r.overrun() {
		return r, false
	}
	return r.halted(bulk.HaltExpected, now), true
}
