package jobdb

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// maxRunEvents is the maximum number of events that are read per run.
const maxRunEvents = 1000

// Attempts implements jobrun.Runs.
func (st *Jobs) Attempts(ctx context.Context, tenant, id uuid.UUID) (attempts []jobrun.Attempt, err error) {
	err = st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		var r jobrun.Run
		r, attempts, err = st.attempts(ctx, tx, tenant, id)
		attempts = r.WithPresent(attempts)
		return err
	})
	return attempts, postgres.Wrap("read the attempts of a job run", err)
}

// attempts reads a run and its earlier attempts.
func (st *Jobs) attempts(
	ctx context.Context, tx *sqlx.Tx, tenant, id uuid.UUID,
) (r jobrun.Run, attempts []jobrun.Attempt, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT `+RunColumns+`
	  FROM jobs.job_runs r
	 WHERE r.tenant_id = $1 AND r.id = $2`, tenant, id)
	if err != nil {
		return r, nil, err
	}
	err = postgres.EachRow(rows, func() (err error) {
		r, err = st.db.ScanRun(rows)
		return shown(err)
	})
	if err == nil && r.ID == uuid.Nil {
		err = runNotFound()
	}
	if err != nil {
		return r, nil, err
	}
	rows, err = tx.QueryContext(ctx, `
		SELECT `+AttemptTable.Selected("a")+`
		  FROM jobs.job_run_attempts a WHERE a.tenant_id = $1 AND a.run_id = $2 ORDER BY a.attempt`, tenant, id)
	if err != nil {
		return r, nil, err
	}
	err = postgres.EachRow(rows, func() error {
		var a runAttempt
		err := AttemptTable.Scan(rows, &a)
		a.Fence.Attempt = a.Number
		attempts = append(attempts, a.Attempt)
		return err
	})
	return r, attempts, err
}

// Events implements jobrun.Runs.
func (st *Jobs) Events(ctx context.Context, tenant, id uuid.UUID) (events []jobrun.HistoryEvent, err error) {
	err = st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		r, attempts, err := st.attempts(ctx, tx, tenant, id)
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `
			SELECT `+RunEventTable.Selected("e")+`
			  FROM jobs.job_run_events e
			 WHERE e.tenant_id = $1 AND e.run_id = $2
			 ORDER BY e.id
			 LIMIT $3`, tenant, id, maxRunEvents)
		if err != nil {
			return err
		}
		events = nil
		err = postgres.EachRow(rows, func() error {
			var e runEvent
			err := RunEventTable.Scan(rows, &e)
			events = append(events, e.HistoryEvent)
			return err
		})
		events = r.Story(attempts, events)
		return err
	})
	events = slices.Clip(events[:min(len(events), maxRunEvents)])
	return events, postgres.Wrap("read the events of a job run", err)
}
