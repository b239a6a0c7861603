package sagadb

import (
	"context"
	"database/sql"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

var awaiting = postgres.OfTenant(`
SELECT s.id FROM saga.saga_states s
  JOIN saga.saga_step_logs l ON l.saga_id = s.id AND l.tenant_id = s.tenant_id AND l.step_index = s.current_step
       AND l.action IN ('EXECUTE', 'COMPENSATE') AND l.attempt = s.step_attempt
 WHERE s.tenant_id = tenant.id AND s.id = ANY($2) AND s.completed_at IS NULL AND l.status = 'RUNNING'
   AND l.outcome_code = '`+reported.CodeLater+`'`, "")

// Awaiting implements callback.Store.
func (st *Sagas) Awaiting(
	ctx context.Context, tenant uuid.UUID, sagas []uuid.UUID,
) (map[uuid.UUID]bool, error) {
	all := map[uuid.UUID]bool{}
	err := st.db.ReadTenant(ctx, tenant, awaiting, func(rows *sql.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		all[id] = true
		return err
	}, pq.Array(sagas))
	return all, postgres.Wrap("find sagas that wait for reports", err)
}

// knownOrphan searches the saga's events for an earlier event about the same late report.
const knownOrphan = `
SELECT EXISTS (SELECT FROM saga.audit_events e
                WHERE e.saga_id = $1 AND e.tenant_id = $2 AND e.event_type = $3
                  AND e.step_index = $4 AND e.attempt = $5 AND e.event_data ->> 'action' = $6::jsonb ->> 'action')`

// PutOrphan implements callback.Store.
func (st *Sagas) PutOrphan(ctx context.Context, e *saga.AuditEvent) error {
	err := st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
		var known bool
		err := tx.QueryRowContext(ctx, knownOrphan, e.SagaID, e.TenantID, e.Type, e.StepIndex, e.Attempt,
			string(e.Data)).Scan(&known)
		if err != nil || known {
			return err
		}
		event := newEventBatch(1)
		if err := addEvent(st.db, event, e); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, insertBatch.Text, insertBatch.Args(event)...)
		return err
	})
	return postgres.Wrap("record a report that came too late", err)
}
