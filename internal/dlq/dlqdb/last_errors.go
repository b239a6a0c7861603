package dlqdb

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// lastAttempts finds the latest retry of each letter.
var lastAttempts = postgres.OfTenant(`
SELECT k.id, a.error, a.ended_at
  FROM unnest($2::uuid[]) AS k (id)
 CROSS JOIN LATERAL (SELECT a.error, a.ended_at FROM dlq.dlq_attempts a
        WHERE a.message_id = k.id AND a.tenant_id = tenant.id ORDER BY a.number DESC LIMIT 1) AS a
 WHERE a.error <> ''`, "")

// lastErrors fills in the errors of the last retries of a tenant's letters. It reads attempts only
// for letters that were retried, and most lists contain no such letter.
func (st *Letters) lastErrors(ctx context.Context, tenant uuid.UUID, letters []dlq.Letter) error {
	at := map[uuid.UUID]*dlq.Letter{}
	var ids []uuid.UUID
	for i := range letters {
		if l := &letters[i]; l.LastRetryAt != nil {
			at[l.ID] = l
			ids = append(ids, l.ID)
		}
	}
	if ids == nil {
		return nil
	}
	return st.db.ReadTenant(ctx, tenant, lastAttempts, func(rows *sql.Rows) error {
		var id uuid.UUID
		var said string
		var ended time.Time
		if err := rows.Scan(&id, &said, &ended); err != nil {
			return err
		}
		ended = ended.UTC()
		at[id].LastError, at[id].LastErrorAt = said, &ended
		return nil
	}, pq.Array(ids))
}

// holdingRedrives finds the unfinished redrive that holds each letter.
var holdingRedrives = postgres.OfTenant(`
SELECT m.id, d.id
  FROM (SELECT tenant.id AS tenant_id, k.id FROM unnest($2::uuid[]) AS k (id)) AS m
 CROSS JOIN LATERAL (SELECT d.id `+CollectedBy+`
        ORDER BY d.started_at, d.id LIMIT 1) AS d`, "")

// collectedBy fills in the redrives that hold a tenant's letters. It checks only letters that would
// otherwise be retried automatically.
func (st *Letters) collectedBy(ctx context.Context, tenant uuid.UUID, letters []dlq.Letter) error {
	at := map[uuid.UUID]*dlq.Letter{}
	var ids []uuid.UUID
	for i := range letters {
		if l := &letters[i]; l.Retried() {
			at[l.ID] = l
			ids = append(ids, l.ID)
		}
	}
	if ids == nil {
		return nil
	}
	return st.db.ReadTenant(ctx, tenant, holdingRedrives, func(rows *sql.Rows) error {
		var id, by uuid.UUID
		err := rows.Scan(&id, &by)
		if l := at[id]; l != nil {
			l.CollectedBy = by
		}
		return err
	}, pq.Array(ids))
}
