package sagadb

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// cutoffs are the times before which a saga of workflow w must have ended to be expired. A cutoff
// is NULL, which matches nothing, if sagas are kept forever. $2 and $3 are the default retentions
// in milliseconds, where -1 means forever; $4 overrides all of them.
const cutoffs = `(SELECT
	coalesce($4::timestamptz,
	         now() - nullif(coalesce(w.completed_retention_ms, $2::bigint), -1) * interval '1 ms') AS completed,
	coalesce($4::timestamptz,
	         now() - nullif(coalesce(w.failed_retention_ms, $3::bigint), -1) * interval '1 ms') AS failed) before`

// expiring returns the query that finds the workflows with expired sagas. Nearly all sagas are
// completed, so the completed sagas of a workflow that keeps them forever must never be read. The
// query therefore skips from one workflow with completed sagas to the next, reads only the oldest
// saga of each, and leaves out workflows whose oldest saga is recent enough. A saga never ends
// before it is created, so the index of the workflow's list can be used: expired sagas are at its
// old end.
//
// One statement with a lateral join would be enough if the planner knew each workflow. Without its
// name, the planner assumes that every workflow is as frequent as the most frequent one, takes the
// tenant's index, and reads all sagas once per workflow.
func expiring(e saga.Expiry) string {
	return `
WITH RECURSIVE live AS (
	(SELECT s.tenant_id, s.workflow_name, s.created_at
	   FROM saga.saga_states s
	  WHERE ` + is("s.ended_state", saga.Completed) + ` AND ` + withinTenant(e) + `
	  ORDER BY s.tenant_id, s.workflow_name, s.created_at LIMIT 1)
	UNION ALL
	SELECT next.tenant_id, next.workflow_name, next.created_at FROM live
	 CROSS JOIN LATERAL (
		SELECT s.tenant_id, s.workflow_name, s.created_at FROM saga.saga_states s
		 WHERE (s.tenant_id, s.workflow_name) > (live.tenant_id, live.workflow_name)
		   AND ` + is("s.ended_state", saga.Completed) + `
		   AND ` + withinTenant(e) + `
		 ORDER BY s.tenant_id, s.workflow_name, s.created_at LIMIT 1) next
)
SELECT w.tenant_id, w.name, before.completed
  FROM live JOIN saga.workflows w ON w.tenant_id = live.tenant_id AND w.name = live.workflow_name
 CROSS JOIN LATERAL ` + cutoffs + `
 WHERE live.created_at < before.completed`
}

var expiredCompleted = `
	FROM saga.saga_states s
	WHERE s.tenant_id = $1
	  AND s.workflow_name = $2
	  AND s.created_at < $3
	  AND ` + is("s.ended_state", saga.Completed) + `
	  AND s.completed_at < $3
	  AND NOT s.needs_attention AND (s.restored_at IS NULL OR s.restored_at < $3)`

// archiveFound moves the sagas found by the sub-select that follows it, by id and tenant, and
// returns how many it moved for each tenant.
const archiveFound = `SELECT f.tenant_id, saga.archive_sagas(array_agg(f.id), array_agg(f.tenant_id)) FROM `

var (
	archiveCompleted = archiveFound + `(SELECT s.id, s.tenant_id ` + expiredCompleted + `
	                                     ORDER BY s.created_at
	                                     LIMIT $4
	                                     FOR UPDATE SKIP LOCKED) f
	 GROUP BY f.tenant_id`
	countCompleted = `SELECT count(*) FROM (SELECT 1 ` + expiredCompleted + ` LIMIT $4) few`
)

// Sagas that ended in any other state are few, so all of them that are not archived are read.
var expiredFailed = `
	FROM saga.saga_states s
	JOIN saga.workflows w ON w.tenant_id = s.tenant_id AND w.name = s.workflow_name
	CROSS JOIN LATERAL ` + cutoffs + `
	WHERE ` + isNot("s.ended_state", saga.Completed) + ` AND s.completed_at < before.failed AND NOT s.needs_attention
	  AND (s.restored_at IS NULL OR s.restored_at < before.failed)`

func archiveFailed(e saga.Expiry) string {
	return archiveFound + `(SELECT s.id, s.tenant_id ` + expiredFailed + ` AND ` + withinTenant(e) + `
	                         LIMIT $5
	                         FOR UPDATE OF s SKIP LOCKED) f
	 GROUP BY f.tenant_id`
}

func countFailed(e saga.Expiry) string {
	return `
SELECT s.tenant_id, s.workflow_name, least(count(*), $5) AS failed ` + expiredFailed + ` AND ` + withinTenant(e) + `
 GROUP BY s.tenant_id, s.workflow_name`
}

// withinTenant is fixed text in both cases, so that the planner knows which of them it is.
func withinTenant(e saga.Expiry) string {
	if e.Tenant == uuid.Nil {
		return "$1::uuid IS NULL"
	}
	return "s.tenant_id = $1::uuid"
}

// expiryParameters returns $1 to $4 of the statements above, followed by more.
func expiryParameters(e saga.Expiry, more ...any) []any {
	ms := func(d time.Duration) int64 {
		if d <= 0 {
			return -1
		}
		return max(1, d.Milliseconds())
	}
	return append([]any{
		uuid.NullUUID{UUID: e.Tenant, Valid: e.Tenant != uuid.Nil}, ms(e.Default.Completed), ms(e.Default.Failed),
		sql.NullTime{Time: e.Before, Valid: !e.Before.IsZero()},
	}, more...)
}

// expiringWorkflow is a workflow that has unarchived sagas created before the cutoff for its
// completed sagas.
type expiringWorkflow struct {
	Tenant uuid.UUID `db:"tenant_id"`
	Name   string    `db:"name"`
	Before time.Time `db:"completed"`
}

// maxCounted limits how many workflows CountExpired returns.
const maxCounted = 1000

func (st *Sagas) expiring(ctx context.Context, e saga.Expiry) ([]expiringWorkflow, error) {
	var out []expiringWorkflow
	err := st.db.Read.SelectContext(ctx, &out, expiring(e), expiryParameters(e)...)
	return out, err
}

// ArchiveExpired implements saga.Archive. It moves each batch in a transaction of its own, so that
// no transaction is long and a crash leaves nothing half done.
func (st *Sagas) ArchiveExpired(ctx context.Context, e saga.Expiry, limit int) (int, error) {
	total, err := st.archiveExpired(ctx, e, limit)
	if err != nil {
		return total, fmt.Errorf("archive expired sagas: %w", err)
	}
	return total, nil
}

func (st *Sagas) archiveExpired(ctx context.Context, e saga.Expiry, limit int) (total int, err error) {
	move := func(statement string, args ...any) error {
		moved, err := postgres.RetryCollision(func() (map[uuid.UUID]int64, error) {
			return st.db.ExecByTenant(ctx, statement, args...)
		})
		for tenant, n := range moved {
			operator.Took(ctx, tenant, "sagas_archived", n)
			total += int(n)
		}
		return err
	}
	workflows, err := st.expiring(ctx, e)
	if err != nil {
		return 0, err
	}
	for _, w := range workflows {
		if total == limit {
			return total, nil
		}
		if err := move(archiveCompleted, w.Tenant, w.Name, w.Before, limit-total); err != nil {
			return total, err
		}
	}
	if total < limit {
		err = move(archiveFailed(e), expiryParameters(e, limit-total)...)
	}
	return total, err
}

// CountExpired implements saga.Archive.
func (st *Sagas) CountExpired(ctx context.Context, e saga.Expiry, maxEach int) ([]saga.Expired, error) {
	out, err := st.countExpired(ctx, e, maxEach)
	if err != nil {
		return nil, fmt.Errorf("count expired sagas: %w", err)
	}
	return out, nil
}

func (st *Sagas) countExpired(ctx context.Context, e saga.Expiry, maxEach int) ([]saga.Expired, error) {
	type id struct {
		tenant uuid.UUID
		name   string
	}
	counts := map[id]saga.Expired{}
	workflows, err := st.expiring(ctx, e)
	if err != nil {
		return nil, err
	}
	for _, w := range workflows {
		x := saga.Expired{TenantID: w.Tenant, WorkflowName: w.Name}
		if err := st.db.Read.GetContext(ctx, &x.Completed, countCompleted, w.Tenant, w.Name, w.Before, maxEach); err != nil {
			return nil, err
		}
		if x.Completed > 0 {
			counts[id{w.Tenant, w.Name}] = x
		}
	}
	var rest []struct {
		Tenant uuid.UUID `db:"tenant_id"`
		Name   string    `db:"workflow_name"`
		Failed int       `db:"failed"`
	}
	if err := st.db.Read.SelectContext(ctx, &rest, countFailed(e), expiryParameters(e, maxEach)...); err != nil {
		return nil, err
	}
	for _, w := range rest {
		x := counts[id{w.Tenant, w.Name}]
		x.TenantID, x.WorkflowName, x.Failed = w.Tenant, w.Name, w.Failed
		counts[id{w.Tenant, w.Name}] = x
	}
	out := slices.SortedFunc(maps.Values(counts), func(a, b saga.Expired) int {
		return cmp.Or(cmp.Compare(a.WorkflowName, b.WorkflowName), bytes.Compare(a.TenantID[:], b.TenantID[:]))
	})
	return out[:min(maxCounted, len(out))], nil
}
