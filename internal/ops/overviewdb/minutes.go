package overviewdb

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/ops/overview"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// lettersByMinute counts the newest $4 letters of a period by minute number. It uses the index of
// arrival times, so that even a flood of letters is counted in bounded time.
const lettersByMinute = `
SELECT floor(extract(epoch FROM m.created_at - $2::timestamptz) / 60)::int, count(*)
  FROM (SELECT created_at FROM dlq.dlq_messages
         WHERE tenant_id = $1 AND created_at >= $2 AND created_at < $3 ORDER BY created_at DESC LIMIT $4) AS m
 GROUP BY 1`

// sagasByMinute counts the sagas created in a period by minute number, in bounded time no matter
// how many there are. Sagas that ended before the horizon of the roll-up have already been counted
// (saga.saga_counts). Of three other sets (sagas created since the horizon, unfinished ones, and
// those whose compensation gave up), the newest $4 each are read. The last column is the minute of
// the horizon.
var sagasByMinute = fmt.Sprintf(`
WITH RECURSIVE horizon AS MATERIALIZED (
	SELECT least(greatest(created_before, $2::timestamptz), $3::timestamptz) AS at FROM saga.saga_counts_horizon
), named AS (
	(SELECT c.workflow_name AS name FROM saga.saga_counts c
	  WHERE c.span = 'min' AND c.tenant_id = $1 ORDER BY c.workflow_name LIMIT 1)
	UNION ALL
	SELECT (SELECT c.workflow_name FROM saga.saga_counts c
	         WHERE c.span = 'min' AND c.tenant_id = $1 AND c.workflow_name > n.name ORDER BY c.workflow_name LIMIT 1)
	  FROM named n WHERE n.name IS NOT NULL
), found AS (
	SELECT '%[1]s' AS part, c.begins AS at, c.sagas AS n, c.state <> %[5]d AS failed
	  FROM named CROSS JOIN LATERAL (
		SELECT begins, state, sagas FROM saga.saga_counts
		 WHERE span = 'min' AND tenant_id = $1 AND workflow_name = named.name AND begins >= $2 AND begins < $3 OFFSET 0) AS c
	UNION ALL
	(SELECT '%[2]s', s.created_at, 1, coalesce(s.ended_state <> %[5]d, false) FROM saga.saga_states s
	  WHERE s.tenant_id = $1 AND s.created_at >= (SELECT at FROM horizon) AND s.created_at < $3
	  ORDER BY s.created_at DESC, s.id DESC LIMIT $4)
	UNION ALL
	(SELECT '%[3]s', s.created_at, 1, false FROM saga.saga_states s
	  WHERE s.tenant_id = $1 AND s.completed_at IS NULL AND s.created_at >= $2 AND s.created_at < (SELECT at FROM horizon)
	  ORDER BY s.created_at DESC, s.id DESC LIMIT $4)
	UNION ALL
	(SELECT '%[4]s', s.created_at, 1, true FROM saga.saga_states s
	  WHERE s.tenant_id = $1 AND s.ended_state <> %[5]d AND s.ended_state = %[6]d
	    AND s.created_at >= $2 AND s.created_at < (SELECT at FROM horizon)
	  ORDER BY s.created_at DESC, s.id DESC LIMIT $4)
)
SELECT part, floor(extract(epoch FROM at - $2::timestamptz) / 60)::int, sum(n)::bigint,
       coalesce(sum(n) FILTER (WHERE failed), 0)::bigint,
       (SELECT floor(extract(epoch FROM at - $2::timestamptz) / 60)::int FROM horizon)
  FROM found
 GROUP BY 1, 2`, overview.RolledUp, overview.Fresh, overview.Unfinished, overview.GaveUp, saga.Completed, saga.Failed)

// readMinutes counts the activity in the minutes before a given time.
func readMinutes(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, at time.Time) ([]overview.Minute, error) {
	from, to := overview.LastMinutes(at)
	counts := overview.MinuteCounts{Letters: map[int]int64{}}
	rows, err := tx.QueryContext(ctx, lettersByMinute, tenant, from, to, overview.MostByMinute+1)
	if err != nil {
		return nil, err
	}
	err = postgres.EachRow(rows, func() error {
		var n int
		var count int64
		err := rows.Scan(&n, &count)
		counts.Letters[n] = count
		return err
	})
	if err != nil {
		return nil, err
	}
	rows, err = tx.QueryContext(ctx, sagasByMinute, tenant, from, to, overview.MostByMinute+1)
	if err != nil {
		return nil, err
	}
	err = postgres.EachRow(rows, func() error {
		var c overview.SagaCount
		err := rows.Scan(&c.Part, &c.Minute, &c.Started, &c.Failed, &counts.Horizon)
		counts.Sagas = append(counts.Sagas, c)
		return err
	})
	return counts.Minutes(from), err
}
