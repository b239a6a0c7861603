package sagadb

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

// callsTo reads the last ended attempt of each call to a host or participant ($3) made by the
// newest sagas: $5 sagas of a workflow ($2), and $5 of all workflows, except the saga $4. The few
// definitions of these sagas show which steps call it, so each call takes one lookup in the index
// of step logs.
const callsTo = `
WITH asked AS MATERIALIZED (
	(SELECT id, workflow_name, workflow_version FROM saga.saga_states
	  WHERE tenant_id = $1 AND workflow_name = $2 ORDER BY created_at DESC, id DESC LIMIT $5)
	UNION
	(SELECT id, workflow_name, workflow_version FROM saga.saga_states
	  WHERE tenant_id = $1 ORDER BY created_at DESC, id DESC LIMIT $5)
), calls AS MATERIALIZED (
	SELECT d.name, d.version, (o.place - 1)::int AS step_index, c.action
	  FROM (SELECT DISTINCT workflow_name, workflow_version FROM asked) AS v
	 CROSS JOIN LATERAL (
		SELECT d.name,
		       d.version,
		       CASE jsonb_typeof(d.definition->'steps') WHEN 'array' THEN d.definition->'steps' END AS steps
		  FROM saga.workflow_definitions d
		 WHERE d.tenant_id = $1 AND d.name = v.workflow_name AND d.version = v.workflow_version OFFSET 0) AS d
	 CROSS JOIN LATERAL jsonb_array_elements(d.steps) WITH ORDINALITY AS o (step, place)
	 CROSS JOIN LATERAL (VALUES ('EXECUTE', o.step#>'{action,http}'),
	                            ('COMPENSATE', o.step#>'{compensation,http}')) AS c (action, http)
	 WHERE coalesce('participant ' || (c.http->>'participant'),
	                lower(substring(c.http->>'url' FROM '^[A-Za-z]+://([^/?#]+)'))) = $3
)
SELECT l.completed_at, l.status, l.class
  FROM asked a
  JOIN calls c ON c.name = a.workflow_name AND c.version = a.workflow_version
 CROSS JOIN LATERAL (
	SELECT l.completed_at, l.status, coalesce(l.error->>'type', '') AS class FROM saga.saga_step_logs l
	 WHERE l.saga_id = a.id AND l.step_index = c.step_index AND l.action = c.action AND l.tenant_id = $1
	   AND l.completed_at IS NOT NULL
	 ORDER BY l.attempt DESC LIMIT 1) AS l
 WHERE a.id <> $4`

// Calls implements statistics.Reports.
func (st *Sagas) Calls(
	ctx context.Context, tenant uuid.UUID, f statistics.CallsFilter,
) (calls []statistics.OtherCall, err error) {
	err = st.db.ListTenant(ctx, tenant, callsTo, func(rows *sql.Rows) error {
		var c statistics.OtherCall
		if err := rows.Scan(&c.At, &c.Status, &c.Class); err != nil {
			return err
		}
		postgres.UTC(&c.At)
		calls = append(calls, c)
		return nil
	}, tenant, f.WorkflowName, f.Host, f.Except, statistics.MostCallers)
	if err != nil {
		return nil, fmt.Errorf("read the calls to a participant: %w", err)
	}
	return calls, nil
}
