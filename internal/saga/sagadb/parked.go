package sagadb

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/saga"
)

// parkSagas records which sagas wait at which gate. A saga that already waits there with the same
// call keeps its place in the queue.
const parkSagas = `
INSERT INTO saga.parked AS p (tenant_id, saga_id, participant, state, step, attempt, parked_at)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int2[], $5::int4[], $6::int4[], $7::timestamptz[])
ON CONFLICT (tenant_id, saga_id) DO UPDATE
   SET participant = excluded.participant, state = excluded.state, step = excluded.step, attempt = excluded.attempt,
       granted_at = NULL,
       parked_at = CASE WHEN (p.participant, p.state, p.step, p.attempt) =
                             (excluded.participant, excluded.state, excluded.step, excluded.attempt)
                        THEN p.parked_at
                        ELSE excluded.parked_at END`

// park writes the places at gates for the changes of a batch that were written.
func (st *Sagas) park(ctx context.Context, tx *sqlx.Tx, batch []saga.Change, moved map[saga.Ref]bool) error {
	var tenants, ids []uuid.UUID
	var names []string
	var states, steps, attempts []int64
	var at []time.Time
	for i := range batch {
		c := &batch[i]
		if c.Park == "" || !moved[c.After.Ref()] {
			continue
		}
		call := c.After.NextCall()
		tenants, ids, names = append(tenants, c.After.Tenant.ID), append(ids, c.After.ID), append(names, c.Park)
		states, steps = append(states, int64(call.State)), append(steps, int64(call.Step))
		attempts, at = append(attempts, int64(call.Attempt)), append(at, c.After.UpdatedAt)
	}
	if len(ids) == 0 {
		return nil
	}
	return st.db.ExecIn(ctx, tx, parkSagas, pq.Array(tenants), pq.Array(ids), pq.Array(names), pq.Array(states),
		pq.Array(steps), pq.Array(attempts), pq.Array(at))
}
