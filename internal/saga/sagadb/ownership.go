package sagadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// Former implements saga.Ownership.
func (st *Sagas) Former(ctx context.Context, node string) (f saga.Incarnation, found bool, err error) {
	err = st.db.Lease.QueryRowxContext(ctx, `
		SELECT process, lease_until FROM saga.engine_nodes WHERE node_name = $1 AND lease_until > now()
		 ORDER BY lease_until DESC LIMIT 1`, node).Scan(&f.Process, &f.LeaseUntil)
	if errors.Is(err, sql.ErrNoRows) {
		return f, false, nil
	}
	if err != nil {
		return f, false, fmt.Errorf("find another process of this node: %w", err)
	}
	return f, true, nil
}

const register = `
WITH former AS (
	UPDATE saga.engine_nodes SET lease_until = now() WHERE node_name = $1 AND lease_until > now()
), forgotten AS (
	-- A dead incarnation is remembered until nothing can refer to it any more.
	DELETE FROM saga.engine_nodes n WHERE lease_until < now() - interval '7 days'
	   AND NOT EXISTS (SELECT 1 FROM saga.saga_states s WHERE s.lease_owner = n.id AND s.completed_at IS NULL)
)
INSERT INTO saga.engine_nodes (node_name, process, version, lease_until)
 VALUES ($1, $3, $4, now() + $2 * interval '1 ms')
 RETURNING id, clock_timestamp()`

// Register implements saga.Ownership. It ends the leases of earlier incarnations of the same node,
// so that a restarted node can claim its sagas immediately instead of waiting until its previous
// lease expires.
func (st *Sagas) Register(ctx context.Context, node, process string, ttl time.Duration) (int64, error) {
	var id int64
	err := st.db.Clock.Ask(func(there *time.Time) error {
		return st.db.Lease.QueryRowxContext(ctx, register, node, ttl.Milliseconds(), process, st.Version).
			Scan(&id, there)
	})
	if err != nil {
		return 0, fmt.Errorf("register node: %w", err)
	}
	return id, nil
}

// Renew implements saga.Ownership.
func (st *Sagas) Renew(ctx context.Context, owner int64, ttl time.Duration) (bool, error) {
	err := st.db.Clock.Ask(func(there *time.Time) error {
		return st.db.Lease.GetContext(ctx, there, `
			UPDATE saga.engine_nodes SET lease_until = now() + $2 * interval '1 ms', renewed_at = now()
			 WHERE id = $1 AND lease_until > now() RETURNING clock_timestamp()`, owner, ttl.Milliseconds())
	})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("renew lease: %w", err)
	}
	return true, nil
}

// Resign implements saga.Ownership.
func (st *Sagas) Resign(ctx context.Context, owner int64) error {
	_, err := st.db.Lease.ExecContext(ctx, `UPDATE saga.engine_nodes
	   SET lease_until = now()
	 WHERE id = $1 AND lease_until > now()`, owner)
	if err != nil {
		return fmt.Errorf("resign lease: %w", err)
	}
	return nil
}

// releaseSagas locks in id and tenant order, as commitSagas does and for the same reason.
const releaseSagas = `
WITH mine AS MATERIALIZED (
	SELECT id, tenant_id FROM saga.saga_states
	 WHERE id = ANY ($1) AND ((id, tenant_id) IN ` + givenSagas + `) IS TRUE
	   AND lease_owner = $3 AND completed_at IS NULL ORDER BY id, tenant_id FOR UPDATE
)
UPDATE saga.saga_states s
   SET lease_owner = NULL, next_run_at = coalesce(s.next_run_at, now()), version = s.version + 1, updated_at = now()
  FROM mine
 WHERE s.id = mine.id AND s.tenant_id = mine.tenant_id`

// Release implements saga.Ownership.
func (st *Sagas) Release(ctx context.Context, owner int64, refs []saga.Ref) error {
	ids, tenants := refColumns(refs)
	if _, err := st.db.Read.ExecContext(ctx, releaseSagas, ids, tenants, owner); err != nil {
		return fmt.Errorf("release sagas: %w", err)
	}
	return nil
}

const dueSagas = `
SELECT id, tenant_id FROM saga.saga_states
 WHERE completed_at IS NULL AND suspended_at IS NULL AND lease_owner = $1
   AND (next_run_at <= now() OR next_run_at IS NULL AND updated_at < now() - $2 * interval '1 ms')
 ORDER BY next_run_at NULLS LAST LIMIT $3`

// Due implements saga.Ownership.
func (st *Sagas) Due(ctx context.Context, owner int64, idle time.Duration, limit int) ([]saga.Ref, error) {
	rows, err := st.db.QueryRead(ctx, dueSagas, owner, idle.Milliseconds(), limit)
	if err != nil {
		return nil, fmt.Errorf("find due sagas: %w", err)
	}
	var refs []saga.Ref
	err = postgres.EachRow(rows, func() error {
		var ref saga.Ref
		err := rows.Scan(&ref.ID, &ref.Tenant)
		refs = append(refs, ref)
		return err
	})
	return refs, err
}

// overdueSagas finds deadlines that have passed, in both phases, the oldest first. Each half reads
// limit rows from its own index, starting where the previous page ended.
var overdueSagas = `
SELECT s.deadline, s.id, s.tenant_id FROM (
	(SELECT s.timeout_at AS deadline, s.id, s.tenant_id FROM saga.saga_states s
	  WHERE s.completed_at IS NULL AND s.timeout_at IS NOT NULL AND s.timeout_at <= now()
	    AND ` + isForward("s.state") + ` AND s.end_cause IS NULL
	    AND (s.suspended_at IS NULL OR s.interventions->'stopped' = '{}')
	    AND (s.timed_out_at IS NULL OR s.timed_out_at < s.timeout_at)
	    AND (s.timeout_at, s.id, s.tenant_id) > ($2, $3, $4)
	  ORDER BY s.timeout_at, s.id, s.tenant_id LIMIT $1)
	UNION ALL
	(SELECT s.compensation_timeout_at, s.id, s.tenant_id FROM saga.saga_states s
	  WHERE s.completed_at IS NULL AND s.compensation_timeout_at IS NOT NULL AND s.compensation_timeout_at <= now()
	    AND ` + is("s.state", saga.Compensating) + ` AND NOT s.compensation_expired AND s.suspended_at IS NULL
	    AND (s.compensation_timeout_at, s.id, s.tenant_id) > ($2, $3, $4)
	  ORDER BY s.compensation_timeout_at, s.id, s.tenant_id LIMIT $1)
) s ORDER BY s.deadline, s.id, s.tenant_id LIMIT $1`

// Overdue implements saga.Ownership.
func (st *Sagas) Overdue(ctx context.Context, after saga.Deadline, limit int) ([]saga.Deadline, error) {
	rows, err := st.db.QueryRead(ctx, overdueSagas, limit, after.At, after.ID, after.Tenant)
	if err != nil {
		return nil, fmt.Errorf("find overdue sagas: %w", err)
	}
	var page []saga.Deadline
	err = postgres.EachRow(rows, func() error {
		var d saga.Deadline
		err := rows.Scan(&d.At, &d.ID, &d.Tenant)
		page = append(page, d)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find overdue sagas: %w", err)
	}
	return page, nil
}

// countLive counts unfinished sagas. A saga is stuck if it is not suspended, its owner is not a
// known node, and it has no due time.
const countLive = `
SELECT s.state, count(*) AS n,
       count(*) FILTER (WHERE s.suspended_at IS NULL AND CASE WHEN s.lease_owner IS NULL THEN s.next_run_at IS NULL
                              ELSE NOT EXISTS (SELECT 1
                                                 FROM saga.engine_nodes e
                                                WHERE e.id = s.lease_owner) END) AS stuck
  FROM saga.saga_states s WHERE s.completed_at IS NULL GROUP BY s.state`

// Stuck implements saga.Ownership.
func (st *Sagas) Stuck(ctx context.Context) (int, map[saga.State]int, error) {
	var rows []struct {
		State saga.State `db:"state"`
		N     int        `db:"n"`
		Stuck int        `db:"stuck"`
	}
	if err := st.db.Read.SelectContext(ctx, &rows, countLive); err != nil {
		return 0, nil, fmt.Errorf("count live sagas: %w", err)
	}
	stuck, live := 0, map[saga.State]int{}
	for _, r := range rows {
		stuck += r.Stuck
		live[r.State] = r.N
	}
	return stuck, live, nil
}
