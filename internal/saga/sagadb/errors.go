package sagadb

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

// Errors implements statistics.Reports.
func (st *Sagas) Errors(
	ctx context.Context, tenant uuid.UUID, f statistics.ErrorFilter,
) (out statistics.Errors, err error) {
	query, args := groupErrors(tenant, f)
	err = st.db.ListTenant(ctx, tenant, query, func(rows *sql.Rows) error {
		var g statistics.ErrorGroup
		var states int
		var ended, unfinished int64
		if err := rows.Scan(&g.WorkflowName, &g.Step, &g.Action, &g.Code, &states, &g.Count, &g.Attention,
			&g.First, &g.Last, &g.Sample, &ended, &unfinished); err != nil {
			return err
		}
		for _, s := range saga.States {
			if states>>s&1 == 1 {
				g.States = append(g.States, s)
			}
		}
		postgres.UTC(&g.First)
		postgres.UTC(&g.Last)
		out.Groups = append(out.Groups, g)
		out.Examined, out.Capped = ended+unfinished, max(ended, unfinished) >= statistics.MostExamined
		return nil
	}, args...)
	if err != nil {
		return statistics.Errors{}, fmt.Errorf("group the errors of sagas: %w", err)
	}
	return out, nil
}

// groupErrors returns the query for the groups. Ended sagas are read from idx_saga_state alone, and
// the unfinished sagas that need attention are few. At most MostExamined sagas of each kind are
// examined, the latest first.
func groupErrors(tenant uuid.UUID, f statistics.ErrorFilter) (query string, args []any) {
	list := saga.Filter{WorkflowName: f.WorkflowName, NeedsAttention: f.NeedsAttention,
		CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo, EndedFrom: f.EndedFrom, EndedTo: f.EndedTo}
	ended, live := sagaWhere{}, sagaWhere{}
	ended.Add(isNot("s.ended_state", saga.Completed))
	ended.sagas(tenant, list)
	if f.States != nil {
		ended.Add("s.ended_state" + postgres.Among(only(f.States, saga.State.Terminal)))
	}
	live.Args = ended.Args
	live.Add("s.needs_attention AND s.completed_at IS NULL")
	live.sagas(tenant, list)
	if f.States != nil {
		live.Add("s.state" + postgres.Among(only(f.States, isLive)))
	}
	return fmt.Sprintf(`
WITH ended AS MATERIALIZED (
	SELECT workflow_name,
	       error_step AS step,
	       coalesce(error_action, CASE ended_state WHEN 6 THEN 'COMPENSATE' ELSE 'EXECUTE' END) AS action,
	       error_code AS code,
	       bit_or(1 << ended_state) AS states,
	       count(*) AS n,
	       count(*) FILTER (WHERE needs_attention) AS attention,
	       min(completed_at) AS first,
	       max(completed_at) AS last,
	       max(id::text) AS sample
	  FROM (SELECT s.workflow_name, s.error_step, s.error_action, s.error_code, s.ended_state, s.needs_attention,
	        s.completed_at, s.id
	          FROM saga.saga_states s WHERE %[1]s ORDER BY s.created_at DESC, s.id DESC LIMIT %[3]d) AS s
	 GROUP BY 1, 2, 3, 4
), unfinished AS MATERIALIZED (
	SELECT s.workflow_name, (SELECT d.definition->'steps'->s.current_step->>'name' FROM saga.workflow_definitions d
	         WHERE d.tenant_id = s.tenant_id AND d.name = s.workflow_name AND d.version = s.workflow_version) AS step,
	       CASE s.state WHEN 4 THEN 'COMPENSATE' ELSE 'EXECUTE' END AS action,
	       s.code,
	       1 << s.state AS states,
	       s.n,
	       s.n AS attention,
	       s.first, s.last, s.sample
	  FROM (SELECT tenant_id, workflow_name, workflow_version, current_step, state, code, count(*) AS n,
	               min(attention_since) AS first, max(attention_since) AS last, max(id::text) AS sample
	          FROM (SELECT s.tenant_id, s.workflow_name, s.workflow_version, s.current_step, s.state::int AS state,
	                s.error->>'code' AS code,
	                       s.attention_since, s.id
	                  FROM saga.saga_states s WHERE %[2]s ORDER BY s.created_at DESC, s.id DESC LIMIT %[3]d) AS s
	         GROUP BY 1, 2, 3, 4, 5, 6) AS s
)
SELECT workflow_name,
       coalesce(step, ''),
       action,
       coalesce(code, ''),
       bit_or(states),
       sum(n)::bigint,
       sum(attention)::bigint,
       min(first),
       max(last),
       max(sample),
       coalesce((SELECT sum(n) FROM ended), 0)::bigint,
       coalesce((SELECT sum(n) FROM unfinished), 0)::bigint
  FROM (TABLE ended UNION ALL TABLE unfinished) AS g GROUP BY workflow_name, step, action, code
 ORDER BY sum(n) DESC, workflow_name COLLATE "C", 2, 3, 4 LIMIT %[4]d`,
		ended.Text(), live.Text(), statistics.MostExamined, statistics.MostErrorGroups), live.Args
}
