package sagadb

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

// sagaSeries adds up, by bucket and state, the sagas that are rolled up, those that are not yet,
// and those that cannot be (saga.count_sagas does the same without buckets). The counts of each
// workflow are found by their own range of the key. $5 is the span of the counts, and $6 the length
// of a bucket in seconds.
const sagaSeries = `
WITH RECURSIVE named AS (
	SELECT $2::varchar AS name WHERE $2::varchar IS NOT NULL
	UNION ALL
	(SELECT c.workflow_name FROM saga.saga_counts c
	  WHERE $2::varchar IS NULL AND c.span = $5 AND c.tenant_id = $1 ORDER BY c.workflow_name LIMIT 1)
	UNION ALL
	SELECT (SELECT c.workflow_name FROM saga.saga_counts c
	         WHERE c.span = $5 AND c.tenant_id = $1 AND c.workflow_name > n.name ORDER BY c.workflow_name LIMIT 1)
	  FROM named n WHERE $2::varchar IS NULL AND n.name IS NOT NULL
), counted AS (
	SELECT c.begins AS at, c.state, c.sagas
	  FROM named n CROSS JOIN LATERAL (
		SELECT begins, state, sagas FROM saga.saga_counts
		 WHERE span = $5 AND tenant_id = $1 AND workflow_name = n.name AND begins >= $3 AND begins < $4 OFFSET 0) AS c
	UNION ALL
	SELECT s.created_at, s.state, 1
	  FROM saga.sagas_created($1, greatest($3::timestamptz, (SELECT created_before FROM saga.saga_counts_horizon)),
	                          $4) AS s
	 WHERE $2::varchar IS NULL OR s.workflow_name = $2
	UNION ALL
	SELECT p.created_at, p.state, 1 FROM saga.sagas_pending($1) AS p
	 WHERE p.created_at >= $3 AND p.created_at < $4 AND ($2::varchar IS NULL OR p.workflow_name = $2)
)
SELECT floor(extract(epoch FROM at - $3::timestamptz) / $6::bigint)::int, state, sum(sagas)::bigint
  FROM counted
 GROUP BY 1, 2`

// seriesDurations reads the newest sagas of each bucket, at most $5 per bucket. A bucket is $3
// seconds long. %s restricts them to workflow $6 by an index; without it they are read in the order
// of the lists.
const seriesDurations = `
SELECT n,
       count(took),
       coalesce(percentile_disc(0.5) WITHIN GROUP (ORDER BY took), 0),
       coalesce(percentile_disc(0.95) WITHIN GROUP (ORDER BY took), 0)
  FROM generate_series(0, $4::int - 1) AS n CROSS JOIN LATERAL (SELECT took FROM (
	(SELECT created_at, (extract(epoch FROM completed_at - started_at) * 1000000)::bigint AS took FROM saga.saga_states
	  WHERE tenant_id = $1
	    AND created_at >= $2::timestamptz + n * $3::bigint * interval '1 second'
	    AND created_at < $2::timestamptz + (n + 1) * $3::bigint * interval '1 second' %[1]s
	  ORDER BY created_at DESC LIMIT $5)
	UNION ALL
	(SELECT created_at, (extract(epoch FROM completed_at - started_at) * 1000000)::bigint FROM saga.saga_states_archive
	  WHERE tenant_id = $1
	    AND created_at >= $2::timestamptz + n * $3::bigint * interval '1 second'
	    AND created_at < $2::timestamptz + (n + 1) * $3::bigint * interval '1 second' %[1]s
	  ORDER BY created_at DESC LIMIT $5)) AS both_tables ORDER BY created_at DESC LIMIT $5) AS read
 GROUP BY n`

var (
	durationsOfAll      = fmt.Sprintf(seriesDurations, "")
	durationsOfWorkflow = fmt.Sprintf(seriesDurations, "AND workflow_name = $6")
)

// span returns the span of saga_counts whose rows fit into buckets of the given length.
func span(bucket time.Duration) string {
	switch {
	case bucket < time.Hour:
		return "min"
	case bucket < 24*time.Hour:
		return "hour"
	}
	return "day"
}

// Series implements statistics.Reports.
func (st *Sagas) Series(ctx context.Context, tenant uuid.UUID, f statistics.SeriesFilter) (statistics.Series, error) {
	out := statistics.Series{Buckets: make([]statistics.SeriesBucket, f.Buckets())}
	seconds := int64(f.Bucket / time.Second)
	durations, args := durationsOfAll, []any{tenant, f.From, seconds, f.Buckets(), f.TimedEach()}
	if f.WorkflowName != "" {
		durations, args = durationsOfWorkflow, append(args, f.WorkflowName)
	}
	err := st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		if err := tx.QueryRowContext(ctx, `SELECT now()`).Scan(&out.AsOf); err != nil {
			return err
		}
		err := eachIn(ctx, tx, func(rows *sql.Rows) error {
			var n int
			var state saga.State
			var sagas int64
			if err := rows.Scan(&n, &state, &sagas); err != nil {
				return err
			}
			out.Buckets[n].ByState[state] += sagas
			return nil
		}, sagaSeries, tenant, postgres.NilIfZero(f.WorkflowName), f.From, f.To, span(f.Bucket), seconds)
		if err != nil {
			return err
		}
		return eachIn(ctx, tx, func(rows *sql.Rows) error {
			var n, timed int
			var p50, p95 int64
			if err := rows.Scan(&n, &timed, &p50, &p95); err != nil {
				return err
			}
			out.Buckets[n].Durations = statistics.Durations{
				Count: timed, P50: time.Duration(p50) * time.Microsecond, P95: time.Duration(p95) * time.Microsecond,
			}
			return nil
		}, durations, args...)
	})
	if err != nil {
		return out, fmt.Errorf("count sagas over time: %w", err)
	}
	postgres.UTC(&out.AsOf)
	return out, nil
}

func eachIn(ctx context.Context, tx *sqlx.Tx, row func(*sql.Rows) error, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	return postgres.EachRow(rows, func() error { return row(rows) })
}
