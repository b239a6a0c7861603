package registrydb

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/saga/registry"
)

// stillStands is true for a row w of saga.gate_waits whose caller still wants to make its call. A
// caller that was retried, resolved or disabled in the meantime is not let through.
const stillStands = `CASE w.kind
	WHEN 'letter' THEN EXISTS (SELECT FROM dlq.dlq_messages m
	      WHERE m.tenant_id = w.tenant_id AND m.id = w.id AND m.status = 'PENDING' AND m.next_retry_at > now())
	WHEN 'item' THEN EXISTS (SELECT FROM dlq.dlq_redrive_items i JOIN dlq.dlq_redrives d
	        ON d.id = i.redrive_id AND d.tenant_id = i.tenant_id
	      WHERE i.redrive_id = w.redrive_id AND i.message_id = w.id AND i.tenant_id = w.tenant_id
	        AND i.state = 'WAITING' AND d.state = 'RUNNING')
	ELSE EXISTS (SELECT FROM saga.webhooks h JOIN saga.webhook_deliveries d
	        ON d.tenant_id = h.tenant_id AND d.webhook_id = h.id
	      WHERE h.tenant_id = w.tenant_id AND h.id = w.id AND h.enabled
	        AND d.status = 'pending' AND d.due_at <= now()) END`

// firstStands is when the first caller that is not a saga began to wait at the gate of participant
// q.name. A webhook waits there for one delivery at a time, and takes a new place for each, so it
// has been waiting since the first of these deliveries was due.
const firstStands = `least((SELECT w.parked_at FROM saga.gate_waits w
	WHERE w.tenant_id = q.tenant_id AND w.participant = q.name AND w.granted_at IS NULL
	  AND w.kind <> 'webhook' AND ` + stillStands + `
	ORDER BY w.parked_at, w.id LIMIT 1),
	(SELECT min(least(w.parked_at, (SELECT min(d.due_at) FROM saga.webhook_deliveries d
	          WHERE d.tenant_id = w.tenant_id AND d.webhook_id = w.id AND d.status = 'pending')))
	   FROM saga.gate_waits w
	  WHERE w.tenant_id = q.tenant_id AND w.participant = q.name AND w.granted_at IS NULL AND w.kind = 'webhook'
	    AND ` + stillStands + `))`

// takeTurn uses up the grant of a caller, or gives it a place in the queue. A caller that is
// already waiting keeps its place.
const takeTurn = `
WITH took AS (
	DELETE FROM saga.gate_waits
	 WHERE tenant_id = $1 AND kind = $2 AND id = $3 AND participant = $4 AND granted_at IS NOT NULL
	RETURNING 1
), stood AS (
	INSERT INTO saga.gate_waits AS w (tenant_id, kind, id, participant, redrive_id, parked_at)
	SELECT $1, $2, $3, $4, $5::uuid, now() WHERE NOT EXISTS (SELECT FROM took)
	ON CONFLICT (tenant_id, kind, id) DO UPDATE
	   SET participant = excluded.participant, redrive_id = excluded.redrive_id,
	       parked_at = CASE WHEN w.participant = excluded.participant THEN w.parked_at ELSE excluded.parked_at END,
	       granted_at = CASE WHEN w.participant = excluded.participant THEN w.granted_at END
)
SELECT count(*) FROM took`

// TakeTurn implements registry.Gates.
func (st *Participants) TakeTurn(ctx context.Context, participant string, c registry.Caller) (let bool, err error) {
	redrive := uuid.NullUUID{UUID: c.Redrive, Valid: c.Redrive != uuid.Nil}
	err = st.db.Read.QueryRowContext(ctx, takeTurn, c.TenantID, c.Kind, c.ID, participant, redrive).Scan(&let)
	if err != nil {
		return false, fmt.Errorf("take the turn of a %s: %w", c.Kind, err)
	}
	return let, nil
}

// shareOfOthers counts the callers that are not sagas among the first $3 of a queue.
const shareOfOthers = `
SELECT count(*) FILTER (WHERE q.other)
  FROM (SELECT * FROM (
	(SELECT p.parked_at, p.saga_id AS id, false AS other FROM saga.parked p
	  WHERE p.tenant_id = $1 AND p.participant = $2 AND p.granted_at IS NULL ORDER BY p.parked_at, p.saga_id LIMIT $3)
	UNION ALL
	(SELECT w.parked_at, w.id, true FROM saga.gate_waits w
	  WHERE w.tenant_id = $1 AND w.participant = $2 AND w.granted_at IS NULL AND ` + stillStands + `
	  ORDER BY w.parked_at, w.id LIMIT $3)) AS u ORDER BY u.parked_at, u.id LIMIT $3) AS q`

// letOthersThrough grants calls to the first callers that are not sagas, and makes letters due.
const letOthersThrough = `
WITH picked AS MATERIALIZED (
	SELECT w.kind, w.id FROM saga.gate_waits w
	 WHERE w.tenant_id = $1 AND w.participant = $2 AND w.granted_at IS NULL AND ` + stillStands + `
	 ORDER BY w.parked_at, w.id LIMIT $3 FOR UPDATE OF w SKIP LOCKED
), granted AS (
	UPDATE saga.gate_waits w SET granted_at = now() FROM picked g
	 WHERE w.tenant_id = $1 AND w.kind = g.kind AND w.id = g.id
	RETURNING w.kind, w.id
), due AS (
	UPDATE dlq.dlq_messages m SET next_retry_at = now() FROM granted g
	 WHERE g.kind = 'letter' AND m.tenant_id = $1 AND m.id = g.id AND m.status = 'PENDING' AND m.next_retry_at > now()
)
SELECT count(*) FROM granted`

// letCallers lets callers that are not sagas through, as many as there are among the first n of the
// queue, and returns how many. The others are sagas. Letters are locked before sagas, as
// everywhere.
func letCallers(ctx context.Context, tx *sqlx.Tx, p *registry.Participant, n int) (let int, err error) {
	var share int
	if err := tx.QueryRowContext(ctx, shareOfOthers, p.TenantID, p.Name, n).Scan(&share); err != nil || share == 0 {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, letOthersThrough, p.TenantID, p.Name, share).Scan(&let)
	return let, err
}

// freeCallers removes the callers that wait for a participant that no longer exists, and makes
// letters due.
const freeCallers = `
WITH gone AS (
	DELETE FROM saga.gate_waits WHERE tenant_id = $1 AND participant = $2 RETURNING kind, id
)
UPDATE dlq.dlq_messages m SET next_retry_at = now() FROM gone g
 WHERE g.kind = 'letter' AND m.tenant_id = $1 AND m.id = g.id AND m.status = 'PENDING' AND m.next_retry_at > now()`

// takeBackCallers makes callers wait again that were let through but have not made their call yet.
const takeBackCallers = `
UPDATE saga.gate_waits SET granted_at = NULL WHERE tenant_id = $1 AND participant = $2 AND granted_at IS NOT NULL`

const countCallers = `
SELECT count(*) FILTER (WHERE w.kind <> 'webhook'), count(*) FILTER (WHERE w.kind = 'webhook') FROM saga.gate_waits w
 WHERE w.tenant_id = $1 AND w.participant = $2 AND w.granted_at IS NULL AND ` + stillStands

// sweepCallers removes unused grants, whose callers queue again when they return, and callers that
// no longer wait. It keeps a letter that is being retried or due, because it may be about to wait.
const sweepCallers = `
DELETE FROM saga.gate_waits w
 WHERE w.granted_at < now() - interval '1 minute'
    OR w.granted_at IS NULL AND NOT (` + stillStands + `)
       AND NOT (w.kind = 'letter' AND EXISTS (SELECT FROM dlq.dlq_messages m
                 WHERE m.tenant_id = w.tenant_id AND m.id = w.id
                   AND (m.status = 'RETRYING' OR m.status = 'PENDING' AND m.next_retry_at IS NOT NULL)))`
