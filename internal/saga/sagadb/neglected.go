package sagadb

import (
	"context"
	"fmt"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// neglectedSagas reads all unfinished sagas, which are few compared with the ended ones.
// idx_saga_runnable contains exactly the unfinished sagas.
var neglectedSagas = `
SELECT ` + sagaColumns + `, s.id, s.tenant_id,
       CASE
       WHEN s.step_failures >= $2 THEN '` + saga.ReasonFailing + `'
       WHEN EXISTS (SELECT 1
                      FROM saga.engine_nodes e
                     WHERE e.id = s.lease_owner AND e.lease_until > now()) THEN '` + saga.ReasonNoAnswer + `'
       ELSE '` + saga.ReasonUnowned + `' END
  FROM saga.saga_states s
 WHERE s.completed_at IS NULL AND s.suspended_at IS NULL AND NOT s.needs_attention
   AND (s.step_failures >= $2 OR greatest(s.updated_at, s.next_run_at) < now() - $1 * interval '1 ms')
   AND (s.id, s.tenant_id) > ($4, $5)
 ORDER BY s.id, s.tenant_id LIMIT $3`

// Neglected implements saga.Ownership.
func (st *Sagas) Neglected(ctx context.Context, q saga.NeglectedQuery) (page []saga.Stalled, next saga.Ref, err error) {
	rows, err := st.db.QueryRead(ctx, neglectedSagas, q.Idle.Milliseconds(), q.Failures, q.Limit,
		q.After.ID, q.After.Tenant)
	if err != nil {
		return nil, saga.Ref{}, fmt.Errorf("find neglected sagas: %w", err)
	}
	read := 0
	err = postgres.EachRow(rows, func() error {
		var n saga.Stalled
		var err error
		n.Saga, err = scanSaga(st.db, rows, &next.ID, &next.Tenant, &n.Reason)
		if read++; shown(err) == nil {
			page = append(page, n) // the saga also has no driver, so an operator must learn of it
		}
		return shown(err)
	})
	if err != nil {
		return nil, saga.Ref{}, fmt.Errorf("find neglected sagas: %w", err)
	}
	if read < q.Limit {
		next = saga.Ref{}
	}
	return page, next, nil
}

const getNode = `SELECT node_name, lease_until, lease_until > now() FROM saga.engine_nodes WHERE id = $1`

// Node implements saga.Ownership.
func (st *Sagas) Node(ctx context.Context, owner int64) (n saga.Node, known bool, err error) {
	rows, err := st.db.QueryRead(ctx, getNode, owner)
	if err != nil {
		return n, false, fmt.Errorf("read node: %w", err)
	}
	err = postgres.EachRow(rows, func() error {
		known = true
		return rows.Scan(&n.Name, &n.LeaseUntil, &n.Alive)
	})
	postgres.UTC(&n.LeaseUntil)
	if err != nil {
		return n, false, fmt.Errorf("read node: %w", err)
	}
	return n, known, nil
}
