package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// operated is a run that an operator has dealt with.
type operated struct {
	jobrun.Run
	changed bool
}

// operate locks a run and has do deal with it; when that changes it, the action is
// stored with it. nil: no action.
func (st *Jobs) operate(ctx context.Context, tenantID, id uuid.UUID, by *operator.Action, do func(*sqlx.Tx, jobrun.Run, time.Time) (operated, error)) (jobrun.Run, error) {
	r, err := retryCollision(func() (r operated, err error) {
		err = st.db.inWrite(ctx, func(tx *sqlx.Tx) error {
			locked, now, err := st.db.lockRun(ctx, tx, tenantID, id)
			if err != nil {
				return err
			}
			if r, err = do(tx, locked, now); err != nil || !r.changed || by == nil {
				return err
			}
			return putAction(ctx, tx, *by)
		})
		return r, err
	})
	if err == nil && r.changed && r.State == jobrun.Orphaned {
		st.db.runsAdmitted(r.TenantID, r.Queue)
	}
	if err == nil && r.changed {
		st.db.runEnded(&r.Run)
	}
	return r.Run, err
}

// Cancel implements jobrun.Runs.
func (st *Jobs) Cancel(ctx context.Context, tenant, id uuid.UUID, force bool, by operator.Action) (jobrun.Run, error) {
	r, err := st.operate(ctx, tenant, id, &by, func(tx *sqlx.Tx, r jobrun.Run, now time.Time) (operated, error) {
		return st.cancel(ctx, tx, r, force, operator.By{Actor: by.Actor, Reason: by.Reason}, now)
	})
	return r, outage("cancel a job run", err)
}

const askToCancel = `
UPDATE jobs.job_runs r SET cancel_requested_at = $3, cancel_reason = $4, updated_at = $3
 WHERE r.tenant_id = $1 AND r.id = $2 AND r.state = 'RUNNING' AND r.cancel_requested_at IS NULL`

// cancel ends a locked run, or asks its worker to.
func (st *Jobs) cancel(ctx context.Context, tx *sqlx.Tx, r jobrun.Run, force bool, by operator.By, now time.Time) (operated, error) {
	switch {
	case r.State.Terminal():
		return operated{}, r.Conflict("canceled")
	case r.State != jobrun.Running || force:
		e, err := st.end(ctx, tx, &r, jobrun.Outcome{State: jobrun.Canceled, By: jobrun.Operator, Actor: by.Actor, Reason: by.Reason}, now)
		return operated{e.Run, true}, err
	case r.CancelRequestedAt != nil:
		return operated{r, false}, nil
	}
	done, err := tx.ExecContext(ctx, askToCancel, r.TenantID, r.ID, now, shortened(by.Reason, jobrun.MaxReason))
	if err != nil {
		return operated{}, err
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return operated{}, fmt.Errorf("job run %s moved although it was locked (%w)", r.ID, err)
	}
	r.CancelRequestedAt, r.CancelReason, r.UpdatedAt = &now, by.Reason, now
	var told runEvents
	told.add(&r, jobrun.Event{
		At: now, Kind: jobrun.WasCancelAsk, Version: r.Version, Attempt: r.Attempt, WorkerID: r.WorkerID, Actor: by.Actor, Reason: by.Reason,
	})
	return operated{r, true}, st.db.putRunEvents(ctx, tx, &told)
}

// Reassign implements jobrun.Runs. A run that was to be canceled is CANCELED
// instead, as when its worker gives it back: nobody else is to do it.
func (st *Jobs) Reassign(ctx context.Context, tenant, id uuid.UUID, force bool, by operator.Action) (jobrun.Run, error) {
	r, err := st.operate(ctx, tenant, id, &by, func(tx *sqlx.Tx, r jobrun.Run, now time.Time) (operated, error) {
		what := jobrun.Event{At: now, Kind: jobrun.WasReassigned, Actor: by.Actor, Reason: by.Reason}
		takes := r.State == jobrun.Orphaned || r.State == jobrun.Assigned || r.State == jobrun.Running && force
		switch {
		case takes && r.CancelRequestedAt != nil:
			return st.cancel(ctx, tx, r, true, operator.By{Actor: by.Actor, Reason: r.CancelReason}, now)
		case r.State == jobrun.Orphaned:
			return st.hasten(ctx, tx, r, what)
		case r.State == jobrun.Running && !force:
			return operated{}, fault.New(fault.Conflict, jobrun.CodeConflict,
				"the job run is RUNNING and its process may still be working: set force to reassign it anyway").Allowing(r.Actions())
		case r.State == jobrun.Running, r.State == jobrun.Assigned:
			r, err := st.db.putBack(ctx, tx, r, what, outcomeReassigned)
			return operated{r, true}, err
		}
		return operated{}, r.Conflict("reassigned")
	})
	return r, outage("reassign a job run", err)
}

// hasten ends the wait of a locked run that has lost its worker.
func (st *Jobs) hasten(ctx context.Context, tx *sqlx.Tx, r jobrun.Run, what jobrun.Event) (operated, error) {
	if r.AdmittedAt != nil && !r.AvailableAt.After(what.At) {
		return operated{r, false}, nil
	}
	_, err := tx.ExecContext(ctx, `
		UPDATE jobs.job_runs r SET version = r.version + 1, available_at = $3, admitted_at = $3, updated_at = $3
		 WHERE r.tenant_id = $1 AND r.id = $2 AND r.state = 'ORPHANED'`, r.TenantID, r.ID, what.At)
	if err != nil {
		return operated{}, err
	}
	r.Version, r.AvailableAt, r.AdmittedAt, r.UpdatedAt = r.Version+1, what.At, &what.At, what.At
	what.Version, what.Attempt = r.Version, r.Attempt
	var told runEvents
	told.add(&r, what)
	return operated{r, true}, st.db.putRunEvents(ctx, tx, &told)
}

// ended is for those who cancel many: a run that has ended meanwhile is no error.
func ended(err error) bool {
	return fault.IsCode(err, jobrun.CodeConflict) || fault.KindOf(err) == fault.NotFound
}

// cancelAll cancels the runs of a definition that have not ended, or asks their
// workers to stop, a transaction each.
func (st *Jobs) cancelAll(ctx context.Context, tenant, definition uuid.UUID, by operator.By) error {
	for {
		var ids []uuid.UUID
		err := st.db.listTenant(ctx, tenant, `
			SELECT r.id FROM jobs.job_runs r
			 WHERE r.tenant_id = $1 AND r.definition_id = $2 AND r.phase IN ('PENDING', 'HELD', 'ORPHANED') AND r.cancel_requested_at IS NULL
			 LIMIT 500`, func(rows *sql.Rows) error {
			var id uuid.UUID
			err := rows.Scan(&id)
			ids = append(ids, id)
			return err
		}, tenant, definition)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			_, err := st.operate(ctx, tenant, id, nil, func(tx *sqlx.Tx, r jobrun.Run, now time.Time) (operated, error) {
				return st.cancel(ctx, tx, r, false, by, now)
			})
			if err != nil && !ended(err) {
				return err
			}
		}
	}
}
