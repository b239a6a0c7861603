// Package dlq contains the rules of dead letters. A Kafka record, a failed
// compensation, an exhausted job run and an undeliverable webhook all become dead
// letters with the same life cycle (seed 3, section ステータス遷移; requirements/dlq.md). The
// package is pure: it stores nothing, and time, ids and randomness are arguments.
//
// Files, each on top of those before it: machine, state, letter, problems, normalise, group,
// policy, event, apply, filter, redrive, headers_values, drive, headers_causes,
// headers_families, fingerprint, patch, new, headers, headers_own, headers_left,
// redrive_items, redrive_state, routes, inflow, redrive_judge, redrive_new, audited, damage,
// edited, revision, headers_http, headers_redrive, headers_sizes, imported, kafka_position,
// policy_check, redrive_choose, redrive_cover, redrive_pause, source_outcome, store.
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
	Dead     Status = "DEAD" // needs human attention
)

// Statuses lists all statuses.
var Statuses = []Status{Pending, Retrying, Resolved, Dead}

// Trigger is what causes a transition of a letter.
type Trigger string

// Triggers.
const (
	Claimed       Trigger = "a retry began"
	ForcedClaim   Trigger = "a forced retry began"
	Acked         Trigger = "the target acknowledged it"
	RetryFailed   Trigger = "the retry failed, and another one may follow"
	RetryWithdraw Trigger = "the retry was withdrawn"
	LastFailed    Trigger = "the last retry failed"
	CameBack      Trigger = "it came back as another letter after a redrive"
	Confirm       Trigger = "its consumer confirmed that it was processed"
	Refute        Trigger = "its consumer reported that it failed again"
	Requeue       Trigger = "an operator requeued it"
	Discard       Trigger = "an operator discarded it"
	Resolve       Trigger = "an operator resolved it elsewhere"
	Restore       Trigger = "an operator restored it from the archive"
	SourceGoesOn  Trigger = "its saga or delivery is being retried"
	SourceDone    Trigger = "its saga or delivery succeeded"
	SourceGaveUp  Trigger = "its saga or delivery gave up again"
	SourceSkipped Trigger = "its delivery was skipped"
	SourceGone    Trigger = "its webhook was deleted"
)

// Edge is a legal transition.
type Edge struct {
	From, To Status
	On       Trigger
}

// Edges is the complete transition table of letters.
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
	{Resolved, Dead, Refute}, // no retries left
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

// edge reports whether the table has a transition.
func edge(from, to Status, on Trigger) bool { return slices.Contains(Edges, Edge{from, to, on}) }

// IllegalEdgeError is a transition that Edges does not contain. It is the cause of a Conflict
// returned by Apply.
type IllegalEdgeError struct {
	From, To Status // To is "" if there is no transition on this trigger
	On       Trigger
}

func (e *IllegalEdgeError) Error() string {
	return fmt.Sprintf("the transition table has no transition from %s to %q for the trigger %q", e.From, e.To, e.On)
}

// Apply decides how e changes l, without modifying l. It covers every change of a single letter
// after its arrival; statements that change many rows at once (claims, bounces, ends of webhooks)
// take their conditions from the same table. The fault is a Conflict if the status does not allow
// e, and may be Invalid for an edit; there are no other errors.
func Apply(l Letter, e Event, m Moment) (Change, error) {
	d, refusal := newDecision(&l, m), error(nil)
	switch e := e.(type) {
	// Retries.
	case DriveEnded:
		d.driveEnded(e)
	case SourceReported:
		d.sourceReported(e)
	case ConsumerReported:
		refusal = d.consumerReported(e)
	// Operators.
	case EditRequested:
		refusal = d.edit(e.Edit)
	case RequeueRequested:
		refusal = d.requeue(e)
	case DiscardRequested:
		refusal = d.discard()
	case ResolveRequested:
		refusal = d.resolve()
	case RestoreRequested:
		refusal = d.restore()
	}
	if refusal == nil && d.illegal != nil {
		refusal = l.Conflict("changed in this way").Because(d.illegal)
	}
	if refusal != nil {
		return Change{Before: d.Before, After: l}, refusal
	}
	return d.done(), nil
}
