package jobdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

var getRun = postgres.OfTenant(`SELECT `+RunColumns+`
  FROM jobs.job_runs r
 WHERE r.tenant_id = tenant.id AND r.id = $2`, "")

// Run implements jobrun.Runs.
func (st *Jobs) Run(ctx context.Context, tenant, id uuid.UUID) (jobrun.Run, error) {
	var r jobrun.Run
	err := st.db.ReadOne(ctx, tenant, getRun, runNotFound(), func(rows *sql.Rows) (err error) {
		r, err = st.db.ScanRun(rows)
		return shown(err)
	}, id)
	return r, postgres.Wrap("read a job run", err)
}

func runNotFound() error {
	return fault.New(fault.NotFound, jobrun.CodeRunNotFound, "there is no such job run")
}

var lockOneRun = `
SELECT ` + RunColumns + `, clock_timestamp()
  FROM jobs.job_runs r
 WHERE r.tenant_id = $1 AND r.id = $2
 FOR NO KEY UPDATE OF r`

// LockRun reads and locks a run in tx, a transaction of the writers' connections; now is the
// database's time. Fault: NotFound.
func (db *DB) LockRun(
	ctx context.Context, tx *sqlx.Tx, tenantID, id uuid.UUID,
) (r jobrun.Run, now time.Time, err error) {
	stmt, err := db.PreparedIn(ctx, tx, lockOneRun)
	if err != nil {
		return r, now, err
	}
	r, err = db.ScanRun(stmt.QueryRowContext(ctx, tenantID, id), &now)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = runNotFound()
	case errors.Is(err, envelope.ErrUnreadable):
		err = jobrun.Closed().Because(err)
	}
	return r, now.UTC(), err
}

// runOfKey reads the run with an idempotency key. Fault: NotFound.
func (db *DB) runOfKey(ctx context.Context, tx *sqlx.Tx, tenantID uuid.UUID, key string) (jobrun.Run, error) {
	r, err := db.ScanRun(tx.QueryRowContext(ctx, `
		SELECT `+RunColumns+` FROM jobs.job_runs r WHERE r.tenant_id = $1 AND r.idempotency_key = $2`, tenantID, key))
	if errors.Is(err, sql.ErrNoRows) {
		err = runNotFound()
	}
	return r, err
}

// Create implements jobrun.Runs.
func (st *Jobs) Create(
	ctx context.Context, r jobrun.Run, by operator.Action,
) (stored jobrun.Run, created bool, err error) {
	_, err = postgres.RetryCollision(func() (struct{}, error) {
		return struct{}{}, st.db.InWrite(ctx, func(tx *sqlx.Tx) (err error) {
			stored, created, err = st.create(ctx, tx, r, by)
			return err
		})
	})
	if err != nil {
		return jobrun.Run{}, false, postgres.Wrap("create a job run", err)
	}
	st.db.RunsCreated([]jobrun.Run{r}, []bool{created})
	return stored, created, nil
}

// lockKey serializes transactions that check whether a concurrency key is free.
const lockKey = `SELECT pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 0))`

// activeOfKey finds a run that prevents the creation of another run with the same key: a worker
// holds it, it may be assigned again, or it is due earlier.
var activeOfKey = `
SELECT id, state FROM (
	(SELECT r.id, r.state FROM jobs.job_runs r
	  WHERE r.tenant_id = $1 AND r.concurrency_key = $2 AND r.id <> $3 AND r.phase` + HoldsKey + ` LIMIT 1)
	UNION ALL
	(SELECT r.id, r.state FROM jobs.job_runs r
	  WHERE r.tenant_id = $1 AND r.concurrency_key = $2 AND r.id <> $3 AND r.phase` + Waits + ` AND r.available_at <= $4
	  LIMIT 1)) AS r
 LIMIT 1`

func (st *Jobs) create(ctx context.Context, tx *sqlx.Tx, r jobrun.Run, by operator.Action) (jobrun.Run, bool, error) {
	alone := r.Alone()
	if alone {
		if _, err := tx.ExecContext(ctx, lockKey, r.TenantID.String(), r.ConcurrencyKey); err != nil {
			return r, false, err
		}
	}
	created, err := st.db.InsertRuns(ctx, tx, []jobrun.Run{r})
	if err != nil {
		return r, false, err
	}
	if !created[0] {
		before, err := st.db.runOfKey(ctx, tx, r.TenantID, r.IdempotencyKey)
		if fault.KindOf(err) == fault.NotFound {
			err = fmt.Errorf("run %s conflicts with another run that does not have its idempotency key", r.ID)
		}
		return before, false, err
	}
	if alone {
		if err := refusedByKey(ctx, tx, &r); err != nil {
			return r, false, err
		}
	}
	return r, true, auditdb.PutAction(ctx, tx, by)
}

// refusedByKey returns a fault if another run prevents the creation of r.
func refusedByKey(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run) error {
	var other uuid.UUID
	var state jobrun.State
	err := tx.QueryRowContext(ctx, activeOfKey, r.TenantID, r.ConcurrencyKey, r.ID, r.AvailableAt).Scan(&other, &state)
	switch {
	case err == nil:
		return fault.New(fault.Conflict, jobrun.CodeForbidden,
			"run %s with the same concurrency key is %s, and the job's concurrency policy is forbid", other, state)
	case errors.Is(err, sql.ErrNoRows):
		return nil
	}
	return err
}

// MayCreate implements jobrun.Runs.
func (st *Jobs) MayCreate(ctx context.Context, r *jobrun.Run) error {
	if !r.Alone() {
		return nil
	}
	err := st.db.InTenant(ctx, r.TenantID, func(tx *sqlx.Tx) error { return refusedByKey(ctx, tx, r) })
	return postgres.Wrap("look for another run with the same concurrency key", err)
}
