package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/saga"
)

// Register implements saga.Ownership. It ends the leases of earlier
// incarnations of the same node, so that a restarted node takes its sagas back
// at once instead of waiting for its own dead lease.
func (st *Sagas) Register(ctx context.Context, node string, ttl time.Duration) (int64, error) {
	var id int64
	err := st.db.lease.GetContext(ctx, &id, `
		WITH former AS (
			UPDATE saga.engine_nodes SET lease_until = now() WHERE node_name = $1 AND lease_until > now()
		), forgotten AS (
			-- A dead incarnation is remembered until nothing can refer to it any more.
			DELETE FROM saga.engine_nodes n WHERE lease_until < now() - interval '7 days'
			   AND NOT EXISTS (SELECT 1 FROM saga.saga_states s WHERE s.lease_owner = n.id AND s.completed_at IS NULL)
		)
		INSERT INTO saga.engine_nodes (node_name, lease_until) VALUES ($1, now() + $2 * interval '1 ms') RETURNING id`,
		node, ttl.Milliseconds())
	if err != nil {
		return 0, fmt.Errorf("register node: %w", err)
	}
	return id, nil
}

// Renew implements saga.Ownership.
func (st *Sagas) Renew(ctx context.Context, owner int64, ttl time.Duration) (bool, error) {
	res, err := st.db.lease.ExecContext(ctx, `
		UPDATE saga.engine_nodes SET lease_until = now() + $2 * interval '1 ms', renewed_at = now()
		 WHERE id = $1 AND lease_until > now()`, owner, ttl.Milliseconds())
	if err != nil {
		return false, fmt.Errorf("renew lease: %w", err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// Resign implements saga.Ownership.
func (st *Sagas) Resign(ctx context.Context, owner int64) error {
	_, err := st.db.lease.ExecContext(ctx, `UPDATE saga.engine_nodes SET lease_until = now() WHERE id = $1 AND lease_until > now()`, owner)
	if err != nil {
		return fmt.Errorf("resign lease: %w", err)
	}
	return nil
}

// claimSagas takes what dead nodes left behind, and what waits unowned and is
// due, oldest first. The former comes first, because it has an end, and a
// backlog may have none. The claim is a change: version and epoch grow, so that
// whoever held the saga before can write nothing more. A dead owner may have
// sent the call in flight; its RUNNING logs are closed. The state stays: it moves
// with the call's outcome, in a change that tells the audit trail of it.
const claimSagas = `
WITH dead AS MATERIALIZED (
	SELECT id FROM saga.engine_nodes WHERE lease_until <= now()
), waiting AS MATERIALIZED (
	SELECT id, false AS taken FROM saga.saga_states
	 WHERE completed_at IS NULL AND suspended_at IS NULL AND lease_owner IS NULL AND next_run_at <= now()
	 ORDER BY lease_owner, next_run_at LIMIT $2 FOR UPDATE SKIP LOCKED -- the index's order: no sort of the whole backlog
), left_behind AS MATERIALIZED (
	SELECT o.id, true AS taken FROM dead d CROSS JOIN LATERAL (
		SELECT id, version FROM saga.saga_states s
		 WHERE s.completed_at IS NULL AND s.suspended_at IS NULL AND s.lease_owner = d.id
		 LIMIT $2 FOR UPDATE SKIP LOCKED) o
	  -- A row that its owner still changed after this statement began is locked in
	  -- its newest version, while the step log of that change is not visible here
	  -- and could not be closed: left for the next claim.
	  JOIN saga.saga_states seen ON seen.id = o.id AND seen.version = o.version
	 LIMIT $2
), picked AS MATERIALIZED (
	SELECT id, taken FROM left_behind UNION ALL SELECT id, taken FROM waiting LIMIT $2
), runs AS MATERIALIZED ( -- job runs go on, whoever drives their sagas (decision 0039)
	SELECT l.saga_id AS id FROM picked p JOIN saga.saga_step_logs l ON l.saga_id = p.id
	 WHERE p.taken AND l.completed_at IS NULL AND l.outcome_code = 'job_run'
), closed AS (
	UPDATE saga.saga_step_logs l
	   SET status = 'FAILED', completed_at = now(), updated_at = now(), outcome_code = 'owner_lost',
	       error = jsonb_build_object('code', 'owner_lost', 'message', 'the node that made this call was lost; the call is repeated',
	                                  'type', 'network', 'retryable', true, 'timestamp', now())
	  FROM picked p WHERE p.taken AND l.saga_id = p.id AND l.completed_at IS NULL -- RUNNING; see commitSagas
	   AND l.outcome_code IS DISTINCT FROM 'job_run'
)
UPDATE saga.saga_states s
   SET lease_owner = $1, lease_epoch = s.lease_epoch + 1, version = s.version + 1, updated_at = now(),
       next_run_at = CASE WHEN p.taken AND s.next_run_at > now() THEN s.next_run_at END,
       started_at = coalesce(s.started_at, now()),
       step_attempt = CASE WHEN p.taken AND s.id NOT IN (SELECT id FROM runs) OR s.step_attempt = 0 THEN s.step_attempt + 1 ELSE s.step_attempt END,
       step_uncertain = s.step_uncertain OR (p.taken AND s.state IN (0, 1, 2) AND s.id NOT IN (SELECT id FROM runs))
  FROM picked p
 WHERE s.id = p.id
RETURNING ` + sagaColumns

// Claim implements saga.Ownership.
func (st *Sagas) Claim(ctx context.Context, owner int64, limit int) ([]saga.Loaded, error) {
	rows, err := st.db.queryWrite(ctx, claimSagas, owner, limit)
	if err != nil {
		return nil, fmt.Errorf("claim sagas: %w", err)
	}
	return st.withLogs(ctx, rows)
}

// releaseSagas locks in id order, as commitSagas does and for the same reason.
const releaseSagas = `
WITH mine AS MATERIALIZED (
	SELECT id FROM saga.saga_states
	 WHERE id = ANY ($2) AND lease_owner = $1 AND completed_at IS NULL ORDER BY id FOR UPDATE
)
UPDATE saga.saga_states s
   SET lease_owner = NULL, next_run_at = coalesce(s.next_run_at, now()), version = s.version + 1, updated_at = now()
  FROM mine
 WHERE s.id = mine.id`

// Release implements saga.Ownership.
func (st *Sagas) Release(ctx context.Context, owner int64, ids []uuid.UUID) error {
	if _, err := st.db.read.ExecContext(ctx, releaseSagas, owner, pq.Array(ids)); err != nil {
		return fmt.Errorf("release sagas: %w", err)
	}
	return nil
}

const dueSagas = `
SELECT id FROM saga.saga_states
 WHERE completed_at IS NULL AND suspended_at IS NULL AND lease_owner = $1
   AND (next_run_at <= now() OR next_run_at IS NULL AND updated_at < now() - $2 * interval '1 ms')
 ORDER BY next_run_at NULLS LAST LIMIT $3`

// Due implements saga.Ownership.
func (st *Sagas) Due(ctx context.Context, owner int64, idle time.Duration, limit int) ([]uuid.UUID, error) {
	rows, err := st.db.queryRead(ctx, dueSagas, owner, idle.Milliseconds(), limit)
	if err != nil {
		return nil, fmt.Errorf("find due sagas: %w", err)
	}
	var ids []uuid.UUID
	err = eachRow(rows, func() error {
		var id uuid.UUID
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// overdueSagas finds deadlines that have passed, the oldest first, of both
// phases together: each half reads limit rows from its own index, from where the
// page before ended.
const overdueSagas = `
SELECT s.deadline, s.id FROM (
	(SELECT s.timeout_at AS deadline, s.id FROM saga.saga_states s
	  WHERE s.completed_at IS NULL AND s.timeout_at IS NOT NULL AND s.timeout_at <= now()
	    AND s.state IN (0, 1, 2) AND s.end_cause IS NULL AND s.suspended_at IS NULL
	    AND (s.timeout_at, s.id) > ($2, $3)
	  ORDER BY s.timeout_at, s.id LIMIT $1)
	UNION ALL
	(SELECT s.compensation_timeout_at, s.id FROM saga.saga_states s
	  WHERE s.completed_at IS NULL AND s.compensation_timeout_at IS NOT NULL AND s.compensation_timeout_at <= now()
	    AND s.state = 4 AND NOT s.compensation_expired AND s.suspended_at IS NULL
	    AND (s.compensation_timeout_at, s.id) > ($2, $3)
	  ORDER BY s.compensation_timeout_at, s.id LIMIT $1)
) s ORDER BY s.deadline, s.id LIMIT $1`

// Overdue implements saga.Ownership.
func (st *Sagas) Overdue(ctx context.Context, after saga.Deadline, limit int) ([]saga.Deadline, error) {
	rows, err := st.db.queryRead(ctx, overdueSagas, limit, after.At, after.ID)
	if err != nil {
		return nil, fmt.Errorf("find overdue sagas: %w", err)
	}
	var page []saga.Deadline
	err = eachRow(rows, func() error {
		var d saga.Deadline
		err := rows.Scan(&d.At, &d.ID)
		page = append(page, d)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find overdue sagas: %w", err)
	}
	return page, nil
}

// countLive counts unfinished sagas; stuck are those not suspended, and neither
// owned by a node that is known, nor due at some time.
const countLive = `
SELECT s.state, count(*) AS n,
       count(*) FILTER (WHERE s.suspended_at IS NULL AND CASE WHEN s.lease_owner IS NULL THEN s.next_run_at IS NULL
                              ELSE NOT EXISTS (SELECT 1 FROM saga.engine_nodes e WHERE e.id = s.lease_owner) END) AS stuck
  FROM saga.saga_states s WHERE s.completed_at IS NULL GROUP BY s.state`

// Stuck implements saga.Ownership.
func (st *Sagas) Stuck(ctx context.Context) (int, map[saga.State]int, error) {
	var rows []struct {
		State saga.State `db:"state"`
		N     int        `db:"n"`
		Stuck int        `db:"stuck"`
	}
	if err := st.db.read.SelectContext(ctx, &rows, countLive); err != nil {
		return 0, nil, fmt.Errorf("count live sagas: %w", err)
	}
	stuck, live := 0, map[saga.State]int{}
	for _, r := range rows {
		stuck += r.Stuck
		live[r.State] = r.N
	}
	return stuck, live, nil
}
