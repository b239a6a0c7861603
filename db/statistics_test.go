package db_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// Both return the same for every saga: one reads all sagas, the other works like the API.
const (
	countedOneByOne = `SELECT concat_ws(' ', tenant_id, workflow_name, workflow_version, state, count(*), count(took), coalesce(sum(took), 0)::bigint, max(updated_at))
		FROM (SELECT *, extract(epoch FROM completed_at - started_at) * 1000000 AS took
		        FROM (SELECT id, tenant_id, workflow_name, workflow_version, state, started_at, completed_at, updated_at, created_at FROM saga.saga_states
		              UNION ALL SELECT id, tenant_id, workflow_name, workflow_version, state, started_at, completed_at, updated_at, created_at FROM saga.saga_states_archive) AS a) AS b
		WHERE created_at >= $1 AND created_at < $2
		GROUP BY tenant_id, workflow_name, workflow_version, state ORDER BY 1`
	countedByStatistics = `SELECT concat_ws(' ', t, workflow_name, workflow_version, state, sum(sagas), sum(timed), sum(duration_us)::bigint, max(last_update))
		FROM saga.saga_tenants() AS t, saga.count_sagas(t, NULL, $1, $2)
		GROUP BY t, workflow_name, workflow_version, state ORDER BY 1`
)

// agree compares them, for all time and for some hours.
func (s *story) agree(when string) {
	s.t.Helper()
	now := time.Now().UTC().Truncate(time.Hour)
	for _, hours := range [][2]time.Time{
		{now.AddDate(-10, 0, 0), now.AddDate(10, 0, 0)},
		{now.Add(-30 * time.Hour), now.AddDate(10, 0, 0)}, {now.Add(-60 * time.Hour), now.Add(-2 * time.Hour)},
		{now.Add(-4 * time.Hour), now.Add(-3 * time.Hour)}, {now.Add(-72 * time.Hour).Truncate(24 * time.Hour), now.Truncate(24 * time.Hour)},
	} {
		want := texts(s.t, s.pool, countedOneByOne, hours[0], hours[1])
		if diff := cmp.Diff(want, texts(s.t, s.pool, countedByStatistics, hours[0], hours[1])); diff != "" {
			s.t.Errorf("%s, created %v (-sagas +statistics):\n%s", when, hours, diff)
		}
	}
}

// rollUp covers everything that was created until now.
func (s *story) rollUp() {
	s.t.Helper()
	for ask[bool](s.t, s.pool, `SELECT saga.roll_up_sagas('0 s', '1 hour')`) {
	}
}

// old stores n ended, failed and waiting sagas from the last three days. One in twenty-five belongs
// to a tenant that has no others, because each tenant is queried separately.
func (s *story) old(n int) {
	s.t.Helper()
	execute(s.t, s.pool, `INSERT INTO saga.saga_states (tenant_id, workflow_name, workflow_version, saga_type, total_steps, state, created_at, updated_at, started_at, completed_at, clean)
		SELECT CASE WHEN i % 25 = 0 THEN gen_random_uuid() ELSE $2 END, 'w' || i % 3, 1 + i % 2, 'w', 3, state, at, at + took, CASE WHEN i % 7 > 0 THEN at END,
		       CASE WHEN state IN (3, 5, 6, 7, 8) THEN at + took END, CASE WHEN state IN (3, 5, 7, 8) THEN true WHEN state = 6 THEN false END
		  FROM (SELECT i, i % 9 AS state, now() - i * interval '72 hours' / $1::int AS at, i * interval '13 ms' AS took FROM generate_series(1, $1::int) AS i) AS s`, n, s.id)
}

func TestRollUpChangesNoStatistics(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.agree("without sagas")
	s.old(500)
	runs := s.library()
	s.agree("not rolled up")
	s.rollUp()
	s.agree("rolled up")
	rolled := ask[int](t, s.pool, `SELECT coalesce(sum(sagas), 0)::int FROM saga.saga_counts WHERE span = 'hour'`)
	if pending := ask[int](t, s.pool, `SELECT count(*) FROM saga.saga_counts_pending`); rolled == 0 || pending == 0 ||
		rolled+pending != 500+len(runs) {
		t.Errorf("%d are counted and %d pending, of %d", rolled, pending, 500+len(runs))
	}
	s.rollUp()
	s.agree("rolled up twice")
	s.spansAgree()

	// Pending sagas continue: waiting ones run to their end, and failed ones are reopened.
	for _, name := range []string{"waiting for a retry", "one step on"} {
		s.play(runs[name], saga.CancelRequested{By: "bob"}, false)
	}
	resumed := s.play(runs["a compensation gave up"], saga.ResumeRequested{By: "op"}, false)
	s.agree("touched")
	failed := s.play(resumed, s.refused(), false)
	s.agree("failed once more")
	s.rollUp()
	s.agree("failed once more, rolled up")
	s.play(s.play(failed, saga.ResumeRequested{By: "op"}, false), s.done(`{}`), false)
	s.agree("undone at last")
	s.rollUp()
	s.agree("undone at last, rolled up")

	if cleanup(t, s.pool, -time.Hour) == 0 {
		t.Error("nothing was archived")
	}
	s.agree("archived")
	s.rollUp()
	s.agree("archived, rolled up")
	s.library()
	cleanup(t, s.pool, -time.Hour)
	s.agree("archived before they were counted")
	s.rollUp()
	s.agree("archived before they were counted, rolled up")
	execute(t, s.pool, `DELETE FROM saga.saga_states WHERE completed_at IS NULL`)
	s.rollUp()
	if pending := ask[int](t, s.pool, `SELECT count(*) FROM saga.saga_counts_pending p
		WHERE NOT EXISTS (SELECT FROM saga.saga_states WHERE id = saga_id) AND NOT EXISTS (SELECT FROM saga.saga_states_archive WHERE id = saga_id)`); pending > 0 {
		t.Errorf("%d sagas are waited for that do not exist any more", pending)
	}
	s.agree("deleted by hand")
	execute(t, s.pool, `SELECT saga.recount_sagas()`)
	s.agree("counted anew")
	s.spansAgree()
}

// spansAgree checks that the counts of a saga by the minute, by the hour and by the day agree.
func (s *story) spansAgree() {
	s.t.Helper()
	sums := texts(s.t, s.pool, `SELECT sum(sagas) || ' ' || sum(duration_us) FROM saga.saga_counts GROUP BY span`)
	if len(sums) != 3 || sums[0] != sums[1] || sums[1] != sums[2] {
		s.t.Errorf("sums by the minute, hour and day: %q", sums)
	}
}

func TestMinutesAreKeptForFourDays(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.old(300)
	execute(t, s.pool, `INSERT INTO saga.saga_states (tenant_id, workflow_name, workflow_version, saga_type, total_steps, state, created_at, completed_at, clean)
		SELECT $1, 'w1', 1, 'w', 3, 3, now() - interval '5 days', now(), true FROM generate_series(1, 20)`, s.id)
	s.rollUp()
	const counted = `SELECT coalesce(sum(sagas), 0)::int FROM saga.saga_counts WHERE span = '%s' AND begins < now() - interval '4 days'`
	hours, minutes := ask[int](t, s.pool, fmt.Sprintf(counted, "hour")), ask[int](t, s.pool, fmt.Sprintf(counted, "min"))
	if hours == 0 || minutes != 0 {
		t.Errorf("of sagas more than four days old, %d are counted by the hour and %d by the minute", hours, minutes)
	}
	// Counts of sagas that were young when they were counted are deleted when they are old.
	execute(t, s.pool, `UPDATE saga.saga_counts SET begins = begins - interval '5 days' WHERE span = 'min'`)
	execute(t, s.pool, `DELETE FROM saga.saga_counts_pending`)
	execute(t, s.pool, `UPDATE saga.saga_counts_horizon SET created_before = now() - interval '2 hours'`)
	s.rollUp()
	if minutes := ask[int](t, s.pool, fmt.Sprintf(counted, "min")); minutes != 0 {
		t.Errorf("%d sagas are still counted by the minute after four days", minutes)
	}
}

// statementsOf returns both directions of a migration.
func statementsOf(t *testing.T, name string) (up, down string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("migrations", name))
	if err != nil {
		t.Fatal(err)
	}
	up, down, _ = strings.Cut(string(text), "-- +migrate Down")
	return up, down
}

// What was counted before counts by the minute existed is also there by the minute, once.
func TestMinutesOfBefore(t *testing.T) {
	t.Parallel()
	s := tell(t)
	up, down := statementsOf(t, "0267_sagas_over_time.sql")
	execute(t, s.pool, down)
	s.old(300)
	s.rollUp()
	if n := ask[int](t, s.pool, `SELECT count(*)::int FROM saga.saga_counts WHERE span = 'min'`); n != 0 {
		t.Fatalf("%d minutes", n)
	}
	execute(t, s.pool, `UPDATE saga.saga_states SET state = 3, completed_at = now(), clean = true WHERE state = 1`) // pending, and over
	execute(t, s.pool, up)
	s.spansAgree()
	s.rollUp()
	s.spansAgree()
	s.agree("by the minute")
}

func TestManyRollUpsAtOnceCountOnce(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.old(400)
	var work sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 2 {
		work.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.pool.ExecContext(t.Context(), `SELECT saga.roll_up_sagas('0 s', '3 hours')`); err != nil {
					t.Errorf("roll up: %v", err)
				}
			}
		})
	}
	// Meanwhile, the waiting sagas end and are archived and read.
	ids := texts(t, s.pool, `SELECT id FROM saga.saga_states WHERE completed_at IS NULL`)
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for chunk := range slices.Chunk(ids, 20) {
		execute(t, s.pool, `UPDATE saga.saga_states SET state = CASE WHEN state = 4 THEN 5 ELSE 3 END, completed_at = now(), clean = true
			WHERE id = ANY ($1::uuid[])`, "{"+strings.Join(chunk, ",")+"}")
		cleanup(t, s.pool, time.Hour)
		if n := ask[int](t, s.pool, `SELECT sum(sagas)::int FROM saga.count_sagas(NULL, NULL, NULL, NULL)`); n != 400 {
			t.Errorf("statistics of %d sagas, want 400", n)
		}
	}
	stop()
	work.Wait()
	s.rollUp()
	s.agree("at last")
}

// The roll-up leaves out a period that is longer than any create in progress, so no create can be
// missed.
func TestRollUpLeavesTheLatestTwoMinutesAlone(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.begin(nil)
	for ask[bool](t, s.pool, `SELECT saga.roll_up_sagas()`) {
	}
	late := ask[float64](t, s.pool, `SELECT extract(epoch FROM now() - created_before) FROM saga.saga_counts_horizon`)
	if late < 120 || late > 180 {
		t.Errorf("counted up to %v s ago, want two minutes", late)
	}
	s.begin(nil)
	s.agree("before the horizon reaches them")
}

func TestFailedSagasComeLatestFirstThoughTouchedAfterTheirEnd(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.old(90)
	touched := ask[uuid.UUID](t, s.pool, `SELECT id FROM saga.saga_states WHERE state = 6 ORDER BY created_at LIMIT 1`)
	execute(t, s.pool, `UPDATE saga.saga_states SET needs_attention = true WHERE id = $1`, touched)
	want := texts(t, s.pool, `SELECT id || ' ' || updated_at FROM saga.saga_states WHERE state IN (6, 7, 8) ORDER BY updated_at DESC`)
	if !strings.HasPrefix(want[0], touched.String()) {
		t.Fatalf("the latest is %s, want %s", want[0], touched)
	}
	if diff := cmp.Diff(want, texts(t, s.pool, `SELECT id || ' ' || updated_at FROM saga.failed_sagas`)); diff != "" {
		t.Errorf("failed_sagas (-want +got):\n%s", diff)
	}
}

func TestStepsToRetryAreThoseThatWaitForAnotherAttempt(t *testing.T) {
	t.Parallel()
	s := tell(t)
	runs := s.library()
	want := []string{}
	for _, name := range []string{"waiting for a retry", "waiting with an undo"} {
		run := runs[name]
		want = append(want, ask[string](t, s.pool, `SELECT $1::text || ':' || $2::int`, run.ID.String(), run.CurrentStep))
	}
	got := texts(t, s.pool, `SELECT id FROM saga.steps_to_retry`)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}
