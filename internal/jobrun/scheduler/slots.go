package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

const (
	// slotsAtOnce is roughly the number of slots that one transaction stores.
	slotsAtOnce = 2000
	// reconcileEvery is the longest time for which a definition may have a wrong next slot (F45: 60
	// s).
	reconcileEvery = 30 * time.Second
	// reconcilePages is the number of definitions that are checked per round, as a multiple of the
	// round's limit.
	reconcilePages = 4
	// unusableFor is how long a schedule that does not compile is skipped. Its time zone may become
	// available again (F46).
	unusableFor = time.Minute
	// maxSchedules is the maximum number of cached compiled schedules.
	maxSchedules = 10_000
)

// slots creates runs from schedules. Only the leader's goroutine uses it.
type slots struct {
	store   jobrun.Sweeps
	newID   func() uuid.UUID
	log     *slog.Logger
	timeout time.Duration

	compiled map[scheduleKey]*schedule.Schedule
	place    uuid.UUID // the last definition that was checked
	checked  time.Time // start of the current pass over all definitions
}

// forget makes the next term begin with a new pass.
func (s *slots) forget() { s.place, s.checked = uuid.Nil, time.Time{} }

// scheduleKey is the comparable form of a schedule.Spec.
type scheduleKey struct {
	typ        schedule.Type
	value, tz  string
	gap        schedule.GapRule
	overlap    schedule.OverlapRule
	start, end time.Time
}

// compile returns the compiled schedule of a spec, which many definitions may share.
func (s *slots) compile(spec *schedule.Spec) (*schedule.Schedule, error) {
	key := scheduleKey{typ: spec.Type, value: spec.Value, tz: spec.Timezone, gap: spec.DSTGap, overlap: spec.DSTOverlap}
	if spec.StartAt != nil {
		key.start = spec.StartAt.UTC()
	}
	if spec.EndAt != nil {
		key.end = spec.EndAt.UTC()
	}
	if c := s.compiled[key]; c != nil {
		return c, nil
	}
	c, err := spec.Compile()
	if err != nil {
		return nil, err
	}
	if s.compiled == nil || len(s.compiled) >= maxSchedules {
		s.compiled = map[scheduleKey]*schedule.Schedule{}
	}
	s.compiled[key] = c
	return c, nil
}

// make creates the runs of near slots for up to limit definitions (sweep 1).
func (s *slots) make(ctx context.Context, t jobrun.Term, set jobrun.Settings, limit int) (jobrun.Swept, error) {
	var done jobrun.Swept
	now, err := s.store.Now(ctx)
	if err != nil {
		return done, err
	}
	until := now.Add(set.Seconds(jobrun.AssignAhead))
	due, err := s.store.Due(ctx, t, until, limit)
	if err != nil {
		return done, err
	}
	done.More = len(due) == limit
	b := batch{slots: s, term: t}
	for i := range due {
		slots, a := s.plan(ctx, &due[i], until, set, jobrun.Moment{Now: now, NewID: s.newID})
		b.runs, b.advances = append(b.runs, slots...), append(b.advances, a)
		done.More = done.More || a.NextDueAt != nil && a.NextDueAt.Before(until) && a.Until.After(due[i].LastMaterializedAt)
		if len(b.runs) >= slotsAtOnce {
			if err := b.store(ctx, now); err != nil {
				return done, err
			}
		}
		done.Moved = b.made
	}
	err = b.store(ctx, now)
	done.Moved = b.made
	return done, err
}

// batch is the content of one transaction.
type batch struct {
	*slots
	term     jobrun.Term
	runs     []jobrun.Slot
	advances []jobrun.Advance
	made     int
}

// store stores the batch. If the batch is rejected, each definition is stored separately. A
// definition that is rejected again is skipped for a while, so that it does not block the others.
func (b *batch) store(ctx context.Context, now time.Time) error {
	if len(b.advances) == 0 {
		return nil
	}
	if err := failpoint.Hit(failpoint.SchedTickBefore); err != nil {
		return err
	}
	err := b.put(ctx, b.runs, b.advances)
	if err != nil && ctx.Err() == nil && fault.As(err) == nil && !errors.Is(err, context.DeadlineExceeded) {
		err = b.storeEach(ctx, now)
	}
	b.runs, b.advances = b.runs[:0], b.advances[:0]
	if err != nil {
		return err
	}
	return failpoint.Hit(failpoint.SchedTickInserted)
}

// put creates runs, with its own timeout.
func (b *batch) put(ctx context.Context, runs []jobrun.Slot, advances []jobrun.Advance) error {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.timeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})()
	made, err := b.slots.store.Materialize(call, b.term, runs, advances)
	b.made += made
	return err
}

func (b *batch) storeEach(ctx context.Context, now time.Time) error {
	of := map[uuid.UUID][]jobrun.Slot{}
	for _, r := range b.runs {
		of[r.Run.DefinitionID] = append(of[r.Run.DefinitionID], r)
	}
	for _, a := range b.advances {
		err := b.put(ctx, of[a.Definition], []jobrun.Advance{a})
		if err == nil {
			continue
		}
		b.log.ErrorContext(ctx, "cannot store the slots of a job", slog.String("definition_id", a.Definition.String()), slog.Any("error", err))
		a.Until, a.NextDueAt = time.Time{}, new(now.Add(unusableFor))
		if err := b.put(ctx, nil, []jobrun.Advance{a}); err != nil {
			return err // the definition did not cause the error
		}
	}
	return nil
}

// plan returns the next slots of a definition. If its schedule does not compile, its next slot
// stays unchanged, and the definition is retried later.
func (s *slots) plan(ctx context.Context, d *jobrun.Definition, until time.Time, set jobrun.Settings,
	m jobrun.Moment) ([]jobrun.Slot, jobrun.Advance) {
	if d.Unreadable {
		s.log.ErrorContext(ctx, "a job definition is damaged; it creates no runs until it is repaired",
			slog.String("definition_id", d.ID.String()), slog.String("definition", d.Name))
		return nil, jobrun.Advance{Definition: d.ID, Version: d.Version, Until: d.LastMaterializedAt,
			NextDueAt: new(m.Now.Add(unusableFor))}
	}
	if d.Spec.Schedule == nil {
		return nil, jobrun.Advance{Definition: d.ID, Version: d.Version, Until: d.LastMaterializedAt}
	}
	c, err := s.compile(d.Spec.Schedule)
	if err != nil {
		s.log.ErrorContext(ctx, "cannot compile the schedule of a job", slog.String("definition_id", d.ID.String()), slog.String("definition", d.Name),
			slog.Any("error", err))
		return nil, jobrun.Advance{Definition: d.ID, Version: d.Version, Until: d.LastMaterializedAt,
			NextDueAt: new(m.Now.Add(unusableFor))}
	}
	return jobrun.PlanSlots(d, c, until, set, m)
}

// reconcile checks the stored next slot of each definition, and repairs it if necessary, so that
// definitions are found when they are due. The next slot is derived from the schedule and its
// progress, and the stored value is only a cache (J8, F45). reconcile goes through all definitions
// twice a minute, one page per round.
func (s *slots) reconcile(ctx context.Context, t jobrun.Term, _ jobrun.Settings, limit int) (jobrun.Swept, error) {
	var done jobrun.Swept
	if s.place == uuid.Nil {
		if time.Since(s.checked) < reconcileEvery {
			return done, nil
		}
		s.checked = time.Now()
	}
	limit *= reconcilePages
	page, err := s.store.Timed(ctx, t, s.place, limit)
	if err != nil {
		return done, err
	}
	var wrong []jobrun.Advance
	for i := range page {
		d := &page[i]
		if d.Spec.Schedule == nil {
			continue
		}
		c, err := s.compile(d.Spec.Schedule)
		if err != nil {
			continue // make logs the error
		}
		a := jobrun.Advance{Definition: d.ID, Version: d.Version, Until: d.LastMaterializedAt}
		if next, ok := c.Next(d.LastMaterializedAt); ok {
			a.NextDueAt = &next.At
		}
		// A definition that is found too early is corrected at that time.
		if a.NextDueAt != nil && (d.NextDueAt == nil || d.NextDueAt.After(*a.NextDueAt)) {
			s.log.WarnContext(ctx, "the stored next slot of a job was wrong", slog.String("definition_id", d.ID.String()), slog.Any("stored", d.NextDueAt),
				slog.Any("derived", a.NextDueAt))
			wrong = append(wrong, a)
		}
	}
	if len(wrong) > 0 {
		if _, err := s.store.Materialize(ctx, t, nil, wrong); err != nil {
			return done, err
		}
	}
	done.Moved, s.place = len(wrong), uuid.Nil
	if len(page) == limit {
		s.place = page[limit-1].ID
	}
	return done, nil
}
