package dlq

import "time"

// What a redrive covers: exactly the letters that existed when it was requested. Letters
// that arrive afterwards have not been seen by anybody, whether it starts at once, at a
// time, or when it is approved. One that is to include them says so (IncludeLater), and
// then covers what exists when it starts.
//
// Times alone cannot tell which letters existed: clocks of nodes differ, several letters
// have the same microsecond, and a letter may become visible after the request although
// its time is earlier. So a store keeps what was visible to it then (Snapshot), and compares
// letters with that.

// Seen is what a store finds when a redrive is requested: at one time, in one look.
type Seen struct {
	At       time.Time // by the clock of the store
	Snapshot Snapshot
	Letters  int64 // that it would be for
}

// ClockSlack is how far the clock of the node that stored a letter may be ahead of the
// store's. It only bounds where letters are looked for.
const ClockSlack = 10 * time.Minute

// Requested completes a new redrive with what its store saw. What cannot be undone is never done to
// more letters than were counted, whatever changed in the meantime.
func (r Redrive) Requested(s Seen) Redrive {
	r.CreatedAt, r.UpdatedAt, r.Expected, r.Pauses = s.At, s.At, &s.Letters, Pauses{}
	if !r.IncludeLater {
		r.Snapshot = s.Snapshot
	}
	if (r.Action == BulkDiscard || r.Action == BulkDelete) && (r.HaltsAbove == nil || *r.HaltsAbove > s.Letters) {
		r.HaltsAbove = &s.Letters
	}
	return r
}

// CoveredBefore bounds the times of the letters that it covers. Without a Snapshot (it was
// requested on an earlier version) the bound is all there is.
func (r *Redrive) CoveredBefore() time.Time {
	switch {
	case r.Snapshot == "":
		return r.CreatedAt
	case r.IncludeLater && r.StartedAt != nil:
		return r.StartedAt.Add(ClockSlack)
	}
	return r.CreatedAt.Add(ClockSlack)
}

// HaltExpected is why a redrive halts that found more letters than it may be for. None
// was touched then.
const HaltExpected = "expected"

// overrun reports whether it found more letters than it may be for.
func (r *Redrive) overrun() bool {
	return r.Gathered && r.HaltsAbove != nil && r.Matched > *r.HaltsAbove
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
	return r.halted(HaltExpected, now), true
}
