package dlq

import "slices"

// Terminal reports whether a letter of this status never changes on its own.
func (s Status) Terminal() bool { return s == Resolved || s == Dead }

// OpenStatuses are the statuses of letters that may still need attention: those that are
// not RESOLVED. A letter that was discarded is not open either.
var OpenStatuses = []Status{Pending, Retrying, Dead}

// Resolution says how a letter became terminal (defects B14, B15).
type Resolution string

// Resolutions.
const (
	Redriven  Resolution = "REDRIVEN"  // RESOLVED: its target acknowledged it
	Confirmed Resolution = "CONFIRMED" // RESOLVED: its consumer confirmed that it was processed
	Bounced   Resolution = "BOUNCED"   // RESOLVED: it was redriven and came back as another letter
	Manual    Resolution = "MANUAL"    // RESOLVED: by hand, elsewhere
	Discarded Resolution = "DISCARDED" // DEAD: discarded by an operator
	Exhausted Resolution = "EXHAUSTED" // DEAD: no retry left
	Poison    Resolution = "POISON"    // DEAD: it came back too often
)

// Resolutions is every resolution.
var Resolutions = []Resolution{Redriven, Confirmed, Bounced, Manual, Discarded, Exhausted, Poison}

// Blocking lists the statuses of letters that block younger ones of the same key, where
// letters are Ordered: those that are not finished.
var Blocking = slices.DeleteFunc(slices.Clone(Statuses), Status.Terminal)

// Status returns the status of letters with this resolution.
func (r Resolution) Status() Status {
	switch r {
	case Redriven, Confirmed, Bounced, Manual:
		return Resolved
	}
	return Dead
}

// Returnable lists the resolutions of letters that may still come back as another one.
var Returnable = []Resolution{Redriven, Confirmed}
