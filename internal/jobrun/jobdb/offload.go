package jobdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// Logs is jobrun.Offloading on PostgreSQL.
type Logs struct{ db *DB }

// NewLogs returns the logs of the job runs in db, of all tenants.
func NewLogs(db *DB) *Logs { return &Logs{db} }

var offloadable = `
SELECT ` + RunColumns + ` FROM jobs.job_runs r
 WHERE r.logged AND r.log_ref IS NULL AND r.finished_at IS NOT NULL AND r.finished_at < $1
 ORDER BY r.finished_at, r.id LIMIT $2`

// Offloadable implements jobrun.Offloading. Runs whose content cannot be decrypted are returned
// without it, because their logs may be readable.
func (st *Logs) Offloadable(ctx context.Context, before time.Time, limit int) ([]jobrun.Run, error) {
	rows, err := st.db.QueryRead(ctx, offloadable, before, limit)
	if err != nil {
		return nil, postgres.Wrap("look for logs of job runs", err)
	}
	var runs []jobrun.Run
	err = postgres.EachRow(rows, func() error {
		r, err := st.db.ScanRun(rows)
		if err != nil && !errors.Is(err, envelope.ErrUnreadable) {
			return err
		}
		runs = append(runs, r)
		return nil
	})
	return runs, postgres.Wrap("look for logs of job runs", err)
}

const (
	countChunks = `SELECT count(*) FROM jobs.job_run_logs l WHERE l.run_id = $1 AND l.tenant_id = $2`

	// keepRef stores the log's location and the event and deletes the chunks, in one statement.
	keepRef = `
WITH told AS (
	INSERT INTO jobs.job_run_events (run_id, tenant_id, at, kind, reason)
	VALUES ($2, $1, clock_timestamp(), '` + string(jobrun.WasOffloaded) + `', $5)
), gone AS (
	DELETE FROM jobs.job_run_logs l WHERE l.run_id = $2 AND l.tenant_id = $1
)
UPDATE jobs.job_runs r SET log_ref = $3, log_sha256 = $4, updated_at = clock_timestamp()
 WHERE r.tenant_id = $1 AND r.id = $2 AND r.log_ref IS NULL AND r.finished_at IS NOT NULL`
)

// Offloaded implements jobrun.Offloading. Appending to a log locks the row of the run, so the
// chunks are counted in a separate statement after that row is locked. A statement that began
// earlier would not see chunks stored in the meantime.
func (st *Logs) Offloaded(
	ctx context.Context, tenant, run uuid.UUID, ref string, sum []byte, chunks int, bytes int64,
) (done bool, err error) {
	err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
		r, _, err := st.db.LockRun(ctx, tx, tenant, run)
		switch {
		case err != nil && !errors.Is(err, envelope.ErrUnreadable):
			return err
		case r.LogRef != "":
			done = r.LogRef == ref // the response to the first call was lost
			return nil
		case !r.State.Terminal() || r.LogBytes != bytes:
			return nil
		}
		var n int
		if err := tx.QueryRowContext(ctx, countChunks, run, tenant).Scan(&n); err != nil || n != chunks {
			return err
		}
		done = true
		return st.db.ExecIn(ctx, tx, keepRef, tenant, run, ref, sum, fmt.Sprintf("chunks: %d, bytes: %d; stored as %s", chunks, bytes, ref))
	})
	return done && err == nil, postgres.Wrap("offload the log of a job run", err)
}

// purgeRuns steps through the index of ended runs, tenant by tenant, and deletes the expired runs
// of each.
const purgeRuns = `
WITH RECURSIVE tenants AS (
	(SELECT r.tenant_id FROM jobs.job_runs r WHERE r.finished_at IS NOT NULL ORDER BY r.tenant_id LIMIT 1)
	UNION ALL
	SELECT (SELECT r.tenant_id
	          FROM jobs.job_runs r
	         WHERE r.finished_at IS NOT NULL AND r.tenant_id > t.tenant_id
	         ORDER BY r.tenant_id
	         LIMIT 1)
	  FROM tenants t WHERE t.tenant_id IS NOT NULL
), expired AS MATERIALIZED (
	SELECT e.tenant_id, e.id FROM tenants t CROSS JOIN LATERAL (
		SELECT r.tenant_id, r.id FROM jobs.job_runs r
		 WHERE r.tenant_id = t.tenant_id AND r.finished_at IS NOT NULL AND r.finished_at < $1
		 ORDER BY r.finished_at, r.id
		 LIMIT $2) AS e
	 LIMIT $2
), doomed AS MATERIALIZED (
	SELECT r.tenant_id, r.id, r.created_at, r.log_ref
	  FROM jobs.job_runs r JOIN expired e ON e.tenant_id = r.tenant_id AND e.id = r.id
	 ORDER BY r.id FOR UPDATE OF r SKIP LOCKED
), attempts AS (
	DELETE FROM jobs.job_run_attempts a USING doomed d WHERE a.run_id = d.id AND a.tenant_id = d.tenant_id
), events AS (
	DELETE FROM jobs.job_run_events v USING doomed d WHERE v.run_id = d.id AND v.tenant_id = d.tenant_id
), chunks AS (
	DELETE FROM jobs.job_run_logs l USING doomed d WHERE l.run_id = d.id AND l.tenant_id = d.tenant_id
), stored AS (
	INSERT INTO jobs.log_removals (tenant_id, run_id, created_at, until, moved)
	SELECT d.tenant_id, d.id, d.created_at, now(), true FROM doomed d WHERE d.log_ref IS NOT NULL
	ON CONFLICT DO NOTHING
)
DELETE FROM jobs.job_runs r USING doomed d WHERE r.id = d.id AND r.tenant_id = d.tenant_id
RETURNING r.tenant_id`

// Purge implements jobrun.Offloading.
func (st *Logs) Purge(ctx context.Context, before time.Time, limit int) (deleted int, err error) {
	rows, err := st.db.QueryWrite(ctx, purgeRuns, before, limit)
	if err != nil {
		return 0, postgres.Wrap("purge job runs", err)
	}
	gone := map[uuid.UUID]int64{}
	err = postgres.EachRow(rows, func() error {
		var tenant uuid.UUID
		if err := rows.Scan(&tenant); err != nil {
			return err
		}
		deleted++
		gone[tenant]++
		return nil
	})
	if err == nil { // otherwise it is unknown whether the deletion is durable
		for tenant, n := range gone {
			operator.Took(ctx, tenant, "job_runs_deleted", n)
		}
	}
	return deleted, postgres.Wrap("purge job runs", err)
}

var removalTable = postgres.NewTable(
	postgres.UUID("tenant_id", func(r *jobrun.LogRemoval) *uuid.UUID { return &r.TenantID }),
	postgres.UUID("run_id", func(r *jobrun.LogRemoval) *uuid.UUID { return &r.RunID }),
	postgres.Time("created_at", func(r *jobrun.LogRemoval) *time.Time { return &r.Created }),
	postgres.Time("until", func(r *jobrun.LogRemoval) *time.Time { return &r.Until }),
	postgres.Bool("moved", func(r *jobrun.LogRemoval) *bool { return &r.Moved }),
)

var dueRemovals = `SELECT ` + removalTable.Selected("r") + ` FROM jobs.log_removals r
 WHERE r.due_at <= clock_timestamp() ORDER BY r.due_at, r.run_id LIMIT $1`

// Removals implements jobrun.Offloading.
func (st *Logs) Removals(ctx context.Context, limit int) ([]jobrun.LogRemoval, error) {
	all, err := removalTable.All(st.db.QueryRead(ctx, dueRemovals, limit))
	return all, postgres.Wrap("look for logs to delete", err)
}

// removed postpones a removal that is to be repeated, and deletes any other. A removal that has
// been renewed in the meantime remains.
const removed = `
WITH again AS (
	UPDATE jobs.log_removals SET due_at = until
	 WHERE tenant_id = $1 AND run_id = $2 AND until = $3 AND until > clock_timestamp()
)
DELETE FROM jobs.log_removals WHERE tenant_id = $1 AND run_id = $2 AND until = $3 AND until <= clock_timestamp()`

// Removed implements jobrun.Offloading.
func (st *Logs) Removed(ctx context.Context, r jobrun.LogRemoval) error {
	return postgres.Wrap("record that a log was deleted", st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
		return st.db.ExecIn(ctx, tx, removed, r.TenantID, r.RunID, r.Until)
	}))
}

var _ jobrun.Offloading = (*Logs)(nil)
