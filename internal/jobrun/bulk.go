package jobrun

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/page"
)

// Bulk cancels or reruns the runs that match a filter.
type Bulk struct {
	bulk.Head
	Action  BulkAction
	Filter  Filter
	Before  time.Time    // when the bulk was requested
	Cursor  *page.TimeID // the last run that was processed; nil: none yet
	Matched int64        // runs processed
	Done    int64
	Skipped int64 // runs that had already ended, or whose policy forbids the action
}

// ABulk describes bulks as bulk operations.
var ABulk = bulk.Kind{Name: "bulk", Conflict: CodeConflict}

// Moved applies an operator's verb. Fault: Conflict.
func (b *Bulk) Moved(on bulk.Verb, at time.Time) (changed bool, err error) {
	err = b.Head.Moved(ABulk, on, at)
	return err == nil, err
}

// Requested sets the fields of a new bulk that its store determines.
func (b *Bulk) Requested(s bulk.Seen) {
	b.Before = s.At
	b.Head.Requested(s, b.Action == BulkCancel)
}

// Scope returns the filter for the next page of runs: those that matched when the bulk was
// requested and that follow the last processed one. It never matches runs that the bulk creates.
func (b *Bulk) Scope(limit int) (Filter, page.ByTime) {
	f, before := b.Filter, bulk.Before(b.Snapshot, b.Before)
	if f.CreatedTo.IsZero() || f.CreatedTo.After(before) {
		f.CreatedTo = before
	}
	return f, page.ByTime{Limit: limit, After: b.Cursor, Snapshot: b.Snapshot}
}

// Advance records that a page of Scope was processed and that done of its runs were changed. The
// bulk ends with the last page.
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

// BulkAction is the action that a bulk performs on each run.
type BulkAction string

// These are the actions of bulks.
const (
	BulkCancel BulkAction = "cancel"
	BulkRerun  BulkAction = "rerun"
)

// BulkActions lists all actions.
var BulkActions = []BulkAction{BulkCancel, BulkRerun}

// may reports whether the action applies to runs in a state.
func (a BulkAction) may(s State) bool { return s.Terminal() == (a == BulkRerun) }

// CheckBulk completes the filter of a bulk. A cancel applies to unfinished runs. A rerun applies to
// ended runs, by default to those that failed. Fault: Invalid (CodeInvalid) if the filter names
// other states.
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

// Does returns the action of b on one run: an event that cancels the run, or the request for a
// rerun. Both are nil if the state of the run does not allow the action. Reruns queue if their
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

// WouldBe returns a run as an event would leave it. The event must be one that does not depend on
// the definition. Fault: Conflict.
func WouldBe(r *Run, in Event, now time.Time) (Run, error) {
	c, err := Apply(Instance{Run: *r, Spec: &Spec{}}, in, Moment{Now: now, NewID: func() uuid.UUID { return uuid.Nil }})
	return c.After, err
}

// NewRun is the change that an action makes when it creates a run.
var NewRun = dryrun.List{{Member: "new_run", To: string(Pending)}}

// Changes returns the changes that b would make because of one run. There are none if the state of
// the run does not allow the action.
func (b *Bulk) Changes(r *Run, now time.Time) (all dryrun.List) {
	in, ask := b.Does(r)
	switch {
	case ask != nil:
		return NewRun
	case in != nil:
		after, err := WouldBe(r, in, now)
		if err != nil {
			return nil
		}
		return Differs(r, &after)
	}
	return all
}

// Differs returns the fields of a run that an event changes, as a dry run reports them.
func Differs(before, after *Run) (all dryrun.List) {
	all.Differs("state", string(before.State), string(after.State))
	if !after.State.Terminal() {
		all.Differs("cancel_requested_at", dryrun.Text(before.CancelRequestedAt), dryrun.Text(after.CancelRequestedAt))
	}
	return all
}

// BulkKey returns the idempotency key for a bulk's rerun of a run.
func BulkKey(bulk, run uuid.UUID) string {
	return ManualKey("bulk:" + bulk.String() + ":" + run.String())
}

// BulkOperations stores backfills and bulks. A tenant sees only its own.
type BulkOperations interface {
	// CreateBackfill stores a backfill. If a backfill with its id exists, it returns the stored
	// one, and created is false.
	CreateBackfill(ctx context.Context, b Backfill, by operator.Action) (stored Backfill, created bool, err error)
	// GetBackfill returns a backfill and the number of its unfinished runs. Fault: NotFound.
	GetBackfill(ctx context.Context, tenant, id uuid.UUID) (b Backfill, active int64, err error)
	ListBackfills(ctx context.Context, tenant, definition uuid.UUID, p page.ByTime) (page.Of[Backfill], error)
	// MoveBackfill applies an operator's verb. Canceling a backfill also cancels its runs that have
	// not started; canceling it again cancels the remaining ones. Faults: NotFound; Conflict.
	MoveBackfill(ctx context.Context, tenant, id uuid.UUID, on bulk.Verb, by operator.Action) (Backfill, error)
	// SlotStates returns the results of slots of a definition.
	SlotStates(ctx context.Context, tenant, definition uuid.UUID, slots []time.Time) (map[time.Time]SlotState, error)
	// CountBulk returns how many runs a bulk would affect if it were requested now.
	CountBulk(ctx context.Context, b Bulk) (int64, error)
	// CreateBulk stores a bulk of the runs that currently exist. If a bulk with its id exists, it
	// returns the stored one, and created is false.
	CreateBulk(ctx context.Context, b Bulk, by operator.Action) (stored Bulk, created bool, err error)
	GetBulk(ctx context.Context, tenant, id uuid.UUID) (Bulk, error)
	// ListBulks lists the bulks in a state, newest first; an empty state means all states.
	ListBulks(ctx context.Context, tenant uuid.UUID, state bulk.State, p page.ByTime) (page.Of[Bulk], error)
	// MoveBulk applies an operator's verb to a bulk. Faults: NotFound; Conflict.
	MoveBulk(ctx context.Context, tenant, id uuid.UUID, on bulk.Verb, by operator.Action) (Bulk, error)
	// Backfill is a sweep. It creates the next runs of backfills, as far as their MaxActive allows,
	// and ends the backfills that are finished.
	Backfill(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
	// Bulk is a sweep. It processes the next page of each bulk.
	Bulk(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
}

// NoBulk returns the fault for a backfill or bulk that does not exist.
func NoBulk(what string) error {
	return fault.New(fault.NotFound, CodeNoBulk, "there is no such %s", what)
}
