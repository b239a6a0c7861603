package jobrun

import (
	"time"

	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

// These are the reasons why a run is withdrawn from a future slot.
const (
	ScheduleChanged = "the schedule was changed"
	JobDisabled     = "the job is disabled"
)

// MaxFollowing is the maximum number of unclaimed runs of past slots that follow a change of their
// definition, oldest first. All runs of future slots follow it: they are created at most an hour
// ahead (assign_ahead_seconds), and at most one per second.
const MaxFollowing = 10_000

// Following is a change of a definition, applied to the runs of its slots that no worker has
// claimed. These runs are PENDING, and their trigger is TIME.
type Following struct {
	d   *Definition
	s   *schedule.Schedule // nil: there is no schedule, or it cannot be used
	set Settings
	m   Moment
}

// NewFollowing returns the Following for the change to d that was made at d.UpdatedAt and is stored
// at m.
func NewFollowing(d *Definition, set Settings, m Moment) *Following {
	f := &Following{d: d, set: set, m: m}
	if d.Spec.Schedule != nil {
		f.s, _ = d.Spec.Schedule.Compile() // nil if its time zone no longer exists; see noSlot
	}
	return f
}

// Reaches reports whether the change from before to d may affect existing runs.
func (d *Definition) Reaches(before *Definition) bool {
	return d.SpecVersion != before.SpecVersion || d.Enabled != before.Enabled || d.Name != before.Name
}

// Run decides what happens to a run. If the changed definition no longer has a future slot, the
// slot's run is withdrawn: it is SKIPPED and releases its idempotency key, so that the slot can get
// another run if the change is reverted. All other runs take their values from the changed
// definition, as if they were created now. A past slot was due under the schedule of its time and
// stays due. A run that already follows this version does not change.
func (f *Following) Run(r Run, by string) (Change, error) {
	if why := f.noSlot(r.ScheduledFor); why != "" {
		c, err := Apply(Instance{r, &f.d.Spec}, Withdrawn{Actor: by, Reason: why}, f.m)
		c.After.IdempotencyKey = WithdrawnKey(&r)
		return c, err
	}
	c := Change{Before: Precondition{r.State, r.Version}, After: r}
	if r.State != Pending || r.SpecVersion == f.d.SpecVersion && r.DefinitionName == f.d.Name {
		return c, nil
	}
	m := f.m
	m.Jitter = chance(r.IdempotencyKey)
	n := New(f.d, Request{ID: r.ID, Trigger: r.Trigger, Key: r.IdempotencyKey, ScheduledFor: r.ScheduledFor,
		By: f.d.UpdatedBy}, f.set, m)
	n.Version, n.CreatedAt, n.AdmittedAt = r.Version+1, r.CreatedAt, r.AdmittedAt
	if n.ConcurrencyKey != r.ConcurrencyKey || n.Concurrency != r.Concurrency {
		n.AdmittedAt = nil // the leader must decide again
	}
	c.After = n
	return c, nil
}

// noSlot returns the reason why the definition no longer has a slot. It returns "" if the
// definition has the slot, or had it when it was due.
func (f *Following) noSlot(slot time.Time) string {
	switch {
	case !slot.After(f.d.UpdatedAt):
		return ""
	case !f.d.Enabled:
		return JobDisabled
	case f.d.Spec.Schedule == nil, f.s != nil && !f.s.Has(slot):
		return ScheduleChanged
	}
	return ""
}

// WithdrawnKey returns the idempotency key of a withdrawn run.
func WithdrawnKey(r *Run) string { return r.IdempotencyKey + ":withdrawn:" + r.ID.String() }
