package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// JobBulks is jobrun.BulkOperations on PostgreSQL. Rows are locked in this order: the
// backfill or bulk, then runs by id.
type JobBulks struct {
	db   *JobDB
	jobs *Jobs
}

// NewJobBulks returns the backfills and bulks of jobs.
func NewJobBulks(db *JobDB, jobs *Jobs) *JobBulks { return &JobBulks{db, jobs} }

var _ jobrun.BulkOperations = (*JobBulks)(nil)

// backfillColumns are the columns of jobs.backfills, alias b, in the order of
// scanBackfill.
const backfillColumns = `b.id, b.tenant_id, b.definition_id, b.version, b.state, b.from_at, b.to_at, b.reprocess, b.newest_first, b.max_active,
	b.overlap, b.cursor_at, b.created, b.skipped, b.reason, b.actor, b.created_at, b.ended_at`

func scanBackfill(row scanner, more ...any) (b jobrun.Backfill, err error) {
	dest := []any{
		&b.ID, &b.TenantID, &b.DefinitionID, &b.Version, &b.State, &b.From, &b.To, &b.Reprocess, &b.NewestFirst, &b.MaxActive,
		&b.Overlap, &b.Cursor, &b.Created, &b.Skipped, &b.Reason, &b.Actor, &b.CreatedAt, &b.EndedAt,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return b, err
	}
	utc(&b.From, &b.To, b.Cursor, &b.CreatedAt, b.EndedAt)
	return b, nil
}

// CreateBackfill implements jobrun.BulkOperations.
func (st *JobBulks) CreateBackfill(ctx context.Context, b jobrun.Backfill, by operator.Action) (stored jobrun.Backfill, created bool, err error) {
	err = st.db.inTenant(ctx, b.TenantID, func(tx *sqlx.Tx) error {
		res, err := tx.ExecContext(ctx, `
			INSERT INTO jobs.backfills (id, tenant_id, definition_id, version, state, from_at, to_at, reprocess, newest_first, max_active, overlap, reason, actor, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (id) DO NOTHING`,
			b.ID, b.TenantID, b.DefinitionID, b.Version, b.State, b.From, b.To, b.Reprocess, b.NewestFirst, b.MaxActive, b.Overlap, b.Reason, b.Actor, b.CreatedAt)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		created = true
		return putAction(ctx, tx, by)
	})
	if err == nil && !created {
		stored, _, err = st.GetBackfill(ctx, b.TenantID, b.ID)
		return stored, false, err
	}
	return b, created, outage("create backfill", err)
}

// activeOf counts the runs of a backfill that have not ended.
func activeOf(tenant, backfill string) string {
	return `(SELECT count(*) FROM jobs.job_runs r
  WHERE r.tenant_id = ` + tenant + ` AND r.backfill_id = ` + backfill + ` AND r.phase IN ('PENDING', 'HELD', 'ORPHANED'))`
}

var getBackfill = ofTenant(`SELECT `+backfillColumns+`, `+activeOf("b.tenant_id", "b.id")+` AS active
  FROM jobs.backfills b WHERE b.tenant_id = tenant.id AND b.id = $2`, "")

// GetBackfill implements jobrun.BulkOperations.
func (st *JobBulks) GetBackfill(ctx context.Context, tenant, id uuid.UUID) (b jobrun.Backfill, active int64, err error) {
	found := false
	err = st.db.readTenant(ctx, tenant, getBackfill, func(rows *sql.Rows) (err error) {
		b, err = scanBackfill(rows, &active)
		found = true
		return err
	}, id)
	if err == nil && !found {
		err = jobrun.NoBulk("backfill")
	}
	return b, active, outage("get backfill", err)
}

// ListBackfills implements jobrun.BulkOperations. Backfills are few: they are counted to
// the end.
func (st *JobBulks) ListBackfills(ctx context.Context, tenant, definition uuid.UUID, p jobrun.Paging) (list []jobrun.Backfill, page jobrun.Paged, err error) {
	var w where
	w.add("b.tenant_id = ? AND b.definition_id = ?", tenant, definition)
	err = st.db.inSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		if p.Total {
			if err := tx.GetContext(ctx, &page.Total, `SELECT count(*) FROM jobs.backfills b WHERE `+w.text(), w.args...); err != nil {
				return err
			}
		}
		l := newestFirst{backfillColumns, "jobs.backfills b", "b.created_at", "b.id"}
		list, page.More, err = readPage(ctx, tx, l, &w, p, func(row scanner) (jobrun.Backfill, error) { return scanBackfill(row) })
		return err
	})
	return list, page, outage("list backfills", err)
}

// CancelBackfill implements jobrun.BulkOperations. The backfill ends first, so that it makes
// no more runs; when the node dies before those are canceled, canceling it again
// does.
func (st *JobBulks) CancelBackfill(ctx context.Context, tenant, id uuid.UUID, by operator.Action) (b jobrun.Backfill, err error) {
	err = st.db.inTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		b, err = scanBackfill(tx.QueryRowContext(ctx, `SELECT `+backfillColumns+` FROM jobs.backfills b WHERE b.tenant_id = $1 AND b.id = $2 FOR UPDATE`, tenant, id))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return jobrun.NoBulk("backfill")
		case err != nil:
			return err
		case b.State == jobrun.BulkCompleted:
			return fault.New(fault.Conflict, jobrun.CodeConflict, "the backfill is COMPLETED and cannot be canceled")
		case b.State == jobrun.BulkCanceled:
			return nil
		}
		b.State, b.Version, b.EndedAt = jobrun.BulkCanceled, b.Version+1, &by.At
		if _, err := tx.ExecContext(ctx, `UPDATE jobs.backfills b SET state = $3, version = $4, ended_at = $5 WHERE b.tenant_id = $1 AND b.id = $2`,
			tenant, id, b.State, b.Version, b.EndedAt); err != nil {
			return err
		}
		return putAction(ctx, tx, by)
	})
	if err != nil {
		return b, outage("cancel backfill", err)
	}
	return b, outage("cancel the runs of a backfill", st.cancelWaiting(ctx, tenant, id, by))
}

// cancelWaiting cancels the runs of a backfill that were not started.
func (st *JobBulks) cancelWaiting(ctx context.Context, tenant, id uuid.UUID, by operator.Action) error {
	runs, _, err := st.jobs.ListRuns(ctx, tenant, jobrun.Filter{BackfillID: id, States: []jobrun.State{jobrun.Pending, jobrun.Assigned, jobrun.Orphaned}}, jobrun.Paging{Limit: 2 * jobrun.MaxBackfillActive})
	if err != nil {
		return err
	}
	for i := range runs {
		_, err := st.jobs.operate(ctx, tenant, runs[i].ID, nil,
			jobrun.CancelRequested{Actor: by.Actor, Reason: "its backfill was canceled", Waiting: true}) // not what has begun meanwhile
		if err != nil && !ended(err) {
			return err
		}
	}
	return nil
}

// slotStates reads what became of slots: runs by the schedule and of backfills,
// and what retried them.
const slotStates = `
SELECT first.slot, bool_or(run.state IN ('PENDING', 'ASSIGNED', 'RUNNING', 'ORPHANED')), bool_or(run.state = 'SUCCEEDED'), bool_or(run.state IN ('FAILED', 'TIMED_OUT', 'CANCELED'))
  FROM (SELECT r.scheduled_for AS slot, r.id, r.state FROM jobs.job_runs r
         WHERE r.tenant_id = $1 AND r.definition_id = $2 AND r.scheduled_for = ANY ($3::timestamptz[]) AND r.trigger = 'TIME'
        UNION ALL
        SELECT r.scheduled_for, r.id, r.state FROM jobs.job_runs r
         WHERE r.tenant_id = $1 AND r.definition_id = $2 AND r.scheduled_for = ANY ($3::timestamptz[]) AND r.trigger = 'BACKFILL') AS first
  CROSS JOIN LATERAL (SELECT first.state
        UNION ALL
        SELECT c.state FROM jobs.job_runs c WHERE c.tenant_id = $1 AND c.root_run_id = first.id AND c.retry_number > 0) AS run (state)
 GROUP BY first.slot`

// SlotStates implements jobrun.BulkOperations.
func (st *JobBulks) SlotStates(ctx context.Context, tenant, definition uuid.UUID, slots []time.Time) (states map[time.Time]jobrun.SlotState, err error) {
	err = st.db.inTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		states, err = readSlots(ctx, tx, tenant, definition, slots)
		return err
	})
	return states, outage("read slots", err)
}

// readSlots reads what became of slots; those that never had a run are left out.
func readSlots(ctx context.Context, tx *sqlx.Tx, tenantID, definition uuid.UUID, slots []time.Time) (map[time.Time]jobrun.SlotState, error) {
	texts := make([]string, len(slots))
	for i, slot := range slots {
		texts[i] = slot.UTC().Format(time.RFC3339Nano)
	}
	rows, err := tx.QueryContext(ctx, slotStates, tenantID, definition, textArray(texts))
	if err != nil {
		return nil, err
	}
	states := make(map[time.Time]jobrun.SlotState, len(slots))
	return states, eachRow(rows, func() error {
		var slot time.Time
		var s jobrun.SlotState
		err := rows.Scan(&slot, &s.Active, &s.Succeeded, &s.Failed)
		states[slot.UTC()] = s
		return err
	})
}
