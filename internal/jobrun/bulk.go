package jobrun

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
)

// Bulk cancels or reruns the runs that match a filter.
type Bulk struct {
	bulk.Head
	Action  BulkAction
	Filter  Filter
	Before  time.Time    // the time of its request
	Cursor  *page.TimeID // nil: none was looked at
	Matched int64        // looked at
	Done    int64
	Skipped int64 // it was too late for them, or their policy forbids it
}

// ABulk is this kind of operations.
var ABulk = bulk.Kind{Name: "bulk", Conflict: CodeConflict}

// Moved applies a verb of a person. Fault: Conflict.
func (b *Bulk) Moved(on bulk.Verb, at time.Time) (changed bool, err error) {
	err = b.Head.Moved(ABulk, on, at)
	return err == nil, err
}

// Requested completes a new bulk with what its store saw. A canceled run does not go on.
func (b *Bulk) Requested(s bulk.Seen) {
	b.Before = s.At
	b.Head.Requested(s, b.Action == BulkCancel)
}

// Scope selects the runs of a bulk, after the last one that it looked at: those of its
// filter that existed when it was requested. A run that it makes is never one of them.
func (b *Bulk) Scope(limit int) (Filter, page.ByTime) {
	f, before := b.Filter, bulk.Before(b.Snapshot, b.Before)
	if f.CreatedTo.IsZero() || f.CreatedTo.After(before) {
		f.CreatedTo = before
	}
	return f, page.ByTime{Limit: limit, After: b.Cursor, Snapshot: b.Snapshot}
}

// Advance records that a page of Scope was processed, of which done runs were changed;
// the bulk ends with the last page.
func (b *Bulk) Advance(found page.Of[Run], done int, now time.Time) {
	n := len(found.Items)
	b.Matched += int64(n)
	b.Done += int64(done)
	b.Skipped += int64(n - done)
	if n > 0 {
		b.Cursor = new(found.Items[n-1].Place())
	}
	if found.More {
		b.Version++
		return
	}
	b.End(bulk.Completed, now)
}

// BulkAction is what is done to each run.
type BulkAction string

// What can be done to many runs.
const (
	BulkCancel BulkAction = "CANCEL"
	BulkRerun  BulkAction = "RERUN"
)

// BulkActions is everything that can be done to many runs.
var BulkActions = []BulkAction{BulkCancel, BulkRerun}

// may reports whether the action concerns runs of a state.
func (a BulkAction) may(s State) bool { return s.Terminal() == (a == BulkRerun) }

// CheckBulk completes the filter of a bulk: CANCEL is for runs that have not ended,
// RERUN for those that have, and without states for those that failed. Fault:
// Invalid (CodeInvalid) when it names others.
func CheckBulk(b *Bulk) error {
	var w mistakes
	for _, s := range b.Filter.States {
		if !b.Action.may(s) {
			w.Add("/filter/states", "excluded", "%s is not possible for runs that are %s", b.Action, s)
		}
	}
	if len(b.Filter.States) == 0 && b.Action == BulkCancel {
		b.Filter.States = ActiveStates
	}
	if len(b.Filter.States) == 0 {
		b.Filter.States = []State{Failed, TimedOut}
	}
	return w.fault()
}

// Does returns what b does with one run: an event that cancels it, or the request for a
// rerun. Both are nil when the run's state does not allow it. Reruns queue if their
// definition forbids concurrent runs, so that none of them is skipped.
func (b *Bulk) Does(r *Run) (Event, *Request) {
	switch {
	case !b.Action.may(r.State):
		return nil, nil
	case b.Action == BulkCancel:
		return CancelRequested{Actor: b.Actor, Reason: b.Reason}, nil
	}
	ask := RerunRequest(r)
	ask.Key, ask.By, ask.As = BulkKey(b.ID, r.ID), b.Actor, AsAdmin // bulks need jobs:admin
	ask.NotForbidden = true
	return nil, &ask
}

// BulkKey returns the key of the rerun that a bulk makes of a run.
func BulkKey(bulk, run uuid.UUID) string {
	return ManualKey("bulk:" + bulk.String() + ":" + run.String())
}

// BulkOperations is backfills and bulks. A tenant sees only its own.
type BulkOperations interface {
	// CreateBackfill stores one; of an id that is there, the one that is (created
	// false).
	CreateBackfill(ctx context.Context, b Backfill, by operator.Action) (stored Backfill, created bool, err error)
	// GetBackfill returns one, and how many of its runs have not ended. Fault: NotFound.
	GetBackfill(ctx context.Context, tenant, id uuid.UUID) (b Backfill, active int64, err error)
	ListBackfills(ctx context.Context, tenant, definition uuid.UUID, p page.ByTime) (page.Of[Backfill], error)
	// MoveBackfill applies a verb of a person to one. One that is canceled ends, and those
	// of its runs that were not started are canceled; of one that was canceled before,
	// those that are left. Faults: NotFound; Conflict.
	MoveBackfill(ctx context.Context, tenant, id uuid.UUID, on bulk.Verb, by operator.Action) (Backfill, error)
	// SlotStates returns the results of slots of a definition.
	SlotStates(ctx context.Context, tenant, definition uuid.UUID, slots []time.Time) (map[time.Time]SlotState, error)
	// CountBulk returns how many runs a bulk would be for if it were requested now.
	CountBulk(ctx context.Context, b Bulk) (int64, error)
	// CreateBulk stores one that is for the runs that exist now; of an id that is there, the
	// one that is (created false).
	CreateBulk(ctx context.Context, b Bulk, by operator.Action) (stored Bulk, created bool, err error)
	GetBulk(ctx context.Context, tenant, id uuid.UUID) (Bulk, error)
	// ListBulks lists them, newest first; of an empty state all.
	ListBulks(ctx context.Context, tenant uuid.UUID, state bulk.State, p page.ByTime) (page.Of[Bulk], error)
	// MoveBulk applies a verb of a person to one. Faults: NotFound; Conflict.
	MoveBulk(ctx context.Context, tenant, id uuid.UUID, on bulk.Verb, by operator.Action) (Bulk, error)
	// Backfill makes the next runs of backfills, as far as their MaxActive allows, and
	// ends those that are done: a sweep.
	Backfill(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// Bulk does the next piece of bulks: a sweep.
	Bulk(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
}

// NoBulk is the fault of a backfill or bulk that is not there.
func NoBulk(what string) error {
	return fault.New(fault.NotFound, CodeNoBulk, "there is no such %s", what)
}
