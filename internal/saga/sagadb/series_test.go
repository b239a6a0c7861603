package sagadb_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/saga/statistics"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// manySagas are 6,000 sagas of each of two workflows, created in the last three days, in all
// states, with two attempts each.
const manySagas = `
INSERT INTO saga.saga_states (tenant_id, workflow_name, workflow_version, saga_type, total_steps, state, created_at, updated_at, started_at, completed_at, clean)
SELECT $1, 'w' || i % 2, 1 + i % 4 / 2, 'w', 3, state, at, at, at, CASE WHEN state IN (3, 5, 6, 7, 8) THEN at + i * interval '1 ms' END,
       CASE WHEN state IN (3, 5, 7, 8) THEN true WHEN state = 6 THEN false END
  FROM (SELECT i, CASE WHEN i % 10 < 9 THEN i % 9 ELSE 3 END AS state, $2::timestamptz - i * interval '21 s' AS at FROM generate_series(1, 12000) AS i) AS s`

const theirLogs = `
INSERT INTO saga.saga_step_logs (saga_id, tenant_id, step_index, step_name, action, attempt, status, started_at, completed_at, outcome_code)
SELECT id, tenant_id, 0, 'reserve', 'EXECUTE', n, CASE n WHEN 1 THEN 'FAILED' ELSE 'SUCCESS' END, created_at, created_at + interval '1 s', 'http'
  FROM saga.saga_states, generate_series(1, 2) AS n`

func TestStatisticsOfManySagas(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	stores := pgtest.Connect(t, dsn)
	st, ctx := sagadb.NewSagas(stores), t.Context()
	hand := pgtest.Observer(t, dsn)
	now := time.Now().UTC().Truncate(time.Hour).Add(-5 * time.Minute)
	for _, s := range []struct {
		text string
		args []any
	}{{manySagas, []any{pgtest.Big, now}}, {theirLogs, nil}, {`ANALYZE saga.saga_states, saga.saga_step_logs`, nil}} {
		if _, err := hand.ExecContext(ctx, s.text, s.args...); err != nil {
			t.Fatal(err)
		}
	}

	// A series is the same whether its sagas are rolled up or not, and whether they are live or
	// archived.
	filters := []statistics.SeriesFilter{
		{Bucket: time.Hour, From: now.Truncate(time.Hour).Add(-60 * time.Hour), To: now.Truncate(time.Hour)},
		{WorkflowName: "w1", Bucket: 5 * time.Minute, From: now.Add(-24 * time.Hour), To: now},
		{Bucket: time.Minute, From: now.Add(-8 * time.Hour), To: now},
		{Bucket: 24 * time.Hour, From: now.Truncate(24*time.Hour).AddDate(0, 0, -5), To: now.Truncate(24 * time.Hour)},
	}
	series := func() (all [][]statistics.SeriesBucket) {
		for _, f := range filters {
			got, err := st.Series(ctx, pgtest.Big, f)
			if err != nil {
				t.Fatal(err)
			}
			var total int64
			for i := range got.Buckets {
				total += got.Buckets[i].Total()
			}
			if total < 600 {
				t.Errorf("%+v: only %d sagas", f, total)
			}
			all = append(all, got.Buckets)
		}
		return all
	}
	before := series()
	if err := st.RollUp(ctx); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Ask[int](t, stores.SQL(), `SELECT coalesce(sum(sagas), 0)::int FROM saga.saga_counts WHERE span = 'min'`); n == 0 {
		t.Error("nothing was rolled up")
	}
	if diff := cmp.Diff(before, series()); diff != "" {
		t.Errorf("rolled up (-before +after):\n%s", diff)
	}
	sampled(t, st, now)
	if n := pgtest.Ask[int](t, hand, `SELECT saga.archive_sagas(array_agg(id), array_agg(tenant_id))
		  FROM saga.saga_states WHERE state IN (3, 5, 7, 8)`); n < 5000 {
		t.Fatalf("%d archived", n)
	}
	if diff := cmp.Diff(before, series()); diff != "" {
		t.Errorf("archived (-before +after):\n%s", diff)
	}
	sampled(t, st, now)
}

// sampled checks that a period with many sagas is sampled evenly, and that a period with few is
// read completely.
func sampled(t *testing.T, st *sagadb.Sagas, now time.Time) {
	t.Helper()
	read := func(f statistics.AttemptFilter) (statistics.AttemptSample, map[int]int) {
		f.WorkflowName = "w1"
		got, err := st.Attempts(t.Context(), pgtest.Big, f)
		if err != nil {
			t.Fatal(err)
		}
		tenths := map[int]int{}
		for _, a := range got.Attempts {
			tenths[int(a.StartedAt.Sub(f.From)*10/f.To.Sub(f.From))]++
		}
		return got, tenths
	}
	all, tenths := read(statistics.AttemptFilter{From: now.Add(-70 * time.Hour), To: now})
	if all.Sagas != statistics.MostSampledSagas || !all.Sampled || len(all.Attempts) != 2*all.Sagas {
		t.Errorf("%d sagas and %d attempts, sampled: %v", all.Sagas, len(all.Attempts), all.Sampled)
	}
	for i := range 10 {
		if n := tenths[i]; n < 300 || n > 500 {
			t.Errorf("%d of the attempts are of tenth %d: %v", n, i, tenths)
			break
		}
	}
	hour, _ := read(statistics.AttemptFilter{From: now.Add(-time.Hour), To: now})
	if hour.Sampled || hour.Sagas < 80 || hour.Sagas > 90 {
		t.Errorf("of an hour: %d sagas, sampled: %v", hour.Sagas, hour.Sampled)
	}
	version, _ := read(statistics.AttemptFilter{WorkflowVersion: 2, From: now.Add(-20 * time.Hour), To: now})
	if version.Sampled || version.Sagas < 800 || version.Sagas > 900 {
		t.Errorf("of a version: %d sagas, sampled: %v", version.Sagas, version.Sampled)
	}
	steps := hour.ByStep()
	if len(steps) != 1 || steps[0].Retries != hour.Sagas || steps[0].Failed != hour.Sagas {
		t.Errorf("steps of an hour: %+v", steps)
	}
}
