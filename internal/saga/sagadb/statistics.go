package sagadb

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/statistics"
)

// sagaStatistics counts sagas by definition and state. A second kind of row, without a state,
// counts the sagas that need attention. Both come from one statement, and so from one snapshot.
const sagaStatistics = `
SELECT workflow_name,
       workflow_version,
       state,
       sum(sagas)::bigint,
       sum(timed)::bigint,
       sum(duration_us)::bigint,
       max(last_update),
       statement_timestamp()
  FROM saga.count_sagas($1, $2, $3, $4)
 GROUP BY 1, 2, 3
UNION ALL
SELECT workflow_name, workflow_version, NULL, count(*), 0, 0, max(updated_at), statement_timestamp()
  FROM saga.saga_states
 WHERE tenant_id = $1 AND needs_attention AND ($2::varchar IS NULL OR workflow_name = $2)
   AND created_at >= coalesce($3, '-infinity'::timestamptz) AND created_at < coalesce($4, 'infinity'::timestamptz)
 GROUP BY 1, 2`

// Statistics implements statistics.Reports.
func (st *Sagas) Statistics(ctx context.Context, tenant uuid.UUID, f statistics.StatisticsFilter,
) (statistics.Statistics, error) {
	var out statistics.Statistics
	type definition struct {
		name    string
		version int
	}
	found := map[definition]*statistics.DefinitionStatistics{}
	err := st.db.ListTenant(ctx, tenant, sagaStatistics, func(rows *sql.Rows) error {
		var d definition
		var state *saga.State
		var sagas, timed, micros int64
		var last time.Time
		if err := rows.Scan(&d.name, &d.version, &state, &sagas, &timed, &micros, &last, &out.AsOf); err != nil {
			return err
		}
		s := found[d]
		if s == nil {
			s = &statistics.DefinitionStatistics{WorkflowName: d.name, WorkflowVersion: d.version}
			found[d] = s
		}
		if state == nil {
			s.NeedsAttention = sagas
			return nil
		}
		s.ByState[*state] += sagas
		s.Timed += timed
		s.Duration += time.Duration(micros) * time.Microsecond
		if last.After(s.LastExecution) {
			s.LastExecution = last.UTC()
		}
		return nil
	}, tenant, postgres.NilIfZero(f.WorkflowName), postgres.NilIfZero(f.CreatedFrom), postgres.NilIfZero(f.CreatedTo))
	if err != nil {
		return out, fmt.Errorf("count sagas by workflow: %w", err)
	}
	if len(found) == 0 {
		if err := st.db.ListTenant(ctx, tenant, `SELECT statement_timestamp()`,
			func(rows *sql.Rows) error { return rows.Scan(&out.AsOf) }); err != nil {
			return out, fmt.Errorf("read the clock: %w", err)
		}
	}
	postgres.UTC(&out.AsOf)
	for _, s := range found {
		out.Definitions = append(out.Definitions, *s)
	}
	slices.SortFunc(out.Definitions, func(a, b statistics.DefinitionStatistics) int {
		if c := strings.Compare(a.WorkflowName, b.WorkflowName); c != 0 {
			return c
		}
		return a.WorkflowVersion - b.WorkflowVersion
	})
	return out, nil
}

// catchUp limits the work of one call of RollUp; the next call continues.
const catchUp = 5 * time.Second

// RollUp implements statistics.Reports. Each part has a transaction of its own.
func (st *Sagas) RollUp(ctx context.Context) error {
	for begun := time.Now(); time.Since(begun) < catchUp; {
		var more bool
		if err := st.db.Read.GetContext(ctx, &more, `SELECT saga.roll_up_sagas()`); err != nil {
			return fmt.Errorf("roll up sagas: %w", err)
		}
		if !more {
			return nil
		}
	}
	return nil
}
