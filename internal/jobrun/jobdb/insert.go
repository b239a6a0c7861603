package jobdb

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobqueue"
	"github.com/skald-saga/skald/internal/postgres"
)

// storeRuns stores a batch of runs and returns the ids of the new ones; the keys or slots (J1) of
// the others are taken. Rows are inserted in key order, so that batches with the same keys wait for
// each other instead of deadlocking. Few runs have a tracestate or baggage, so these columns are
// omitted for a batch without any.
var (
	storeRuns    = storing(untracedRuns)
	storeTraced  = storing(runTable)
	untracedRuns = runTable.Without("tracestate", "baggage")
)

func storing(runs *postgres.Table[runRow]) *postgres.Statement {
	return postgres.Named(`
INSERT INTO jobs.job_runs AS r (`+runs.Inserted()+`)
SELECT `+runs.Stored("n")+`
  FROM `+postgres.Unnest("n", runs.As("n"))+`
 ORDER BY n.tenant_id, n.idempotency_key
ON CONFLICT DO NOTHING
RETURNING r.id`, runs.As("n"))
}

// newRuns returns the statement that stores runs, and its arguments.
func (db *DB) newRuns(runs []jobrun.Run) (string, []any, error) {
	table, store := untracedRuns, storeRuns
	for i := range runs {
		if runs[i].TraceState != "" || runs[i].Baggage != "" {
			table, store = runTable, storeTraced
		}
	}
	batch := table.Batch(len(runs))
	var row runRow
	for i := range runs {
		r := &runs[i]
		row = runRow{Run: r}
		sealer := db.Keys.SealerFor(r.TenantID, r.ID)
		var err error
		if row.args, err = postgres.Seal(&sealer, fieldRunArgs, r.Args); err != nil {
			return "", nil, err
		}
		if row.checkpoint, err = postgres.Seal(&sealer, fieldRunCheckpoint, r.Checkpoint); err != nil {
			return "", nil, err
		}
		if r.SagaID != uuid.Nil {
			row.step = &r.SagaStep
		}
		batch.Add(&row)
	}
	return store.Text, store.Args(batch), nil
}

// InsertRuns stores runs in tx, a transaction of the writers' connections. created reports which of
// them are new. For each of the others, an existing run has the same idempotency key or slot and is
// left unchanged (runOfKey reads it). The caller stores events and actions, and calls RunsCreated
// after the commit.
func (db *DB) InsertRuns(ctx context.Context, tx *sqlx.Tx, runs []jobrun.Run) (created []bool, err error) {
	if len(runs) == 0 {
		return nil, nil
	}
	store, args, err := db.newRuns(runs)
	if err != nil {
		return nil, err
	}
	at := make(map[uuid.UUID]int, len(runs))
	for i := range runs {
		at[runs[i].ID] = i
	}
	rows, err := db.QueryIn(ctx, tx, store, args...)
	if err != nil {
		return nil, err
	}
	created = make([]bool, len(runs))
	return created, postgres.EachRow(rows, func() error {
		var id uuid.UUID
		err := rows.Scan(&id)
		created[at[id]] = true
		return err
	})
}

// RunsCreated notifies workers of new claimable runs, and the leader of new runs that are due and
// wait for their key. Call it after the commit of InsertRuns.
func (db *DB) RunsCreated(runs []jobrun.Run, created []bool) {
	told, wanted := map[jobqueue.TenantQueue]struct{}{}, false
	for i := range runs {
		r := &runs[i]
		if !created[i] || r.State != jobrun.Pending {
			continue
		}
		if r.AdmittedAt == nil {
			wanted = wanted || r.ConcurrencyKey != "" && !r.AvailableAt.After(r.CreatedAt)
			continue
		}
		at := jobqueue.TenantQueue{Tenant: r.TenantID, Queue: r.Queue}
		if _, ok := told[at]; !ok {
			told[at] = struct{}{}
			db.Hub.Admitted(at.Tenant, at.Queue)
		}
	}
	if wanted {
		db.Hub.WantLeader()
	}
}

// RunEnded notifies those who wait for the end of a run, if it has ended, and tells the leader that
// its key is free. Call it after the commit.
func (db *DB) RunEnded(r *jobrun.Run) {
	if !r.State.Terminal() {
		return
	}
	db.over(r.TenantID, r.ID)
	if r.ConcurrencyKey != "" {
		db.Hub.WantLeader()
	}
}
