package jobrun

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

// Reprocess determines which slots that already have a run are run again. Slots that never ran or
// were SKIPPED are always run; slots whose run has not ended never are.
type Reprocess string

// These values select the slots to run again.
const (
	ReprocessNone      Reprocess = "none"
	ReprocessFailed    Reprocess = "failed"    // slots that did not succeed in the end
	ReprocessCompleted Reprocess = "completed" // slots that succeeded as well
)

// Reprocesses lists all values of Reprocess.
var Reprocesses = []Reprocess{ReprocessNone, ReprocessFailed, ReprocessCompleted}

// SlotState is the result of a slot, including its retries and earlier backfills.
type SlotState struct {
	Active, Succeeded, Failed bool
}

// Wants reports whether a slot should be run.
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

// Limits of backfills.
const (
	DefaultBackfillActive = 5
	MaxBackfillActive     = 1000
	// backfillPriority is how much lower the priority of a backfill's runs is than that of
	// scheduled runs, so that scheduled runs are claimed first.
	backfillPriority = 10
)

// Backfill runs past slots on request.
type Backfill struct {
	bulk.Head
	DefinitionID uuid.UUID
	From, To     time.Time // inclusive, exclusive
	Reprocess    Reprocess
	NewestFirst  bool
	MaxActive    int    // maximum number of unfinished runs
	Overlap      Policy // overrides the definition's; "": see Policy
	// Schedule is the definition's schedule at the time of the request. Later changes of the
	// definition do not affect it. Nil means the definition's current schedule, for backfills
	// requested under an earlier version of Skald.
	Schedule *schedule.Spec
	// Cursor is the last processed slot; nil: none.
	Cursor  *time.Time
	Created int64 // runs created
	Skipped int64 // slots that Reprocess excluded
}

// Policy returns the concurrency policy of the backfill's runs. Unless the backfill overrides the
// policy, its runs queue if the definition forbids concurrent runs, because a requested slot must
// not be skipped.
func (b *Backfill) Policy(s *Spec) Policy {
	switch {
	case b.Overlap != "":
		return b.Overlap
	case s.Concurrency == Allow || s.Concurrency == "":
		return Allow
	}
	return Queue
}

// CheckBackfill validates a new backfill of d and sets its Schedule to the current one. It returns
// the number of slots. Fault: Invalid (CodeInvalid).
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
	if err := w.fault(); err != nil {
		return slots, err
	}
	b.Schedule = d.Spec.Schedule
	b.Requested(bulk.Seen{At: now, Count: int64(slots)}, false)
	return slots, nil
}

// Damaged reports whether an unfinished backfill of d cannot create runs because its own schedule
// or the definition cannot be read. A deleted definition ends the backfill, whether or not it is
// damaged.
func (b *Backfill) Damaged(d *Definition) (ownSchedule, definition bool) {
	if b.State.Ended() || d.DeletedAt != nil {
		return false, false
	}
	slots := d.Spec.Schedule
	if b.Schedule != nil {
		slots = b.Schedule
	}
	unclear := false
	if slots != nil && !d.Unreadable {
		_, err := slots.Compile()
		unclear = err != nil
	}
	own := b.Unreadable || unclear && b.Schedule != nil
	return own, d.Unreadable || unclear && !own
}

// Next returns up to n slots after the cursor, in the order of the backfill.
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
	// To go backwards, Next lists a growing range and takes its last slots, until there are enough.
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

// Run returns the run request for a slot.
func (b *Backfill) Run(d *Definition, slot time.Time, s Settings, m Moment) Run {
	priority := max(-MaxPriority, d.Spec.Priority-backfillPriority)
	return New(d, Request{
		Trigger:      ByBackfill,
		Key:          BackfillKey(b.ID, slot),
		ScheduledFor: slot,
		Priority:     &priority,
		Policy:       b.Policy(&d.Spec),
		BackfillID:   b.ID,
		By:           b.Actor,
	}, s, m)
}

// ABackfill describes backfills as bulk operations.
var ABackfill = bulk.Kind{Name: "backfill", Conflict: CodeConflict}

// Moved applies an operator's verb. A CANCELED backfill may be canceled again, to cancel its
// remaining runs; changed is false in that case. Fault: Conflict.
func (b *Backfill) Moved(on bulk.Verb, at time.Time) (changed bool, err error) {
	if b.State == bulk.Canceled && on == bulk.Cancel {
		return false, nil
	}
	err = b.Head.Moved(ABackfill, on, at)
	return err == nil, err
}

// BackfillStep is the next part of a backfill. It selects the slots whose results Take needs.
type BackfillStep struct {
	Slots  []time.Time
	limit  int // maximum number of slots to look at
	room   int // how many runs may still be created
	active int // unfinished runs
	gone   bool
}

// NextStep returns the next step of a RUNNING backfill, with up to limit slots; active is the
// number of unfinished runs. The step has no slots while the maximum number of runs is unfinished,
// or if the definition d no longer has any.
func (b *Backfill) NextStep(d *Definition, active, limit int) (BackfillStep, error) {
	step := BackfillStep{limit: limit, room: max(0, b.MaxActive-active), active: active}
	if d.DeletedAt != nil || d.Spec.Schedule == nil {
		step.gone = true
		return step, nil
	}
	if step.room == 0 {
		return step, nil
	}
	slots := d.Spec.Schedule
	if b.Schedule != nil {
		slots = b.Schedule
	}
	compiled, err := slots.Compile()
	if err != nil {
		return step, fmt.Errorf("compile the stored schedule of a job: %w", err)
	}
	step.Slots = b.Next(compiled, limit)
	return step, nil
}

// Take executes a step; states are the previous results of its slots. It returns the runs to create
// and whether b has changed. b ends when no slots are left and all of its runs have ended. It is
// CANCELED when its definition no longer has slots.
func (b *Backfill) Take(
	step *BackfillStep, states map[time.Time]SlotState, d *Definition, s Settings, m Moment,
) (runs []Run, swept Swept, changed bool) {
	switch {
	case step.gone:
		b.End(bulk.Canceled, m.Now)
		return nil, swept, true
	case step.room == 0:
		return nil, swept, false
	case len(step.Slots) == 0 && step.active == 0:
		b.End(bulk.Completed, m.Now)
		return nil, swept, true
	}
	for _, slot := range step.Slots {
		if len(runs) == step.room {
			break
		}
		if swept.Moved++; b.Reprocess.Wants(states[slot]) {
			runs = append(runs, b.Run(d, slot, s, m))
		} else {
			b.Skipped++
		}
		b.Cursor = &slot
	}
	if changed = swept.Moved > 0; changed {
		b.Version++
	}
	swept.More = swept.Moved == step.limit && len(runs) < step.room
	return runs, swept, changed
}
