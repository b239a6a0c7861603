package postgres

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
)

// maxRunEvents is how many decisions about a run are read.
const maxRunEvents = 1000

// Attempts implements jobrun.Runs.
func (st *Jobs) Attempts(ctx context.Context, tenant, id uuid.UUID) (attempts []jobrun.Attempt, err error) {
	err = st.db.inSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		var r jobrun.Run
		r, attempts, err = st.attempts(ctx, tx, tenant, id)
		attempts = r.WithPresent(attempts)
		return err
	})
	return attempts, outage("read the attempts of a job run", err)
}

// attempts reads a run, and its attempts that ended before it.
func (st *Jobs) attempts(ctx context.Context, tx *sqlx.Tx, tenant, id uuid.UUID) (r jobrun.Run, attempts []jobrun.Attempt, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT `+runColumns+` FROM jobs.job_runs r WHERE r.tenant_id = $1 AND r.id = $2`, tenant, id)
	if err != nil {
		return r, nil, err
	}
	err = eachRow(rows, func() (err error) {
		r, err = st.db.scanRun(rows)
		return err
	})
	if err == nil && r.ID == uuid.Nil {
		err = runNotFound()
	}
	if err != nil {
		return r, nil, err
	}
	rows, err = tx.QueryContext(ctx, `
		SELECT a.attempt, a.worker_id, a.lease_token, a.leader_epoch, coalesce(a.fencing_seq, 0), a.assigned_at, a.started_at, a.ended_at, a.outcome, a.reason
		  FROM jobs.job_run_attempts a WHERE a.tenant_id = $1 AND a.run_id = $2 ORDER BY a.attempt`, tenant, id)
	if err != nil {
		return r, nil, err
	}
	err = eachRow(rows, func() error {
		var a jobrun.Attempt
		err := rows.Scan(&a.Number, &a.Fence.WorkerID, &a.Fence.LeaseToken, &a.Fence.LeaderEpoch, &a.FencingSeq, &a.AssignedAt, &a.StartedAt, &a.EndedAt, &a.Outcome, &a.Reason)
		utc(&a.AssignedAt, a.StartedAt, a.EndedAt)
		a.Fence.Attempt = a.Number
		attempts = append(attempts, a)
		return err
	})
	return r, attempts, err
}

// Events implements jobrun.Runs.
func (st *Jobs) Events(ctx context.Context, tenant, id uuid.UUID) (events []jobrun.Event, err error) {
	err = st.db.inSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		r, attempts, err := st.attempts(ctx, tx, tenant, id)
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `
			SELECT e.at, e.kind, e.from_state, e.to_state, e.version, e.attempt, e.epoch, e.worker_id, e.actor, e.reason
			  FROM jobs.job_run_events e WHERE e.tenant_id = $1 AND e.run_id = $2 ORDER BY e.id LIMIT $3`, tenant, id, maxRunEvents)
		if err != nil {
			return err
		}
		events = nil
		err = eachRow(rows, func() error {
			var e jobrun.Event
			var worker uuid.NullUUID
			err := rows.Scan(&e.At, &e.Kind, &e.From, &e.To, &e.Version, &e.Attempt, &e.Epoch, &worker, &e.Actor, &e.Reason)
			utc(&e.At)
			e.WorkerID = worker.UUID
			events = append(events, e)
			return err
		})
		events = r.Story(attempts, events)
		return err
	})
	events = slices.Clip(events[:min(len(events), maxRunEvents)])
	return events, outage("read the events of a job run", err)
}
