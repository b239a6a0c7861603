package sagadb

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// withContent lists the types of events that contain content from a participant.
var withContent = `
SELECT ` + storedColumns + withoutSaga + ` FROM saga.every_audit_event e
 WHERE e.tenant_id = $1 AND e.saga_id = ANY ($2::uuid[]) AND e.error IS NOT NULL
   AND (e.error->>'message' NOT IN ('erased', 'sealed') OR e.error ?| ARRAY['details', 'cause', 'stack_trace'])
 ORDER BY e.id`

// EraseNotes deletes operators' notes on sagas.
func EraseNotes(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, sagas []uuid.UUID) error {
	_, err := tx.ExecContext(ctx, eraseNotes, tenant, pq.Array(sagas))
	return err
}

// EraseEvents erases the content of the events of sagas, adds the event returned by record to each
// saga, and returns how many events lost content. record is called with those events.
func EraseEvents(ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, sagas []uuid.UUID,
	record func(id uuid.UUID, events []trail.StoredEvent) (saga.AuditEvent, error)) (int, error) {
	if len(sagas) == 0 {
		return 0, nil
	}
	rows, err := tx.QueryContext(ctx, withContent, tenant, pq.Array(sagas))
	if err != nil {
		return 0, err
	}
	bySaga, ids := map[uuid.UUID][]trail.StoredEvent{}, []int64{}
	err = postgres.EachRow(rows, func() error {
		stored, err := storedEvent(rows)
		bySaga[stored.SagaID] = append(bySaga[stored.SagaID], stored)
		ids = append(ids, stored.ID)
		return err
	})
	if err != nil {
		return 0, err
	}
	batch := newEventBatch(len(sagas))
	for _, id := range sagas {
		event, err := record(id, bySaga[id])
		if err == nil {
			err = batch.add(&event)
		}
		if err != nil {
			return 0, err
		}
	}
	if _, err := tx.ExecContext(ctx, insertBatch.Text, insertBatch.Args(batch)...); err != nil {
		return 0, err
	}
	var erased int
	err = tx.GetContext(ctx, &erased, `SELECT saga.purge_events($1, $2::bigint[], $3::uuid[])`, tenant, pq.Array(ids),
		pq.Array(sagas))
	if err == nil && erased != len(ids) {
		err = fmt.Errorf("erased %d of %d events", erased, len(ids))
	}
	return erased, err
}
