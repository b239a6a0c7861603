package jobrun

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

// BulkState is where a backfill or a bulk stands.
type BulkState string

// States of backfills and bulks.
const (
	BulkRunning   BulkState = "RUNNING"
	BulkCompleted BulkState = "COMPLETED" // everything was done, and of a backfill has ended
	BulkCanceled  BulkState = "CANCELED"
)

// BulkStates is every state of backfills and bulks.
var BulkStates = []BulkState{BulkRunning, BulkCompleted, BulkCanceled}

// Reprocess says which slots a backfill runs that have a run already. Slots that
// never ran, or were SKIPPED, always run; those that have a run which has not
// ended never do.
type Reprocess string

// What to run once more.
const (
	ReprocessNone      Reprocess = "NONE"
	ReprocessFailed    Reprocess = "FAILED"    // what did not succeed in the end
	ReprocessCompleted Reprocess = "COMPLETED" // that, and what did
)

// Reprocesses is everything that a backfill may reprocess.
var Reprocesses = []Reprocess{ReprocessNone, ReprocessFailed, ReprocessCompleted}

// SlotState is what became of a slot, retries and earlier backfills included.
type SlotState struct {
	Active, Succeeded, Failed bool
}

// Wants tells whether a slot is to run.
func (p Reprocess) Wants(s SlotState) bool {
	switch {
	case s.Active:
		return false
	case s.Succeeded:
		return p == ReprocessCompleted
	case s.Failed:
		return p != ReprocessNone
	}
	return true
}

// Bounds of backfills.
const (
	DefaultBackfillActive = 5
	MaxBackfillActive     = 1000
	// backfillPriority is how much lower the priority of a backfill's runs is than
	// that of the scheduled ones, which so are claimed first.
	backfillPriority = 10
)

// Backfill runs slots of the past on purpose.
type Backfill struct {
	ID           uuid.UUID
	TenantID     uuid.UUID
	DefinitionID uuid.UUID
	Version      int64
	State        BulkState
	From, To     time.Time // inclusive, exclusive
	Reprocess    Reprocess
	NewestFirst  bool
	MaxActive    int    // runs that have not ended, at once
	Overlap      Policy // in place of the definition's; "": see Policy
	// Cursor is the slot that was looked at last; nil: none was.
	Cursor    *time.Time
	Created   int64 // runs made
	Skipped   int64 // slots that Reprocess left out
	Reason    string
	Actor     string
	CreatedAt time.Time
	EndedAt   *time.Time
}

// Policy returns the concurrency policy of the backfill's runs: unless it says
// another one, they wait for each other where the definition lets no two run at
// once, because a slot that is asked for must not be skipped.
func (b *Backfill) Policy(s *Spec) Policy {
	switch {
	case b.Overlap != "":
		return b.Overlap
	case s.Concurrency == Allow || s.Concurrency == "":
		return Allow
	}
	return Queue
}

// CheckBackfill returns what is wrong with a backfill of d (fault Invalid,
// CodeInvalid), and how many slots it looks at.
func CheckBackfill(b *Backfill, d *Definition, now time.Time) (slots int, err error) {
	var w mistakes
	if d.Spec.Schedule == nil {
		w.Add("/from", "excluded", "the job has no schedule, so there are no slots to backfill")
		return 0, w.fault()
	}
	if !b.From.Before(b.To) {
		w.Add("/to", "out_of_range", "must be later than from")
	}
	if b.To.After(now) {
		w.Add("/to", "out_of_range", "must not be in the future: future slots run on schedule")
	}
	w.within("/max_active", int64(b.MaxActive), 1, MaxBackfillActive)
	if err := w.fault(); err != nil {
		return 0, err
	}
	s, err := d.Spec.Schedule.Compile()
	if err != nil {
		return 0, err
	}
	if slots = len(s.Ticks(b.From.Add(-1), b.To.Add(-1), MaxBackfill+1)); slots > MaxBackfill {
		w.Add("/from", "too_many", "there are more than %d slots in this range: split it into several backfills", MaxBackfill)
	}
	return slots, w.fault()
}

// Next returns up to n slots that follow, in the order of the backfill.
func (b *Backfill) Next(s *schedule.Schedule, n int) []time.Time {
	var out []time.Time
	if !b.NewestFirst {
		after := b.From.Add(-1)
		if b.Cursor != nil {
			after = *b.Cursor
		}
		for _, t := range s.Ticks(after, b.To.Add(-1), n) {
			out = append(out, t.At)
		}
		return out
	}
	until := b.To
	if b.Cursor != nil {
		until = *b.Cursor
	}
	// Slots come oldest first: the last of a stretch that grows until it holds enough.
	for stretch := time.Hour; ; stretch *= 2 {
		start := until.Add(-stretch)
		if start.Before(b.From) {
			start = b.From
		}
		ticks := s.Ticks(start.Add(-1), until.Add(-1), MaxBackfill)
		if len(ticks) < n && start.After(b.From) {
			continue
		}
		for i := len(ticks) - 1; i >= max(0, len(ticks)-n); i-- {
			out = append(out, ticks[i].At)
		}
		return out
	}
}

// Run returns the run of a slot.
func (b *Backfill) Run(d *Definition, slot time.Time, s Settings, m Moment) Run {
	priority := max(-MaxPriority, d.Spec.Priority-backfillPriority)
	return New(d, Request{
		Trigger: ByBackfill, Key: BackfillKey(b.ID, slot), ScheduledFor: slot, Priority: &priority, Policy: b.Policy(&d.Spec), BackfillID: b.ID,
		By: b.Actor,
	}, s, m)
}

// Bulk cancels runs, or runs them once more, by a filter.
type Bulk struct {
	ID        uuid.UUID
	TenantID  uuid.UUID
	Version   int64
	Action    BulkAction
	State     BulkState
	Filter    Filter
	Before    time.Time // only runs that were made before
	Cursor    *Cursor   // nil: none was looked at
	Matched   int64     // looked at
	Done      int64
	Skipped   int64 // it was too late for them, or their policy forbids it
	Reason    string
	Actor     string
	CreatedAt time.Time
	EndedAt   *time.Time
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

// may tells whether the action concerns runs of a state.
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

// Does returns what b does with one run: an input that cancels it, or the request for
// one that does it once more. Both are nil when it is too late for it, or too
// early. Runs once more wait for each other where their definition lets no two run
// at once, so that none of them is skipped.
func (b *Bulk) Does(r *Run) (Input, *Request) {
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

// BulkKey is of the run that a bulk makes of a run.
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
	ListBackfills(ctx context.Context, tenant, definition uuid.UUID, p Paging) ([]Backfill, Paged, error)
	// CancelBackfill ends one and cancels those of its runs that were not started; of
	// one that is canceled, those that are left. Faults: NotFound; Conflict when it is
	// COMPLETED.
	CancelBackfill(ctx context.Context, tenant, id uuid.UUID, by operator.Action) (Backfill, error)
	// SlotStates returns what became of slots of a definition.
	SlotStates(ctx context.Context, tenant, definition uuid.UUID, slots []time.Time) (map[time.Time]SlotState, error)
	// CreateBulk stores one; of an id that is there, the one that is (created false).
	CreateBulk(ctx context.Context, b Bulk, by operator.Action) (stored Bulk, created bool, err error)
	GetBulk(ctx context.Context, tenant, id uuid.UUID) (Bulk, error)
	// ListBulks lists them, newest first; of an empty state all.
	ListBulks(ctx context.Context, tenant uuid.UUID, state BulkState, p Paging) ([]Bulk, Paged, error)
	// CancelBulk ends one; what is done stays done. Faults: NotFound; Conflict.
	CancelBulk(ctx context.Context, tenant, id uuid.UUID, by operator.Action) (Bulk, error)
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
