package sagadb

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

// sampledSagas samples the sagas of a workflow. It divides the time between the first and the last
// saga of the period into $6 equal parts, so that the sagas of a busy hour fill more than one part.
// It takes the newest $7 of each part, keeps those of version $5 (0 means all), and returns $8 of
// them, starting with the newest of each part. It also reports whether a part has more.
const sampledSagas = `
WITH bounds AS MATERIALIZED (
	SELECT greatest($3::timestamptz, least(
	         (SELECT min(created_at)
	            FROM saga.saga_states
	           WHERE tenant_id = $1 AND workflow_name = $2 AND created_at >= $3 AND created_at < $4),
	         (SELECT min(created_at)
	            FROM saga.saga_states_archive
	           WHERE tenant_id = $1 AND workflow_name = $2 AND created_at >= $3 AND created_at < $4))) AS first,
	       least($4::timestamptz, interval '1 ms' + greatest(
	         (SELECT max(created_at)
	            FROM saga.saga_states
	           WHERE tenant_id = $1 AND workflow_name = $2 AND created_at >= $3 AND created_at < $4),
	         (SELECT max(created_at)
	            FROM saga.saga_states_archive
	           WHERE tenant_id = $1 AND workflow_name = $2 AND created_at >= $3 AND created_at < $4))) AS beyond
), ranked AS (
	SELECT s.id,
	       s.archived,
	       s.workflow_version,
	       s.created_at,
	       row_number() OVER (PARTITION BY n ORDER BY s.created_at DESC) AS rank
	  FROM bounds CROSS JOIN generate_series(0, $6::int - 1) AS n
	 CROSS JOIN LATERAL (SELECT bounds.first + (bounds.beyond - bounds.first) / $6::int * n AS first,
	                            CASE WHEN n = $6::int - 1 THEN bounds.beyond
	                                 ELSE bounds.first + (bounds.beyond - bounds.first) / $6::int * (n + 1)
	                                 END AS beyond) AS part
	 CROSS JOIN LATERAL (
		(SELECT id, created_at, workflow_version, false AS archived FROM saga.saga_states
		  WHERE tenant_id = $1 AND workflow_name = $2 AND created_at >= part.first AND created_at < part.beyond
		  ORDER BY created_at DESC
		  LIMIT $7 + 1)
		UNION ALL
		(SELECT id, created_at, workflow_version, true FROM saga.saga_states_archive
		  WHERE tenant_id = $1 AND workflow_name = $2 AND created_at >= part.first AND created_at < part.beyond
		  ORDER BY created_at DESC
		  LIMIT $7 + 1)) AS s
), kept AS (
	SELECT id, archived
	  FROM ranked
	 WHERE rank <= $7 AND ($5::int = 0 OR workflow_version = $5)
	 ORDER BY rank, created_at DESC
	 LIMIT $8
)
SELECT ARRAY(SELECT id FROM kept WHERE NOT archived), ARRAY(SELECT id FROM kept WHERE archived),
       coalesce((SELECT max(rank) FROM ranked) > $7, false)`

// sampledAttempts reads the step logs of %s by saga, in key order. Operators' decisions are marked
// as such (see saga.StepLog.Sampled).
const sampledAttempts = `
SELECT p.id,
       l.step_index,
       l.step_name,
       l.action,
       l.attempt,
       l.status,
       l.final,
       l.outcome_code,
       l.started_at,
       l.completed_at
  FROM unnest($2::uuid[]) AS p (id) CROSS JOIN LATERAL (
	SELECT step_index, step_name, action, attempt, status, final, started_at, completed_at,
	       CASE WHEN status = 'SKIPPED'
	            AND outcome_code IS NULL
	            AND response_payload IS NOT NULL THEN 'operator' ELSE coalesce(outcome_code, '') END AS outcome_code
	  FROM saga.%s WHERE saga_id = p.id AND tenant_id = $1 ORDER BY step_index, action, attempt OFFSET 0) AS l
 LIMIT $3`

var (
	liveAttempts     = fmt.Sprintf(sampledAttempts, "saga_step_logs")
	archivedAttempts = fmt.Sprintf(sampledAttempts, "saga_step_logs_archive")
)

// examined is how many sagas of a workflow are searched for sagas of one version.
const examined = 4 * statistics.MostSampledSagas

// Attempts implements statistics.Reports. If the period has few sagas, all of them are read.
// Otherwise it reads a sample with the same number of sagas from each part of the period.
func (st *Sagas) Attempts(ctx context.Context, tenant uuid.UUID, f statistics.AttemptFilter,
) (statistics.AttemptSample, error) {
	var out statistics.AttemptSample
	err := st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		var live, archived pq.StringArray
		pick := func(parts, each int) error {
			return tx.QueryRowContext(ctx, sampledSagas, tenant, f.WorkflowName, f.From, f.To, f.WorkflowVersion,
				parts, each, statistics.MostSampledSagas+1).Scan(&live, &archived, &out.Sampled)
		}
		each := statistics.MostSampledSagas
		if f.WorkflowVersion != 0 {
			each = examined
		}
		if err := pick(1, each); err != nil {
			return err
		}
		if out.Sampled || len(live)+len(archived) > statistics.MostSampledSagas {
			if err := pick(statistics.SampleParts, examined/statistics.SampleParts); err != nil {
				return err
			}
			out.Sampled = true
			live = live[:min(len(live), statistics.MostSampledSagas)]
			archived = archived[:min(len(archived), statistics.MostSampledSagas-len(live))]
		}
		out.Sagas = len(live) + len(archived)
		if err := readAttempts(ctx, tx, &out, liveAttempts, tenant, live); err != nil {
			return err
		}
		return readAttempts(ctx, tx, &out, archivedAttempts, tenant, archived)
	})
	if err != nil {
		return out, fmt.Errorf("read attempts of steps: %w", err)
	}
	return out, nil
}

func readAttempts(
	ctx context.Context, tx *sqlx.Tx, out *statistics.AttemptSample, query string, tenant uuid.UUID, ids pq.StringArray,
) error {
	left := statistics.MostSampledAttempts - len(out.Attempts)
	if len(ids) == 0 {
		return nil
	}
	return eachIn(ctx, tx, func(rows *sql.Rows) error {
		if left == 0 {
			out.Sampled = true
			return nil
		}
		left--
		var a statistics.SampledAttempt
		var ended sql.NullTime
		err := rows.Scan(&a.SagaID, &a.StepIndex, &a.StepName, &a.Action, &a.Attempt, &a.Status, &a.Final, &a.Outcome,
			&a.StartedAt, &ended)
		a.EndedAt = ended.Time
		postgres.UTC(&a.StartedAt, &a.EndedAt)
		out.Attempts = append(out.Attempts, a)
		return err
	}, query, tenant, ids, left+1)
}
