package bulk

import (
	"time"

	"github.com/skald-saga/skald/internal/page"
)

// What an operation covers: exactly the things that existed when it was requested. What
// comes afterwards has not been seen by anybody.
//
// Times alone cannot tell what existed: clocks of nodes differ, several things have the
// same microsecond, and a thing may become visible after the request although its time is
// earlier. So a store keeps what was visible to it then (page.Snapshot), and compares
// things with that.

// Seen is what a store finds when an operation is requested: at one time, in one look.
type Seen struct {
	At       time.Time // by the clock of the store
	Snapshot page.Snapshot
	Count    int64 // of the things that it would be for
}

// Slack is how far the clock of the node that stored a thing may be ahead of the store's.
// It only bounds where things are looked for.
const Slack = 10 * time.Minute

// Before bounds the times of the things that an operation covers that was requested at a
// time. Without a snapshot (it was requested on an earlier version) the bound is all there
// is.
func Before(s page.Snapshot, at time.Time) time.Time {
	if s == "" {
		return at
	}
	return at.Add(Slack)
}

// HaltExpected is why an operation halts that found more things than it may be for.
const HaltExpected = "expected"

// AtMost returns how many things an operation may touch, if a number was asked for and so
// many were counted; nil: any. What cannot be undone (destroys) is never done to more things
// than were counted, whatever changed in the meantime.
func AtMost(asked *int64, counted int64, destroys bool) *int64 {
	if destroys && (asked == nil || *asked > counted) {
		return &counted
	}
	return asked
}

// Cover is which things an operation is for, and how many.
type Cover struct {
	Snapshot   page.Snapshot // which; "": see Before
	Expected   *int64        // how many there were when it was requested; nil: not counted
	HaltsAbove *int64        // more than this halt it; nil: none do
	HaltReason string        // why it halted
	Found      *int64        // how many it found when it halted; nil: it has not
}
