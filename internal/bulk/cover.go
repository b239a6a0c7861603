package bulk

import (
	"time"

	"github.com/skald-saga/skald/internal/page"
)

// An operation covers exactly the items that existed when it was requested, because its requester
// has not seen later ones.
//
// Times alone do not show which items existed: the clocks of nodes differ, several items may have
// the same microsecond, and an item may become visible after the request although its time is
// earlier. Therefore a store keeps its snapshot at the time of the request (page.Snapshot) and
// compares items with it.

// Seen contains what a store observes when an operation is requested, all at the same time.
type Seen struct {
	At       time.Time // by the clock of the store
	Snapshot page.Snapshot
	Count    int64 // number of items that it would cover
}

// Slack is how far the clock of the node that stored an item may be ahead of the store's clock. It
// only limits where items are searched.
const Slack = 10 * time.Minute

// Before returns the upper limit for the times of the items that an operation covers if it was
// requested at the given time. Without a snapshot (in operations of earlier versions) it is the
// only limit.
func Before(s page.Snapshot, at time.Time) time.Time {
	if s == "" {
		return at
	}
	return at.Add(Slack)
}

// HaltExpected is the reason for halting an operation that finds more items than it may cover.
const HaltExpected = "expected"

// AtMost returns how many items an operation may change, given the requested limit and the count;
// nil means any number. An irreversible operation (destroys) never changes more items than were
// counted, whatever has changed since then.
func AtMost(asked *int64, counted int64, destroys bool) *int64 {
	if destroys && (asked == nil || *asked > counted) {
		return &counted
	}
	return asked
}

// Cover describes which items an operation covers and how many.
type Cover struct {
	Snapshot   page.Snapshot // which items; "": see Before
	Expected   *int64        // how many items there were at the request; nil: not counted
	HaltsAbove *int64        // the operation halts if there are more; nil: no limit
	HaltReason string        // why it halted
	Found      *int64        // number of items found when it halted; nil: it has not halted
}
