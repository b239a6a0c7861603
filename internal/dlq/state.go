package dlq

import "slices"

// Terminal reports whether letters with this status change only when someone acts.
func (s Status) Terminal() bool { return s == Resolved || s == Dead }

// OpenStatuses are the statuses of letters that may still need attention, which are all except
// RESOLVED. A discarded letter is not open either.
var OpenStatuses = []Status{Pending, Retrying, Dead}

// Resolution states how a letter became terminal (defects B14, B15).
type Resolution string

// Resolutions.
const (
	Redriven  Resolution = "REDRIVEN"  // RESOLVED: its target acknowledged it
	Confirmed Resolution = "CONFIRMED" // RESOLVED: its consumer confirmed that it was processed
	Bounced   Resolution = "BOUNCED"   // RESOLVED: it was redriven and came back as another letter
	Manual    Resolution = "MANUAL"    // RESOLVED: by a person, elsewhere
	Discarded Resolution = "DISCARDED" // DEAD: discarded by an operator
	Exhausted Resolution = "EXHAUSTED" // DEAD: no retries left
	Poison    Resolution = "POISON"    // DEAD: it came back too often
)

// Resolutions lists all resolutions.
var Resolutions = []Resolution{Redriven, Confirmed, Bounced, Manual, Discarded, Exhausted, Poison}

// Blocking lists the statuses of unfinished letters. If letters are Ordered, these block younger
// letters with the same key.
var Blocking = slices.DeleteFunc(slices.Clone(Statuses), Status.Terminal)

// Status returns the status of letters with this resolution.
func (r Resolution) Status() Status {
	switch r {
	case Redriven, Confirmed, Bounced, Manual:
		return Resolved
	}
	return Dead
}

// Returnable lists the resolutions of letters that may still come back as another letter.
var Returnable = []Resolution{Redriven, Confirmed}
