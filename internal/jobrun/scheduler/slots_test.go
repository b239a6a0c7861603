package scheduler_test

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
	"github.com/skald-saga/skald/internal/test/patience"
)

// fastClock wraps sweeps. Its time advances by a step with every call of Now.
type fastClock struct {
	jobrun.Sweeps
	at   *atomic.Int64 // Unix seconds, shared by all nodes
	step time.Duration
}

func (c *fastClock) Now(context.Context) (time.Time, error) {
	return time.Unix(c.at.Add(int64(c.step/time.Second)), 0).UTC(), nil
}

// slotsOf returns the slots of a definition for which there are runs.
func (w *world) slotsOf(t *testing.T, id uuid.UUID) (all []time.Time) {
	t.Helper()
	rows, err := w.see.QueryContext(t.Context(), `SELECT scheduled_for FROM jobs.job_runs WHERE definition_id = $1 AND trigger = 'TIME' AND state = 'PENDING' ORDER BY scheduled_for`, id)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var at time.Time
		if err := rows.Scan(&at); err != nil {
			t.Fatal(err)
		}
		all = append(all, at.UTC())
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return all
}

// J8, J1, F45: over days with clock changes, changing leaders and lost next slots, the runs match
// the schedule. No slot is repeated, and none is lost.
func TestRunsAreThoseOfTheScheduleThroughChangesOfTheLeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set[jobrun.SkipLateAfter] = 604800
	began := time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC)
	end := began.Add(4 * 24 * time.Hour)
	var clock atomic.Int64
	clock.Store(began.Unix())
	specs := []jobrun.Spec{
		timed(schedule.EveryNMinutes, "7", ""), timed(schedule.DailyAt, "02:30,12:00", "Europe/Berlin"),
		timed(schedule.DailyAt, "02:30,12:00", "Asia/Tokyo"), // the same words with other times
		timed(schedule.Cron, "*/20 1-3 * * *", "Europe/London"),
		timed(schedule.HourlyAtMinute, "0,30", "Asia/Kathmandu"), timed(schedule.Interval, "1h", ""),
	}
	ids := make([]uuid.UUID, len(specs))
	for i, spec := range specs {
		ids[i] = w.define(t, spec, began)
	}
	cfg := w.config()
	cfg.Sweeps = &fastClock{cfg.Sweeps, &clock, 47 * time.Minute}
	leaders := []*node{start(t, cfg), start(t, cfg)}
	for turn := 0; clock.Load() < end.Unix(); turn++ {
		before := clock.Load()
		patience.Until(t, "somebody leads", func() bool { return clock.Load() > before+3600*9 })
		switch turn % 3 {
		case 0: // the leader stops and another node begins
			for i, n := range leaders {
				if n.epoch.Load() != 0 {
					n.stop()
					leaders[i] = start(t, cfg)
				}
			}
		case 1: // the leader is deposed in the middle of its work
			w.exec(t, `UPDATE jobs.leader SET expires_at = clock_timestamp()`)
		case 2: // the next slots are lost
			w.exec(t, `UPDATE jobs.job_definitions SET next_due_at = NULL WHERE id = $1`, ids[turn%len(ids)])
			w.exec(t, `UPDATE jobs.leader SET expires_at = clock_timestamp()`) // the next leader checks all
		}
	}
	epochs := w.count(t, `SELECT epoch FROM jobs.leader`)
	patience.Until(t, "all have come that far", func() bool {
		return w.count(t, `SELECT count(*) FROM jobs.job_definitions WHERE last_materialized_at >= $1`, end) == len(ids)
	})
	for _, n := range leaders {
		n.stop()
	}
	if epochs < 5 {
		t.Errorf("only %d leaders", epochs)
	}
	for i, id := range ids {
		var upTo time.Time
		if err := w.see.QueryRowContext(t.Context(), `SELECT last_materialized_at FROM jobs.job_definitions WHERE id = $1`, id).Scan(&upTo); err != nil {
			t.Fatal(err)
		}
		s, err := specs[i].Schedule.Compile()
		if err != nil {
			t.Fatal(err)
		}
		var want []time.Time
		for _, tick := range s.Ticks(began, upTo, 100_000) {
			want = append(want, tick.At)
		}
		if diff := cmp.Diff(want, w.slotsOf(t, id)); diff != "" {
			t.Errorf("%s %s: %s", specs[i].Schedule.Type, specs[i].Schedule.Value, diff)
		}
	}
}

// F45: a lost next slot is restored within a minute.
func TestALostNextSlotIsRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Now().UTC()
	lost, late := w.define(t, timed(schedule.Interval, "1h", ""), now),
		w.define(t, timed(schedule.Interval, "1h", ""), now)
	w.exec(t, `UPDATE jobs.job_definitions SET next_due_at = NULL WHERE id = $1`, lost)
	w.exec(t, `UPDATE jobs.job_definitions SET next_due_at = now() + interval '1 year' WHERE id = $1`, late)
	start(t, w.config())
	patience.Until(t, "both are right", func() bool {
		return w.count(t, `SELECT count(*) FROM jobs.job_definitions WHERE next_due_at BETWEEN now() - interval '2 hours' AND now() + interval '2 hours'`) == 2
	})
}

// F46: a schedule that cannot be used does not delay others, and is tried again.
func TestAScheduleThatCannotBeUsedIsSkippedForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Now().UTC().Add(-2 * time.Minute).Truncate(time.Second)
	bad := w.define(t, timed(schedule.EveryNMinutes, "1", "Mars/Olympus"), now)
	good := w.define(t, timed(schedule.EveryNMinutes, "1", ""), now)
	start(t, w.config())
	patience.Until(t, "the good one has runs", func() bool { return len(w.slotsOf(t, good)) >= 2 })
	patience.Until(t, "the bad one waits", func() bool {
		return w.count(t, `SELECT count(*) FROM jobs.job_definitions WHERE id = $1 AND next_due_at > now() AND last_materialized_at = $2`, bad, now) == 1
	})
}

// refusing wraps sweeps and refuses to store the slots of one definition.
type refusing struct {
	jobrun.Sweeps
	bad uuid.UUID
}

func (r *refusing) Materialize(ctx context.Context, t jobrun.Term, slots []jobrun.Slot,
	advances []jobrun.Advance) (int, error) {
	for i := range slots {
		if slots[i].Run.DefinitionID == r.bad {
			return 0, sql.ErrConnDone // any error that is not a fault
		}
	}
	return r.Sweeps.Materialize(ctx, t, slots, advances)
}

func TestADefinitionWhoseSlotsAreRefusedDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Now().UTC().Add(-2 * time.Minute).Truncate(time.Second)
	bad, good := w.define(t, timed(schedule.EveryNMinutes, "1", ""), now),
		w.define(t, timed(schedule.EveryNMinutes, "1", ""), now)
	cfg := w.config()
	cfg.Sweeps = &refusing{cfg.Sweeps, bad}
	a := start(t, cfg)
	patience.Until(t, "the good one has runs", func() bool { return len(w.slotsOf(t, good)) >= 2 })
	patience.Until(t, "rounds go on", func() bool { return a.rounds.Load() > 3 })
	if n := w.count(t, `SELECT count(*) FROM jobs.job_definitions WHERE id = $1 AND next_due_at > now() AND last_materialized_at = $2`, bad, now); n != 1 {
		t.Error("what was refused counts as made")
	}
}
