package jobdb

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// cancelRounds is how many times the runs of a definition that is being deleted are canceled if new
// ones keep being created.
const cancelRounds = 5

// Delete implements jobrun.Definitions. It cancels the runs before it deletes the definition, so
// that Delete can be repeated after a crash in between.
func (st *Definitions) Delete(ctx context.Context, d jobrun.Definition, force bool, by operator.Action) error {
	jobs := NewJobs(st.db, nil)
	for range cancelRounds {
		err := st.db.InTenant(ctx, d.TenantID, func(tx *sqlx.Tx) error { return deleteDefinition(ctx, tx, &d, force, by) })
		if !force || !fault.IsCode(err, jobrun.CodeActiveRuns) {
			return postgres.Wrap("delete a job definition", err)
		}
		if err := jobs.cancelAll(ctx, d.TenantID, d.ID, operator.By{Actor: by.Actor, Reason: "the job definition is deleted"}); err != nil {
			return postgres.Wrap("cancel the runs of a job definition", err)
		}
	}
	return fault.New(fault.Conflict, jobrun.CodeActiveRuns, "the job definition %s keeps getting new runs: disable it first", d.Name)
}

// deleteDefinition marks the definition as deleted unless it has unfinished runs. If asked is set,
// runs whose workers have been asked to stop do not count. It locks the definition first, so that
// the leader cannot create runs of it in the meantime.
func deleteDefinition(ctx context.Context, tx *sqlx.Tx, d *jobrun.Definition, asked bool, by operator.Action) error {
	before, err := lockDefinition(ctx, tx, d, d.Version)
	if err != nil {
		return err
	}
	var active []uuid.UUID
	if err := tx.SelectContext(ctx, &active, `
		SELECT r.id FROM jobs.job_runs r
		 WHERE r.tenant_id = $1
		   AND r.definition_id = $2
		   AND r.phase`+Unfinished+`
		   AND (NOT $3 OR r.cancel_requested_at IS NULL)
		 LIMIT 1`, d.TenantID, d.ID, asked); err != nil {
		return err
	}
	if active != nil {
		return jobrun.NotEnded(active[0])
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE jobs.job_definitions d
		   SET version = $3 + 1, deleted_at = $4, next_due_at = NULL, updated_at = $4, updated_by = $5
		 WHERE d.tenant_id = $1 AND d.id = $2 AND d.version = $3`, d.TenantID, d.ID, d.Version, by.At, by.Actor)
	if err != nil {
		return err
	}
	return auditdb.PutAction(ctx, tx, by.From(before.Audited(), nil))
}
