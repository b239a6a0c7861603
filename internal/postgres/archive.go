package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/saga"
)

// cutoffs are the times before which a saga of workflow w must have ended to be
// expired: NULL, and so nothing, where its retention is for ever. $2 and $3 are
// the default retentions in milliseconds, -1 for ever; $4 stands in for all.
const cutoffs = `(SELECT
	coalesce($4::timestamptz, now() - nullif(coalesce(w.completed_retention_ms, $2::bigint), -1) * interval '1 ms') AS completed,
	coalesce($4::timestamptz, now() - nullif(coalesce(w.failed_retention_ms, $3::bigint), -1) * interval '1 ms') AS failed) before`

// Completed sagas are found workflow by workflow, so that those of a workflow
// that is kept for ever are never read. Nothing ended before it was created, so
// the index of the workflow's list serves: its old end holds what has expired.
// Those that ended otherwise are few; all that are live are looked through.
const (
	expiredCompleted = `
	FROM saga.saga_states s
	WHERE s.tenant_id = w.tenant_id AND s.workflow_name = w.name AND s.created_at < before.completed
	  AND s.ended_state = 3 AND s.completed_at < before.completed AND NOT s.needs_attention
	  AND (s.restored_at IS NULL OR s.restored_at < before.completed)
	ORDER BY s.created_at, s.id`
	expiredFailed = `
	FROM saga.saga_states s
	JOIN saga.workflows w ON w.tenant_id = s.tenant_id AND w.name = s.workflow_name
	CROSS JOIN LATERAL ` + cutoffs + `
	WHERE s.ended_state <> 3 AND s.completed_at < before.failed AND NOT s.needs_attention
	  AND (s.restored_at IS NULL OR s.restored_at < before.failed)`
)

// archiveCompleted and archiveFailed move one batch; $1 is the tenant, NULL for
// all, and $5 the most to move.
func archiveCompleted(e saga.Expiry) string {
	return `
SELECT saga.archive_sagas(ARRAY(
	SELECT found.id FROM saga.workflows w
	CROSS JOIN LATERAL ` + cutoffs + `
	CROSS JOIN LATERAL (SELECT s.id ` + expiredCompleted + ` LIMIT $5::int FOR UPDATE OF s SKIP LOCKED) found
	WHERE ` + ofTenant(e, "w") + `
	LIMIT $5::int))`
}

func archiveFailed(e saga.Expiry) string {
	return `
SELECT saga.archive_sagas(ARRAY(
	SELECT s.id ` + expiredFailed + ` AND ` + ofTenant(e, "s") + `
	LIMIT $5::int FOR UPDATE OF s SKIP LOCKED))`
}

// countExpired counts up to $5 sagas of either kind per workflow.
func countExpired(e saga.Expiry) string {
	return `
WITH failed AS MATERIALIZED (
	SELECT s.tenant_id, s.workflow_name, least(count(*), $5::int) AS n ` + expiredFailed + ` AND ` + ofTenant(e, "s") + `
	GROUP BY s.tenant_id, s.workflow_name
)
SELECT w.tenant_id, w.name, completed.n, coalesce(failed.n, 0)
  FROM saga.workflows w
 CROSS JOIN LATERAL ` + cutoffs + `
 CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT 1 ` + expiredCompleted + ` LIMIT $5::int) few) completed
  LEFT JOIN failed ON failed.tenant_id = w.tenant_id AND failed.workflow_name = w.name
 WHERE ` + ofTenant(e, "w") + ` AND (completed.n > 0 OR failed.n > 0)
 ORDER BY w.name, w.tenant_id
 LIMIT 1000`
}

// ofTenant is fixed text in either case, so that the planner knows which it is.
func ofTenant(e saga.Expiry, table string) string {
	if e.Tenant == uuid.Nil {
		return "$1::uuid IS NULL"
	}
	return table + ".tenant_id = $1::uuid"
}

func expiryParameters(e saga.Expiry, limit int) []any {
	ms := func(d time.Duration) int64 {
		if d <= 0 {
			return -1
		}
		return max(1, d.Milliseconds())
	}
	return []any{
		uuid.NullUUID{UUID: e.Tenant, Valid: e.Tenant != uuid.Nil}, ms(e.Default.Completed), ms(e.Default.Failed),
		sql.NullTime{Time: e.Before, Valid: !e.Before.IsZero()}, limit,
	}
}

// ArchiveExpired implements saga.Archive. A batch is one transaction, so that
// none is long, and a crash between batches leaves nothing half done.
func (st *Sagas) ArchiveExpired(ctx context.Context, e saga.Expiry, limit int) (int, error) {
	total := 0
	for _, statement := range []string{archiveCompleted(e), archiveFailed(e)} {
		if total == limit {
			break
		}
		moved, err := again(func() (moved int, err error) {
			err = st.db.read.GetContext(ctx, &moved, statement, expiryParameters(e, limit-total)...)
			return moved, err
		})
		if total += moved; err != nil {
			return total, fmt.Errorf("archive expired sagas: %w", err)
		}
	}
	return total, nil
}

// CountExpired implements saga.Archive.
func (st *Sagas) CountExpired(ctx context.Context, e saga.Expiry, maxEach int) ([]saga.Expired, error) {
	rows, err := st.db.read.QueryContext(ctx, countExpired(e), expiryParameters(e, maxEach)...)
	if err != nil {
		return nil, fmt.Errorf("count expired sagas: %w", err)
	}
	var out []saga.Expired
	err = eachRow(rows, func() error {
		var x saga.Expired
		err := rows.Scan(&x.TenantID, &x.WorkflowName, &x.Completed, &x.Failed)
		out = append(out, x)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count expired sagas: %w", err)
	}
	return out, nil
}

const (
	getArchived  = `SELECT ` + sagaColumns + `, s.archived_at FROM saga.saga_states_archive s WHERE s.id = $1 AND s.tenant_id = $2`
	archivedLogs = `
SELECT ` + logColumns + ` FROM saga.saga_step_logs_archive l WHERE l.saga_id = $1
 ORDER BY l.step_index, l.started_at, l.attempt`
)

// GetArchived implements saga.Archive. Head and logs come from one snapshot: a
// restore in between would take the logs away.
func (st *Sagas) GetArchived(ctx context.Context, tenant, id uuid.UUID) (saga.Archived, error) {
	a, err := inSnapshot(ctx, st.db.read, func(tx *sqlx.Tx) (a saga.Archived, err error) {
		rows, err := tx.QueryContext(ctx, getArchived, id, tenant)
		if err != nil {
			return a, err
		}
		found := false
		err = eachRow(rows, func() error { found = true; a, err = scanArchived(rows); return err })
		if err != nil || !found {
			return a, err
		}
		if rows, err = tx.QueryContext(ctx, archivedLogs, id); err != nil {
			return a, err
		}
		a.Logs = []saga.StepLog{}
		err = eachRow(rows, func() error {
			l, err := scanLog(rows)
			a.Logs = append(a.Logs, l)
			return err
		})
		return a, err
	})
	switch {
	case err != nil:
		return saga.Archived{}, fmt.Errorf("get archived saga: %w", err)
	case a.Saga.ID == uuid.Nil:
		return saga.Archived{}, saga.NotFound(id)
	}
	return a, nil
}

// inSnapshot runs f in a transaction in which every query sees the same moment.
func inSnapshot[R any](ctx context.Context, pool *sqlx.DB, f func(*sqlx.Tx) (R, error)) (R, error) {
	tx, err := pool.BeginTxx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		var none R
		return none, err
	}
	defer tx.Rollback() //nolint:errcheck // it has only read
	return f(tx)
}

// scanArchived reads one row of sagaColumns and archived_at.
func scanArchived(row scanner) (a saga.Archived, err error) {
	a.Saga, err = scanSaga(andThen{row, &a.ArchivedAt})
	utc(&a.ArchivedAt)
	return a, err
}

// andThen scans one column more than it is asked for.
type andThen struct {
	row  scanner
	last any
}

func (r andThen) Scan(dest ...any) error { return r.row.Scan(append(dest, r.last)...) }

// ListArchived implements saga.Archive.
func (st *Sagas) ListArchived(ctx context.Context, tenant uuid.UUID, f saga.Filter) (saga.ArchivedPage, error) {
	var page saga.ArchivedPage
	if !archivable(&f) {
		return page, nil
	}
	if f.Total {
		query, args := countArchived(tenant, f)
		if err := st.db.read.GetContext(ctx, &page.Total, query, args...); err != nil {
			return page, fmt.Errorf("count archived sagas: %w", err)
		}
	}
	query, args := listArchived(tenant, f)
	rows, err := st.db.read.QueryContext(ctx, query, args...)
	if err == nil {
		err = eachRow(rows, func() error {
			a, err := scanArchived(rows)
			page.Sagas = append(page.Sagas, a)
			return err
		})
	}
	if err != nil {
		return page, fmt.Errorf("list archived sagas: %w", err)
	}
	if page.More = len(page.Sagas) > f.Limit; page.More {
		page.Sagas = page.Sagas[:f.Limit]
	}
	return page, nil
}

// archivable tells whether any archived saga can fit f, and takes out of f what
// every one fits: all have ended and none needs attention.
func archivable(f *saga.Filter) bool {
	if f.NeedsAttention != nil && *f.NeedsAttention {
		return false
	}
	f.NeedsAttention = nil
	if f.States == nil {
		return true
	}
	f.States = slices.DeleteFunc(slices.Clone(f.States), func(s saga.State) bool { return !s.Terminal() })
	return len(f.States) > 0
}

func listArchived(tenant uuid.UUID, f saga.Filter) (query string, args []any) {
	w := where{}
	w.sagas(tenant, f)
	if f.After != nil {
		w.add("(s.created_at, s.id) < (?, ?)", f.After.CreatedAt, f.After.ID)
	}
	return fmt.Sprintf(`SELECT %s, s.archived_at FROM saga.saga_states_archive s WHERE %s ORDER BY s.created_at DESC, s.id DESC LIMIT %d OFFSET %d`,
		sagaColumns, w.text(), f.Limit+1, f.Offset), w.args
}

func countArchived(tenant uuid.UUID, f saga.Filter) (query string, args []any) {
	w := where{}
	w.sagas(tenant, f)
	return `SELECT count(*) FROM saga.saga_states_archive s WHERE ` + w.text(), w.args
}

// Restore implements saga.Archive. The key becomes known in the transaction
// that moves the saga, or not at all.
func (st *Sagas) Restore(ctx context.Context, r saga.Restoration) error {
	restored, err := again(func() (bool, error) { return st.restore(ctx, r) })
	switch {
	case err != nil && violates(err, "idempotency_keys_pkey"):
		return saga.KeyUsed()
	case err != nil:
		return fmt.Errorf("restore saga: %w", err)
	case !restored:
		return saga.NotFound(r.SagaID)
	}
	return nil
}

func (st *Sagas) restore(ctx context.Context, r saga.Restoration) (restored bool, err error) {
	tx, err := st.db.read.BeginTxx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if err := tx.GetContext(ctx, &restored, `SELECT saga.restore_saga($1, $2)`, r.TenantID, r.SagaID); err != nil || !restored {
		return false, err
	}
	if k := r.Key; k != nil {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO saga.idempotency_keys (tenant_id, principal, route, key, request_hash, saga_id)
			VALUES ($1, $2, $3, $4, $5, $6)`, k.TenantID, k.Principal, k.Route, k.Key, k.Hash, r.SagaID)
		if err != nil {
			return false, err
		}
	}
	return true, tx.Commit()
}
