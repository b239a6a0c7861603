package leaderdb_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

// timed creates a definition with a schedule that has been due for the given time.
func (s sweeping) timed(t *testing.T, since time.Duration, change ...func(*jobrun.Definition)) jobrun.Definition {
	t.Helper()
	d := s.Define(t, func(d *jobrun.Definition) {
		d.Spec.Type, d.Spec.Schedule = jobrun.OnTime, &schedule.Spec{Type: schedule.EveryNMinutes, Value: "1"}
		for _, c := range change {
			c(d)
		}
	})
	pgtest.Execute(t, s.see, `UPDATE jobs.job_definitions SET last_materialized_at = now() - $2 * interval '1 microsecond', next_due_at = now() - $2 * interval '1 microsecond' WHERE id = $1`,
		d.ID, since.Microseconds())
	return d
}

// plan returns what the leader would store for a definition now.
func (s sweeping) plan(t *testing.T, d *jobrun.Definition) ([]jobrun.Slot, jobrun.Advance) {
	t.Helper()
	compiled, err := d.Spec.Schedule.Compile()
	if err != nil {
		t.Fatal(err)
	}
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return jobrun.PlanSlots(d, compiled, now.Add(time.Minute), s.set, jobrun.Moment{Now: now, NewID: pgtest.NewID})
}

func (s sweeping) dueNow(t *testing.T) []jobrun.Definition {
	t.Helper()
	all, err := s.Due(t.Context(), s.term, pgtest.Now().Add(time.Minute), 100)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestASlotIsMadeOnce(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	s.timed(t, 3*time.Minute)
	late := s.timed(t, 8*time.Minute)
	due := s.dueNow(t)
	if len(due) != 2 || due[0].ID != late.ID {
		t.Fatalf("%d are due", len(due))
	}
	var slots []jobrun.Slot
	var advances []jobrun.Advance
	for i := range due {
		more, a := s.plan(t, &due[i])
		slots, advances = append(slots, more...), append(advances, a)
	}
	if made, err := s.Materialize(t.Context(), s.term, slots, advances); err != nil || made != len(slots) {
		t.Fatalf("made %d of %d, %v", made, len(slots), err)
	}
	for i := range slots {
		slots[i].Run.ID = pgtest.NewID()
	}
	if made, err := s.Materialize(t.Context(), s.term, slots, advances); err != nil || made != 0 {
		t.Fatalf("made %d again, %v", made, err)
	}
	if skipped := s.Count(t, `SELECT count(*) FROM jobs.job_runs r JOIN jobs.job_run_events e ON e.run_id = r.id AND e.kind = 'skipped' AND e.epoch = 2 AND e.reason LIKE 'late%'
		WHERE r.state = 'SKIPPED' AND r.finished_at IS NOT NULL`); skipped < 3 || s.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE state = 'SKIPPED'`) != skipped {
		t.Errorf("%d slots are recorded as skipped", skipped)
	}
	if again := s.dueNow(t); len(again) != 0 {
		t.Errorf("%d are due at once", len(again))
	}
}

// Slots of a definition that was changed after they were computed are not stored.
func TestSlotsOfAChangedDefinitionAreNotStored(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	changed, deleted, same := s.timed(t, 2*time.Minute), s.timed(t, 2*time.Minute), s.timed(t, 2*time.Minute)
	var slots []jobrun.Slot
	var advances []jobrun.Advance
	due := s.dueNow(t)
	for i := range due {
		more, a := s.plan(t, &due[i])
		slots, advances = append(slots, more...), append(advances, a)
	}
	pgtest.Execute(t, s.see, `UPDATE jobs.job_definitions SET version = version + 1 WHERE id = $1`, changed.ID)
	pgtest.Execute(t, s.see, `UPDATE jobs.job_definitions SET deleted_at = now() WHERE id = $1`, deleted.ID)
	made, err := s.Materialize(t.Context(), s.term, slots, advances)
	if err != nil || made == 0 {
		t.Fatal(made, err)
	}
	if n := s.Count(t, `SELECT count(DISTINCT definition_id) FROM jobs.job_runs`); n != 1 || s.Count(t, `SELECT count(*) FROM jobs.job_runs WHERE definition_id = $1`, same.ID) != made {
		t.Errorf("slots of %d definitions", n)
	}
	if due = s.dueNow(t); len(due) != 1 || due[0].ID != changed.ID {
		t.Errorf("%d are due", len(due))
	}
}

func TestOnlyDefinitionsThatMayRunAreDue(t *testing.T) {
	t.Parallel()
	s := newSweeping(t)
	set := func(d jobrun.Definition, assignment string) uuid.UUID {
		t.Helper()
		pgtest.Execute(t, s.see, `UPDATE jobs.job_definitions SET `+assignment+` WHERE id = $1`, d.ID)
		return d.ID
	}
	want := map[uuid.UUID]bool{
		set(s.timed(t, 0), `next_due_at = now() + interval '30 s'`): true,
		set(s.timed(t, 0), `next_due_at = now() + interval '90 s'`): false,
		set(s.timed(t, 0), `next_due_at = NULL`):                    false,
		set(s.timed(t, 0), `enabled = false`):                       false,
		set(s.timed(t, 0), `deleted_at = now()`):                    false,
		// The slot is skipped.
		set(s.timed(t, 0), `paused_at = now()`):                                                              true,
		set(s.timed(t, 0), `paused_at = now(), next_due_at = now() + interval '30 s'`):                       false,
		set(s.timed(t, 0), `paused_at = now(), paused_until = now(), next_due_at = now() + interval '30 s'`): true,
	}
	got := map[uuid.UUID]bool{}
	for id := range want {
		got[id] = false
	}
	for _, d := range s.dueNow(t) {
		got[d.ID] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	timed, err := s.Timed(t.Context(), s.term, uuid.Nil, 100)
	if err != nil || len(timed) != 6 {
		t.Errorf("%d with a schedule, %v", len(timed), err)
	}
	if rest, err := s.Timed(t.Context(), s.term, timed[3].ID, 100); err != nil || len(rest) != 2 {
		t.Errorf("%d after the fourth, %v", len(rest), err)
	}
}
