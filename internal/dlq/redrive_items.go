package dlq

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// ItemState is the state of one letter in a redrive.
type ItemState string

// States of items.
const (
	ItemWaiting ItemState = "WAITING"
	ItemTaken   ItemState = "TAKEN"
	ItemDone    ItemState = "DONE"
	ItemFailed  ItemState = "FAILED"
	ItemSkipped ItemState = "SKIPPED"
	ItemBounced ItemState = "BOUNCED"
)

// ItemStates lists all states.
var ItemStates = []ItemState{ItemWaiting, ItemTaken, ItemDone, ItemFailed, ItemSkipped, ItemBounced}

// Holding lists the states of items whose letters are held by their redrive from its start to its
// end, even while it is halted. Such letters are not retried automatically: only the redrive sends
// them, at its rate, in its order and up to its stop condition. A letter that is done may be
// PENDING again as a result of the action, and is then no longer held.
var Holding = []ItemState{ItemWaiting, ItemTaken, ItemFailed, ItemSkipped}

// Ended reports whether this state is final.
func (s ItemState) Ended() bool { return s == ItemDone || s == ItemFailed || s == ItemBounced }

// ItemTrigger is what causes a transition of an item.
type ItemTrigger string

// Triggers of items.
const (
	ItemChosen  ItemTrigger = "its letter was claimed"
	ItemRefused ItemTrigger = "its letter cannot be processed"
	ItemActed   ItemTrigger = "the bulk action was applied to its letter"
	ItemDriven  ItemTrigger = "the drive of its letter ended"
	ItemSettled ItemTrigger = "the result of its letter became known after its lease expired"
	ItemBack    ItemTrigger = "its letter came back as another letter"
)

// ItemEdge is one legal transition of an item.
type ItemEdge struct {
	From, To ItemState
	On       ItemTrigger
}

// ItemEdges is the complete transition table of items.
var ItemEdges = []ItemEdge{
	{ItemWaiting, ItemTaken, ItemChosen},
	{ItemWaiting, ItemSkipped, ItemRefused},
	{ItemWaiting, ItemDone, ItemActed},
	{ItemTaken, ItemDone, ItemDriven},
	{ItemTaken, ItemFailed, ItemDriven},
	{ItemTaken, ItemBounced, ItemDriven},
	{ItemTaken, ItemSkipped, ItemDriven},
	{ItemTaken, ItemWaiting, ItemDriven},
	{ItemTaken, ItemTaken, ItemDriven}, // accepted: its target reports later
	{ItemTaken, ItemDone, ItemSettled},
	{ItemTaken, ItemFailed, ItemSettled},
	{ItemTaken, ItemBounced, ItemSettled},
	{ItemTaken, ItemWaiting, ItemSettled},
	{ItemTaken, ItemTaken, ItemSettled}, // it is still in progress
	{ItemDone, ItemBounced, ItemBack},
}

// ItemsFrom lists the states that have a transition on any of these triggers. Stores derive their
// conditions from it.
func ItemsFrom(on ...ItemTrigger) (from []ItemState) {
	for _, s := range ItemStates {
		if slices.ContainsFunc(ItemEdges, func(e ItemEdge) bool { return e.From == s && slices.Contains(on, e.On) }) {
			from = append(from, s)
		}
	}
	return from
}

// to moves i along one edge. A transition that is not in the table is a bug in the rules, and
// must never reach a store. The tests of the rules find such bugs.
func (i *Item) to(s ItemState, on ItemTrigger) {
	if !slices.Contains(ItemEdges, ItemEdge{i.State, s, on}) {
		panic(fmt.Sprintf("dlq: the transition table has no transition of an item from %s to %s for the trigger %q", i.State, s, on))
	}
	i.State = s
}

// Item is one letter of a redrive.
type Item struct {
	Seq       int64
	LetterID  uuid.UUID
	State     ItemState
	Detail    string // the reason why it failed or was skipped
	UpdatedAt time.Time
}

// Reach describes how far a letter got toward its target in a drive.
type Reach string

// Reaches.
const (
	Answered     Reach = "answered" // the target has responded
	MaybeReached Reach = "unknown"
	NotReached   Reach = "nothing"
)

// Reach returns how far the letter got toward its target in an attempt.
func (a *Attempt) Reach() Reach {
	switch {
	case a.Outcome == Acknowledged, a.StatusCode != 0:
		return Answered
	case a.Outcome == Uncertain:
		return MaybeReached
	}
	return NotReached
}

// Item returns the item's state after a drive has ended. stored is the letter's resolution at that
// time; the letter may already have come back. An Accepted letter stays TAKEN and is counted when
// its target has reported.
func (f *Finish) Item(stored Resolution) (Item, Reach) {
	i := Item{LetterID: f.LetterID, State: ItemTaken, UpdatedAt: f.At}
	switch {
	case f.Status == Retrying:
		i.to(ItemTaken, ItemDriven)
		return i, NotReached
	case f.Attempt.Outcome == Withdrawn && f.Fault != nil:
		// The cause, such as a disabled webhook, persists until a person removes it. Otherwise, the
		// redrive would take the letter again and again and never end.
		i.to(ItemSkipped, ItemDriven)
		i.Detail = f.Fault.Detail
	case f.Attempt.Outcome == Withdrawn:
		i.to(ItemWaiting, ItemDriven)
	case f.Status == Resolved && stored == Bounced:
		i.to(ItemBounced, ItemDriven)
	case f.Status == Resolved:
		i.to(ItemDone, ItemDriven)
	default:
		i.to(ItemFailed, ItemDriven)
		i.Detail = f.Attempt.Error
	}
	return i, f.Attempt.Reach()
}

// Progress is the change in a redrive's counts caused by some of its letters.
type Progress struct {
	Done, Failed, Skipped, Bounced int64
	Sent, MaybeSent, Repeated      int64
}

// Count adds a letter whose item has reached a state; the hand-over counts are those before and
// after. Hand-overs without a response, and earlier ones by nodes that died, count as unknown.
func (p *Progress) Count(s ItemState, answered bool, before, after int) {
	switch s {
	case ItemDone:
		p.Done++
	case ItemBounced:
		p.Done++
		p.Bounced++
	case ItemFailed:
		p.Failed++
	case ItemSkipped:
		p.Skipped++
	}
	switch {
	case answered && before > 0:
		p.MaybeSent--
		p.Sent++
	case answered:
		p.Sent++
	case before == 0 && after > 0:
		p.MaybeSent++
	}
	if before < 2 && after > 1 {
		p.Repeated++
	}
}

// Lost is a letter of a redrive whose lease has expired, in its current state: either its target
// has reported, or its retry was reclaimed.
type Lost struct {
	Seq        int64
	Status     Status     // "": archived or deleted
	Resolution Resolution // the letter's resolution
	// Ours means that the letter's last attempt was made by this redrive, with this outcome.
	Ours    bool
	Outcome AttemptOutcome
	Error   string
	// Hands is the number of hand-overs counted so far, and Gone is the number of attempts by this
	// redrive that were lost with their node. The letter may have been claimed by another retry
	// since then.
	Hands int
	Gone  int
}

// Settled returns the state of a lost letter and the number of times it was handed over. A letter
// still in flight stays TAKEN; a letter whose attempt never finished waits again.
func (l *Lost) Settled() (i Item, hands int) {
	i = Item{Seq: l.Seq, State: ItemTaken}
	switch {
	case l.Status == Retrying:
		i.to(ItemTaken, ItemSettled)
	case l.Status == Resolved && l.Resolution == Bounced && l.Ours:
		i.to(ItemBounced, ItemSettled)
	case l.Status == Resolved && l.Ours && l.Outcome == Acknowledged:
		i.to(ItemDone, ItemSettled)
	case l.Ours && (l.Outcome == FailedDrive || l.Outcome == Uncertain):
		i.to(ItemFailed, ItemSettled)
		i.Detail = l.Error
	default:
		i.to(ItemWaiting, ItemSettled)
	}
	hands = max(l.Hands, l.Gone)
	if i.State.Ended() {
		hands++
	}
	return i, hands
}
