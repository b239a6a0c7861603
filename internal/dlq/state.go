package dlq

import (
	"fmt"
	"slices"
)

// Status is the state of a letter (seed 3, section ステータス遷移).
type Status string

// Statuses, in seed 3's words.
const (
	Pending  Status = "PENDING"  // waits for a retry
	Retrying Status = "RETRYING" // being retried, until its lease expires
	Resolved Status = "RESOLVED"
	Dead     Status = "DEAD" // needs a person
)

// Statuses is every status.
var Statuses = []Status{Pending, Retrying, Resolved, Dead}

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
	Confirmed Resolution = "CONFIRMED" // RESOLVED: it was seen to be processed
	Bounced   Resolution = "BOUNCED"   // RESOLVED: it was redriven and came back as another letter
	Manual    Resolution = "MANUAL"    // RESOLVED: by hand, elsewhere
	Discarded Resolution = "DISCARDED" // DEAD: by hand, not worth it
	Exhausted Resolution = "EXHAUSTED" // DEAD: no retry left
	Poison    Resolution = "POISON"    // DEAD: it came back too often
)

// Resolutions is every resolution.
var Resolutions = []Resolution{Redriven, Confirmed, Bounced, Manual, Discarded, Exhausted, Poison}

// Trigger is what moves a letter.
type Trigger string

// Triggers.
const (
	Claimed       Trigger = "a retry begins"
	ForcedClaim   Trigger = "a forced retry begins"
	Acked         Trigger = "the target has acknowledged it"
	RetryFailed   Trigger = "the retry failed, another may follow"
	RetryWithdraw Trigger = "the retry was not made"
	LastFailed    Trigger = "the last retry failed"
	CameBack      Trigger = "its redrive came back as another letter"
	Confirm       Trigger = "its consumer confirms that it was processed"
	Refute        Trigger = "its consumer reports that it failed again"
	Requeue       Trigger = "an operator requeues it"
	Discard       Trigger = "an operator discards it"
	Resolve       Trigger = "an operator resolved it elsewhere"
	Restore       Trigger = "an operator restores it from the archive"
	SourceGoesOn  Trigger = "its saga or delivery is being retried"
	SourceDone    Trigger = "its saga or delivery succeeded"
	SourceGaveUp  Trigger = "its saga or delivery gave up again"
	SourceSkipped Trigger = "its delivery was skipped"
	SourceGone    Trigger = "its webhook was deleted"
)

// Edge is one legal move.
type Edge struct {
	From, To Status
	On       Trigger
}

// Edges is the complete transition table.
var Edges = []Edge{
	{Pending, Retrying, Claimed},
	{Retrying, Resolved, Acked},
	{Retrying, Pending, RetryFailed},
	{Retrying, Pending, RetryWithdraw},
	{Retrying, Dead, LastFailed},
	{Dead, Retrying, ForcedClaim},
	{Retrying, Dead, RetryWithdraw},
	{Resolved, Resolved, CameBack},
	{Resolved, Resolved, Confirm},
	{Resolved, Pending, Refute},
	{Resolved, Dead, Refute}, // no retry left
	{Dead, Pending, Requeue},
	{Pending, Dead, Discard},
	{Pending, Resolved, Resolve},
	{Dead, Resolved, Resolve},
	{Resolved, Pending, Restore},
	{Dead, Pending, Restore},
	// Letters of sagas and webhooks (SourceUpdate).
	{Pending, Retrying, SourceGoesOn},
	{Dead, Retrying, SourceGoesOn},
	{Pending, Resolved, SourceDone},
	{Retrying, Resolved, SourceDone},
	{Dead, Resolved, SourceDone},
	{Retrying, Pending, SourceGaveUp},
	{Retrying, Dead, SourceGaveUp},
	{Resolved, Pending, SourceGaveUp},
	{Resolved, Dead, SourceGaveUp},
	{Retrying, Dead, SourceSkipped},
	{Pending, Dead, SourceGone},
	{Retrying, Dead, SourceGone},
}

// CanMove reports whether the table has a transition from a status on a trigger.
func CanMove(from Status, on Trigger) bool {
	return slices.ContainsFunc(Edges, func(e Edge) bool { return e.From == from && e.On == on })
}

// From lists the statuses that have a transition on any of these triggers. Stores
// derive from it the conditions of statements that move many letters at once.
func From(on ...Trigger) (from []Status) {
	for _, s := range Statuses {
		if slices.ContainsFunc(on, func(t Trigger) bool { return CanMove(s, t) }) {
			from = append(from, s)
		}
	}
	return from
}

// Blocking lists the statuses of letters that keep younger ones of their key waiting,
// where letters are Ordered: those that are not through.
var Blocking = slices.DeleteFunc(slices.Clone(Statuses), Status.Terminal)

// edge reports whether the table has a move.
func edge(from, to Status, on Trigger) bool { return slices.Contains(Edges, Edge{from, to, on}) }

// moved returns to. A move that is not in the table is a bug in the rules, which the
// test of all pairs finds; it must never reach a store.
func moved(from, to Status, on Trigger) Status {
	if !edge(from, to, on) {
		panic(fmt.Sprintf("dlq: %s to %s because %s is not in the transition table", from, to, on))
	}
	return to
}

// Status returns the status of letters with this resolution.
func (r Resolution) Status() Status {
	switch r {
	case Redriven, Confirmed, Bounced, Manual:
		return Resolved
	}
	return Dead
}

// Returnable lists how a letter has ended that may still come back as another one.
var Returnable = []Resolution{Redriven, Confirmed}
