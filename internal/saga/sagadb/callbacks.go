package sagadb

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// knownOrphan finds the event of a report that came too late among those of its saga.
const knownOrphan = `
SELECT EXISTS (SELECT FROM saga.audit_events e
                WHERE e.saga_id = $1 AND e.tenant_id = $2 AND e.event_type = $3
                  AND e.step_index = $4 AND e.attempt = $5 AND e.event_data ->> 'action' = $6::jsonb ->> 'action')`

// PutOrphan implements callback.Orphans.
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
