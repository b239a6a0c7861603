package jobdb

import (
	"context"
	"database/sql"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// Operate applies an operator's request to a run. If that changes the run, the action returned by
// did is stored with it. If did is nil, no action is stored.
func (st *Jobs) Operate(
	ctx context.Context, tenantID, id uuid.UUID, by *operator.Action, in jobrun.Event,
) (jobrun.Run, error) {
	c, err := postgres.RetryCollision(func() (c jobrun.Change, err error) {
		err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
			r, now, err := st.db.LockRun(ctx, tx, tenantID, id)
			if err != nil {
				return err
			}
			if c, err = st.Apply(ctx, tx, &r, in, now); err != nil || !c.Changes() || by == nil {
				return err
			}
			return auditdb.PutAction(ctx, tx, *by)
		})
		return c, err
	})
	if err == nil && c.Changes() && c.After.State == jobrun.Orphaned {
		st.db.Hub.Admitted(c.After.TenantID, c.After.Queue)
	}
	if err == nil && c.Changes() {
		st.db.RunEnded(&c.After)
	}
	return c.After, err
}

// Cancel implements jobrun.Runs.
func (st *Jobs) Cancel(ctx context.Context, tenant, id uuid.UUID, force bool, by operator.Action) (jobrun.Run, error) {
	r, err := st.Operate(ctx, tenant, id, &by, jobrun.CancelRequested{Actor: by.Actor, Reason: by.Reason, Force: force})
	return r, postgres.Wrap("cancel a job run", err)
}

// Reassign implements jobrun.Runs.
func (st *Jobs) Reassign(
	ctx context.Context, tenant, id uuid.UUID, force bool, by operator.Action,
) (jobrun.Run, error) {
	r, err := st.Operate(ctx, tenant, id, &by, jobrun.ReassignRequested{Actor: by.Actor, Reason: by.Reason, Force: force})
	return r, postgres.Wrap("reassign a job run", err)
}

// Ended reports whether err means that a run has ended in the meantime. When many runs are
// canceled, that is not an error.
func Ended(err error) bool {
	return fault.IsCode(err, jobrun.CodeConflict) || fault.KindOf(err) == fault.NotFound
}

// cancelAll cancels the unfinished runs of a definition or asks their workers to stop, with one
// transaction per run.
func (st *Jobs) cancelAll(ctx context.Context, tenant, definition uuid.UUID, by operator.By) error {
	for {
		var ids []uuid.UUID
		err := st.db.ListTenant(ctx, tenant, `
			SELECT r.id FROM jobs.job_runs r
			 WHERE r.tenant_id = $1 AND r.definition_id = $2 AND r.phase`+Unfinished+` AND r.cancel_requested_at IS NULL
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
			_, err := st.Operate(ctx, tenant, id, nil, jobrun.CancelRequested{Actor: by.Actor, Reason: by.Reason})
			if err != nil && !Ended(err) {
				return err
			}
		}
	}
}
