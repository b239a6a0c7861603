package dlq

import (
	"slices"
	"time"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
)

// A redrive covers the letters that exist when it is requested, like every bulk operation (package
// bulk), whether it starts immediately, at a given time, or when it is approved. With IncludeLater
// it covers the letters that exist when it starts.

// Requested completes a new redrive with what its store found.
func (r Redrive) Requested(s bulk.Seen) Redrive {
	r.CreatedAt, r.UpdatedAt, r.Expected, r.Pauses = s.At, s.At, &s.Count, Pauses{}
	if !r.IncludeLater {
		r.Snapshot = s.Snapshot
	}
	r.HaltsAbove = bulk.AtMost(r.HaltsAbove, s.Count, r.Action == BulkDiscard || r.Action == BulkDelete)
	return r
}

// Changes returns what the action itself would change in letters, whose numbers are given by status.
// Letters that it would skip are left out.
func (r *Redrive) Changes(letters map[Status]int64) dryrun.List {
	all := dryrun.Many{Of: "dead_letter"}
	for from, n := range letters {
		if !slices.Contains(r.Action.workable(r.Force), from) {
			continue
		}
		c := dryrun.Change{Member: "place", From: "live"}
		if i := slices.IndexFunc(Edges, func(e Edge) bool {
			return e.From == from && slices.Contains(actionTriggers[r.Action], e.On)
		}); i >= 0 {
			c = dryrun.Change{Member: "status", From: string(from), To: string(Edges[i].To)}
		}
		all.Add(dryrun.List{c}, n)
	}
	return all.List()
}

// CoveredBefore is the upper bound on the times of the letters that the redrive covers. If there is
// no Snapshot, because an earlier version requested the redrive, only this bound decides.
func (r *Redrive) CoveredBefore() time.Time {
	at := r.CreatedAt
	if r.IncludeLater && r.StartedAt != nil && r.Snapshot != "" {
		at = *r.StartedAt
	}
	return bulk.Before(r.Snapshot, at)
}

// Collected returns a redrive with one more page of its letters, some of which are new; last means
// that it now has all of them. If there are too many letters, it halts before any of them is
// changed.
func (r Redrive) Collected(stored int64, last bool, now time.Time) (after Redrive, halted bool) {
	r.Matched += stored
	r.Gathered = last
	if !r.overrun() {
		return r, false
	}
	return r.halted(bulk.HaltExpected, now), true
}
