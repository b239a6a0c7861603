// Package sagabulk contains the rules of bulk operations on sagas: one operator action, applied to
// every saga of a list or a filter. The rules decide which sagas are selected, how fast they are
// processed, and which event each one gets. Whether a saga accepts the event is decided only by the
// rules of sagas.
//
// Files, each on top of those before it: item, sagabulk, store.
package sagabulk

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/saga"
)

// Bulk applies one action to many sagas.
type Bulk struct {
	bulk.Head
	Action saga.Verb
	// Asked is the filter as the client sent it, and Filter is its interpretation. Both are nil for
	// a bulk of IDs.
	Asked  json.RawMessage
	Filter *saga.Filter
	IDs    []uuid.UUID // in order, without duplicates
	Before time.Time   // the time of the request
	Rate   float64     // sagas per second; 0 means no limit
	// PacedAt is the time up to which the rate has been used.
	PacedAt time.Time
	// ExpectedCapped means that there may have been more than Expected, because the bulk was
	// requested on an earlier version of Skald.
	ExpectedCapped bool

	Steps   int64        // grows with every step; a step is stored once
	Cursor  *page.TimeID // position in a filter; nil means that no saga was looked at
	Matched int64        // sagas processed
	Done    int64
	Skipped int64
}

// Kind identifies this kind of bulk operation.
var Kind = bulk.Kind{Name: "bulk operation", Conflict: CodeConflict}

// Moved applies an operator's verb. Fault: Conflict.
func (b *Bulk) Moved(on bulk.Verb, at time.Time) (changed bool, err error) {
	err = b.Head.Moved(Kind, on, at)
	return err == nil, err
}

// Requested completes a new bulk with what its store found. A bulk whose action cannot be reverted
// halts if it finds more sagas than were counted.
func (b *Bulk) Requested(s bulk.Seen) {
	b.Before = s.At
	b.Head.Requested(s, b.Action == saga.Cancel || b.Action == saga.CompensateVerb)
}

// SetRate changes how many sagas are processed per second; 0 means no limit. Fault: Conflict if the
// bulk has ended.
func (b *Bulk) SetRate(rate float64, at time.Time) error {
	if err := b.MustBe(Kind, "changed", bulk.Running, bulk.Halted); err != nil {
		return err
	}
	b.Rate, b.PacedAt = rate, at
	b.Version++
	return nil
}

// Room returns how many sagas may be processed now, at most limit. Unused allowance is kept for a
// second, or for the time that one saga takes at this rate if that is longer.
func (b *Bulk) Room(now time.Time, limit int) int {
	if b.Rate == 0 {
		return limit
	}
	return int(min(float64(limit), math.Floor(now.Sub(b.pacedFrom(now)).Seconds()*b.Rate+1e-6)))
}

func (b *Bulk) pacedFrom(now time.Time) time.Time {
	kept := max(time.Second, b.interval(1))
	if earliest := now.Add(-kept); b.PacedAt.Before(earliest) {
		return earliest
	}
	return b.PacedAt
}

func (b *Bulk) interval(sagas int) time.Duration {
	return time.Duration(float64(sagas) / b.Rate * float64(time.Second))
}

// Pace makes the first saga due immediately.
func (b *Bulk) Pace() {
	if b.PacedAt = b.CreatedAt; b.Rate > 0 {
		b.PacedAt = b.CreatedAt.Add(-b.interval(1))
	}
}

// Scope selects the remaining sagas of a bulk with a filter: those that existed when it was
// requested and that come after the last one it has looked at.
func (b *Bulk) Scope(limit int) saga.Filter {
	f, before := *b.Filter, bulk.Before(b.Snapshot, b.Before)
	if f.CreatedTo.IsZero() || f.CreatedTo.After(before) {
		f.CreatedTo = before
	}
	f.ByTime = page.ByTime{Limit: limit, After: b.Cursor, Snapshot: b.Snapshot}
	return f
}

// NextIDs returns the next ids of a bulk of ids. more reports whether others follow.
func (b *Bulk) NextIDs(limit int) (ids []uuid.UUID, more bool) {
	left := b.IDs[min(b.Matched, int64(len(b.IDs))):]
	return left[:min(limit, len(left))], limit < len(left)
}

// Advance records the items of a step. cursor is the last saga of a filter that was looked at. The
// bulk ends when there are no more sagas.
func (b *Bulk) Advance(items []Item, cursor *page.TimeID, more bool, now time.Time) {
	if b.Rate > 0 {
		b.PacedAt = b.pacedFrom(now).Add(b.interval(len(items)))
	}
	b.Steps++
	for i := range items {
		b.Matched++
		items[i].Position = b.Matched
		if items[i].Outcome == Done {
			b.Done++
		} else {
			b.Skipped++
		}
	}
	if cursor != nil {
		b.Cursor = cursor
	}
	if !more {
		b.End(bulk.Completed, now)
	}
}

// action is an action that can be applied to many sagas.
type action struct {
	verb saga.Verb
	// states that can accept the action; a filter selects among them
	states []saga.State
	event  func(b *Bulk, logs []saga.StepLog) saga.Event
}

var (
	forward = []saga.State{saga.Pending, saga.Running, saga.StepCompleted}
	live    = slices.DeleteFunc(slices.Clone(saga.States), saga.State.Terminal)
)

// actions is the table of bulk actions.
var actions = []action{
	{saga.RetryVerb, append(slices.Clone(live), saga.Failed), func(b *Bulk, logs []saga.StepLog) saga.Event {
		return saga.RetryRequested{By: b.Actor, Reason: b.Reason, Logs: logs}
	}},
	{saga.Cancel, forward, func(b *Bulk, _ []saga.StepLog) saga.Event {
		return saga.CancelRequested{By: b.Actor, Reason: b.Reason}
	}},
	{saga.CompensateVerb, forward, func(b *Bulk, _ []saga.StepLog) saga.Event {
		return saga.CompensateRequested{By: b.Actor, Reason: b.Reason}
	}},
	{saga.ResumeCompensation, []saga.State{saga.Failed}, func(b *Bulk, _ []saga.StepLog) saga.Event {
		return saga.ResumeRequested{By: b.Actor, Reason: b.Reason}
	}},
	{saga.SuspendVerb, live, func(b *Bulk, _ []saga.StepLog) saga.Event {
		return saga.SuspendRequested{By: b.Actor, Reason: b.Reason}
	}},
	{saga.ResumeVerb, live, func(b *Bulk, _ []saga.StepLog) saga.Event {
		return saga.UnsuspendRequested{By: b.Actor, Reason: b.Reason}
	}},
	{saga.Acknowledge, saga.States, func(b *Bulk, _ []saga.StepLog) saga.Event {
		return saga.Acknowledged{By: b.Actor, Reason: b.Reason}
	}},
}

// Actions lists every bulk action.
func Actions() (all []saga.Verb) {
	for i := range actions {
		all = append(all, actions[i].verb)
	}
	return all
}

func (b *Bulk) action() *action {
	return &actions[slices.IndexFunc(actions, func(a action) bool { return a.verb == b.Action })]
}

// Check completes a new bulk whose action is one of Actions: it sorts ids, and narrows a filter to
// the sagas that can accept the action. Fault: Invalid (CodeInvalid) if no saga can match.
func Check(b *Bulk) error {
	if b.Filter == nil {
		slices.SortFunc(b.IDs, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		b.IDs = slices.Compact(b.IDs)
		return nil
	}
	f, can := b.Filter, b.action().states
	if b.Action == saga.Acknowledge {
		if f.NeedsAttention != nil && !*f.NeedsAttention {
			return impossible("/filter/needs_attention", "acknowledge applies only to sagas that need attention")
		}
		f.NeedsAttention = new(true)
		return nil
	}
	if f.States == nil {
		f.States = slices.Clone(can)
		return nil
	}
	f.States = slices.DeleteFunc(f.States, func(s saga.State) bool { return !slices.Contains(can, s) })
	if len(f.States) == 0 {
		return impossible("/filter", "no saga in the states of this filter accepts "+string(b.Action))
	}
	return nil
}

func impossible(pointer, why string) error {
	return fault.New(fault.Invalid, CodeInvalid, "%s", why).
		With(fault.Field{Pointer: pointer, Code: "excluded", Message: why})
}

// Decide applies the action to a saga by the rules of sagas. Its fault is the saga's refusal.
func (b *Bulk) Decide(run saga.Instance, logs []saga.StepLog, m saga.Moment) (saga.Change, error) {
	m.Actor, m.ActorName, m.RequestID = b.Actor, b.ActorName, b.ID.String()
	change, err := saga.Apply(run, b.action().event(b, logs), m)
	for i := range change.Audit {
		change.Audit[i].OfBulk(b.ID)
	}
	return change, err
}
