package sagadb

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// claimSagas takes the sagas of dead nodes, and unowned sagas that wait and are due. The sagas of
// dead nodes come first, because their number is limited, whereas a backlog may be unlimited.
//
// Tenants take turns. Up to limit tenants are served in the order of their ids, starting after
// tenant $3 and wrapping around. Each gets an equal share of the limit, and its oldest sagas are
// claimed first. Each tenant takes one index lookup, which starts after the previous tenant, so a
// backlog of a hundred thousand sagas of one tenant costs as much as one saga.
//
// A claim is a change: it increments the version and the epoch, so that the previous owner can no
// longer write to the saga. A dead owner may have sent the call in flight, so its RUNNING logs are
// closed. The state does not change until the call has an outcome; that change is recorded in the
// audit trail.
var claimSagas = `
WITH RECURSIVE dead AS MATERIALIZED (
	SELECT id
	  FROM saga.engine_nodes
	 WHERE lease_until <= now() AND id <> $1 -- a node that has lost its own lease would take the same ones again and again
), later AS ( -- tenants with unowned sagas and the first due time of each, after $3
	SELECT f.tenant_id, f.next_run_at
	  FROM (` + firstUnowned + ` AND s.tenant_id > ` + lastTurn + ` ` + firstOfTenant + `) f
	UNION ALL
	SELECT n.tenant_id, n.next_run_at
	  FROM later t
	 CROSS JOIN LATERAL (` + firstUnowned + ` AND s.tenant_id > t.tenant_id ` + firstOfTenant + `) n
), earlier AS ( -- and those up to $3
	SELECT f.tenant_id, f.next_run_at
	  FROM (` + firstUnowned + ` AND s.tenant_id <= ` + lastTurn + ` ` + firstOfTenant + `) f
	UNION ALL
	SELECT n.tenant_id, n.next_run_at
	  FROM earlier t
	 CROSS JOIN LATERAL (` + firstUnowned + `
	                     AND s.tenant_id > t.tenant_id
	                     AND s.tenant_id <= ` + lastTurn + ` ` + firstOfTenant + `) n
), turns AS MATERIALIZED (
	SELECT t.tenant_id FROM (
		SELECT tenant_id
		  FROM later
		 WHERE next_run_at <= now()
		 UNION ALL
		 SELECT tenant_id
		  FROM earlier
		 WHERE next_run_at <= now()
	) t LIMIT $2
), waiting AS MATERIALIZED (
	SELECT w.id, w.tenant_id, false AS taken FROM turns t CROSS JOIN LATERAL (
		SELECT s.id, s.tenant_id FROM saga.saga_states s
		 WHERE s.completed_at IS NULL
		   AND s.suspended_at IS NULL
		   AND s.lease_owner IS NULL
		   AND s.tenant_id = t.tenant_id
		   AND s.next_run_at <= now()
		 ORDER BY s.lease_owner, s.next_run_at NULLS FIRST
		 LIMIT (SELECT ($2 + count(*) - 1) / greatest(count(*), 1) FROM turns) FOR UPDATE SKIP LOCKED) w
	 LIMIT $2
), estates AS MATERIALIZED ( -- dead nodes and the tenants whose sagas they left behind
	SELECT d.id AS owner, t.tenant_id FROM dead d CROSS JOIN LATERAL (
		WITH RECURSIVE heirs AS (
			SELECT f.tenant_id FROM (` + firstLeft + ` ` + firstOfTenant + `) f
			UNION ALL
			SELECT n.tenant_id
			  FROM heirs t
			 CROSS JOIN LATERAL (` + firstLeft + ` AND s.tenant_id > t.tenant_id ` + firstOfTenant + `) n
		) SELECT tenant_id FROM heirs) t
	 ORDER BY t.tenant_id <= ` + lastTurn + `, t.tenant_id LIMIT $2
), left_behind AS MATERIALIZED (
	SELECT o.id, o.tenant_id, true AS taken FROM estates d CROSS JOIN LATERAL (
		SELECT s.id, s.tenant_id, s.version FROM saga.saga_states s
		 WHERE s.completed_at IS NULL AND s.suspended_at IS NULL AND s.lease_owner = d.owner AND s.tenant_id = d.tenant_id
		 ORDER BY s.next_run_at NULLS FIRST, s.created_at, s.id
		 LIMIT (SELECT ($2 + count(*) - 1) / greatest(count(*), 1) FROM estates) FOR UPDATE SKIP LOCKED) o
	  -- A row that its owner still changed after this statement began is locked in
	  -- its newest version, while the step log of that change is not visible here
	  -- and could not be closed: left for the next claim.
	  JOIN saga.saga_states seen ON seen.id = o.id AND seen.tenant_id = o.tenant_id AND seen.version = o.version
	 LIMIT $2
), picked AS MATERIALIZED (
	SELECT id, tenant_id, taken FROM left_behind UNION ALL SELECT id, tenant_id, taken FROM waiting LIMIT $2
), runs AS MATERIALIZED ( -- job runs go on, whichever node drives their sagas (decision 0039)
	SELECT p.id, p.tenant_id FROM picked p JOIN saga.saga_step_logs l ON l.saga_id = p.id AND l.tenant_id = p.tenant_id
	 WHERE p.taken AND l.completed_at IS NULL AND l.outcome_code = 'job_run'
), closed AS (
	UPDATE saga.saga_step_logs l
	   SET status = 'FAILED', completed_at = now(), updated_at = now(), outcome_code = 'owner_lost',
	       error = jsonb_build_object('code', 'owner_lost', 'message',
	                                  'the node that made this call was lost; the call is repeated',
	                                  'type', 'network', 'retryable', true, 'timestamp', now())
	  FROM picked p
	 WHERE p.taken
	   AND l.saga_id = p.id
	   AND l.tenant_id = p.tenant_id
	   AND l.completed_at IS NULL -- RUNNING; see commitSagas
	   AND l.outcome_code IS DISTINCT FROM 'job_run'
)
UPDATE saga.saga_states s
   SET lease_owner = $1, lease_epoch = s.lease_epoch + 1, version = s.version + 1, updated_at = now(),
       next_run_at = CASE WHEN p.taken AND s.next_run_at > now() THEN s.next_run_at END,
       started_at = coalesce(s.started_at, now()),
       step_attempt = CASE WHEN p.taken AND (s.id, s.tenant_id) NOT IN (SELECT id, tenant_id FROM runs)
                           OR s.step_attempt = 0 THEN s.step_attempt + 1 ELSE s.step_attempt END,
       step_uncertain = s.step_uncertain OR (p.taken AND (s.id, s.tenant_id) NOT IN (SELECT id, tenant_id FROM runs))
  FROM picked p
 WHERE s.id = p.id AND s.tenant_id = p.tenant_id
RETURNING ` + sagaColumns

// The parts of the lookup that goes from one tenant to the next. The order includes the owner
// because PostgreSQL does not infer that with IS NULL the index is already in the right order.
const (
	firstUnowned = `SELECT s.tenant_id, s.next_run_at
	  FROM saga.saga_states s
	 WHERE s.completed_at IS NULL AND s.lease_owner IS NULL`
	firstLeft = `SELECT s.tenant_id FROM saga.saga_states s WHERE s.completed_at IS NULL AND s.lease_owner = d.id`
	// A bare $3 would show the planner how few sagas such tenants had when the table was last
	// analyzed. If they had few, it reads all unfinished sagas by another index and sorts them.
	// With a backlog that has grown since, it would do that for the whole backlog in each claim.
	lastTurn      = `(SELECT $3::uuid)`
	firstOfTenant = `ORDER BY s.lease_owner, s.tenant_id, s.next_run_at NULLS FIRST LIMIT 1`
)

// Claim implements saga.Ownership.
func (st *Sagas) Claim(ctx context.Context, owner int64, limit int) ([]saga.Loaded, error) {
	last := st.turns.last()
	rows, err := st.db.QueryWrite(ctx, claimSagas, owner, limit, last)
	if err != nil {
		return nil, fmt.Errorf("claim sagas: %w", err)
	}
	claimed, err := st.withLogs(ctx, rows)
	if err != nil {
		return nil, err
	}
	st.turns.advance(last, claimed)
	return claimed, nil
}

// turns remembers which tenant was served last by this node's claims.
type turns struct {
	mu     sync.Mutex
	tenant uuid.UUID // guarded by mu
}

func (t *turns) last() uuid.UUID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tenant
}

// advance moves to the last tenant served by a claim that started after from.
func (t *turns) advance(from uuid.UUID, claimed []saga.Loaded) {
	if len(claimed) == 0 {
		return
	}
	// wrapped means that the claim wrapped around to the first tenant to get there.
	wrapped := func(id uuid.UUID) bool { return bytes.Compare(id[:], from[:]) <= 0 }
	latest := claimed[0].Saga.Tenant.ID
	for i := range claimed {
		id := claimed[i].Saga.Tenant.ID
		if w := wrapped(id); w == wrapped(latest) && bytes.Compare(id[:], latest[:]) > 0 || w && !wrapped(latest) {
			latest = id
		}
	}
	t.mu.Lock()
	t.tenant = latest
	t.mu.Unlock()
}
