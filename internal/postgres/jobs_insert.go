package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
)

// storeRuns stores a batch of new runs and answers the ids of those that are new;
// the others' keys, or slots (J1), are taken. Rows are inserted in the order of
// their keys, so that batches with the same keys wait for each other instead of
// deadlocking.
var storeRuns = Named(`
INSERT INTO jobs.job_runs AS r (`+runTable.Inserted()+`)
SELECT `+runTable.Stored("n")+`
  FROM `+Unnest("n", runTable.As("n"))+`
 ORDER BY n.tenant_id, n.idempotency_key
ON CONFLICT DO NOTHING
RETURNING r.id`, runTable.As("n"))

// newRuns are the arguments of storeRuns.
func (db *JobDB) newRuns(runs []jobrun.Run) ([]any, error) {
	batch := runTable.Batch(len(runs))
	var row runRow
	for i := range runs {
		r := &runs[i]
		row = runRow{Run: r}
		sealer := db.keys.SealerFor(r.TenantID, r.ID)
		var err error
		if row.args, err = seal(&sealer, fieldRunArgs, r.Args); err != nil {
			return nil, err
		}
		if row.checkpoint, err = seal(&sealer, fieldRunCheckpoint, r.Checkpoint); err != nil {
			return nil, err
		}
		if r.SagaID != uuid.Nil {
			row.step = &r.SagaStep
		}
		batch.Add(&row)
	}
	return storeRuns.Args(batch), nil
}

// insertRuns stores new runs in tx, a transaction of the writers' connections.
// created says of each whether it is new; of the others there is a run with the
// same idempotency key, or slot, which stays as it is (runOfKey reads it). Events
// and actions are the caller's, who also calls runsCreated after the commit.
func (db *JobDB) insertRuns(ctx context.Context, tx *sqlx.Tx, runs []jobrun.Run) (created []bool, err error) {
	if len(runs) == 0 {
		return nil, nil
	}
	args, err := db.newRuns(runs)
	if err != nil {
		return nil, err
	}
	at := make(map[uuid.UUID]int, len(runs))
	for i := range runs {
		at[runs[i].ID] = i
	}
	rows, err := db.queryIn(ctx, tx, storeRuns.Text, args...)
	if err != nil {
		return nil, err
	}
	created = make([]bool, len(runs))
	return created, eachRow(rows, func() error {
		var id uuid.UUID
		err := rows.Scan(&id)
		created[at[id]] = true
		return err
	})
}

// runsCreated wakes workers for those of the runs that are new and may be
// claimed, and the leader for those that are due and wait for their key, after the
// commit of insertRuns.
func (db *JobDB) runsCreated(runs []jobrun.Run, created []bool) {
	told, wanted := map[tenantQueue]struct{}{}, false
	for i := range runs {
		r := &runs[i]
		if !created[i] || r.State != jobrun.Pending {
			continue
		}
		if r.AdmittedAt == nil {
			wanted = wanted || r.ConcurrencyKey != "" && !r.AvailableAt.After(r.CreatedAt)
			continue
		}
		at := tenantQueue{r.TenantID, r.Queue}
		if _, ok := told[at]; !ok {
			told[at] = struct{}{}
			db.Hub.Admitted(at.tenant, at.queue)
		}
	}
	if wanted {
		db.Hub.WantLeader()
	}
}

// runEnded tells the leader, after the commit, that the key of a run has become
// free.
func (db *JobDB) runEnded(r *jobrun.Run) {
	if r.ConcurrencyKey != "" && r.State.Terminal() {
		db.Hub.WantLeader()
	}
}
