package jobdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

var registerWorker = postgres.Named(`
INSERT INTO jobs.workers (`+workerTable.Inserted()+`) VALUES (`+workerTable.Values("w")+`)`, workerTable.As("w"))

// Register implements jobrun.Work (W1).
func (st *Jobs) Register(ctx context.Context, w jobrun.WorkerProcess) error {
	w.State = jobrun.WorkerActive
	return postgres.Wrap("register a worker", st.db.InTenant(ctx, w.TenantID, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, registerWorker.Text, registerWorker.Args(workerTable.Row(&w))...)
		return err
	}))
}

// beatWorker stores a heartbeat unless a later one is stored. A LOST worker becomes ACTIVE again,
// or DRAINING if a drain was requested.
var beatWorker = postgres.Named(`
UPDATE jobs.workers w
   SET heartbeat_at = clock_timestamp(), heartbeat_seq = @seq, running = @running, load = @load,
       state = CASE WHEN w.state <> 'LOST' THEN w.state WHEN w.drain_at IS NULL THEN 'ACTIVE' ELSE 'DRAINING' END,
       version = w.version + CASE WHEN w.state = 'LOST' THEN 1 ELSE 0 END, lost_at = NULL
 WHERE w.tenant_id = @tenant AND w.id = @id AND w.state <> 'DETACHED' AND w.heartbeat_seq <= @seq
RETURNING `+workerColumns, postgres.Single("tenant", "id", "seq", "running", "load"))

// renewLeases renews, in one statement, the leases whose fences match (W2), and ends any doubt
// about their runs. The update is a heap-only one (HOT) and does not increase the version (S12). An
// assignment that has not been started is renewed only for a limited time, so that a worker cannot
// keep a run forever without starting it (S8).
var renewLeases = postgres.Named(`
WITH f AS MATERIALIZED (
	SELECT *
	  FROM unnest(@ids::uuid[], @workers::uuid[], @attempts::bigint[], @tokens::uuid[], @epochs::bigint[],
	              @progress::text[], @checkpoints::text[])
	       AS f (id, worker, attempt, token, epoch, progress, checkpoint) ORDER BY f.id
), renewed AS (
	UPDATE jobs.job_runs r
	   SET lease_expires_at = CASE r.state WHEN 'RUNNING' THEN clock_timestamp() + @lease * interval '1 microsecond'
	              ELSE greatest(r.lease_expires_at,
	                            least(clock_timestamp(),
	                                  r.assigned_at + 2 * @unstarted * interval '1 microsecond')
	                            + @unstarted * interval '1 microsecond') END,
	       continuation_state = 'NONE', continuation_check_started_at = NULL, continuation_check_deadline_at = NULL,
	       progress = coalesce(f.progress::jsonb, r.progress), checkpoint = coalesce(f.checkpoint::jsonb, r.checkpoint)
	  FROM f
	 WHERE r.tenant_id = @tenant AND `+fencedHere+` IN ('ASSIGNED', 'RUNNING')
	RETURNING r.id, r.lease_expires_at, r.cancel_requested_at IS NOT NULL AS canceling, r.cancel_reason
), confirmed AS (
	INSERT INTO jobs.job_run_events (run_id, tenant_id, at, kind, version, attempt, epoch, worker_id)
	SELECT o.id,
	       o.tenant_id,
	       clock_timestamp(),
	       '`+string(jobrun.WasConfirmed)+`',
	       o.version,
	       o.attempt,
	       coalesce(o.leader_epoch, 0),
	       o.assigned_worker_id
	  FROM renewed n JOIN jobs.job_runs o ON o.id = n.id AND o.tenant_id = @tenant
	 WHERE o.continuation_state = 'CONFIRMING' -- as it was when the statement began
)
SELECT n.id, n.lease_expires_at, n.canceling, n.cancel_reason FROM renewed n`,
	postgres.Single("tenant", "ids", "workers", "attempts", "tokens", "epochs", "progress", "checkpoints", "lease",
		"unstarted"))

// workersLive stores a heartbeat for workers that have sent none for $3 µs. It skips a worker whose
// row is locked: either the worker has just sent a heartbeat, or an operator is changing it.
const workersLive = `
WITH quiet AS MATERIALIZED (
	SELECT w.id FROM jobs.workers w
	 WHERE w.tenant_id = $1 AND w.id = ANY ($2::uuid[]) AND w.state <> 'DETACHED'
	   AND (w.state = 'LOST' OR w.heartbeat_at < clock_timestamp() - $3 * interval '1 microsecond')
	 ORDER BY w.id FOR NO KEY UPDATE OF w SKIP LOCKED
), noted AS (
	UPDATE jobs.workers w
	   SET heartbeat_at = clock_timestamp(), lost_at = NULL,
	       state = CASE WHEN w.state <> 'LOST' THEN w.state WHEN w.drain_at IS NULL THEN 'ACTIVE' ELSE 'DRAINING' END,
	       version = w.version + CASE WHEN w.state = 'LOST' THEN 1 ELSE 0 END
	  FROM quiet q WHERE w.id = q.id AND w.tenant_id = $1
	RETURNING w.id, w.state
)
SELECT w.id, coalesce(n.state, w.state) FROM jobs.workers w LEFT JOIN noted n ON n.id = w.id
 WHERE w.tenant_id = $1 AND w.id = ANY ($2::uuid[]) AND w.state <> 'DETACHED'`

// Alive implements jobrun.Work.
func (st *Jobs) Alive(
	ctx context.Context, tenant uuid.UUID, workers []uuid.UUID, fresh time.Duration,
) (map[uuid.UUID]jobrun.WorkerState, error) {
	states := make(map[uuid.UUID]jobrun.WorkerState, len(workers))
	err := st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, workersLive, tenant, pq.Array(workers), fresh.Microseconds())
		if err != nil {
			return err
		}
		return postgres.EachRow(rows, func() error {
			var id uuid.UUID
			var state jobrun.WorkerState
			err := rows.Scan(&id, &state)
			states[id] = state
			return err
		})
	})
	return states, postgres.Wrap("record that workers are alive", err)
}

// fencedHere is fenced with the tenant as a parameter.
const fencedHere = `r.id = f.id
  AND r.assigned_worker_id = f.worker
  AND r.attempt = f.attempt
  AND r.lease_token = f.token
	   AND r.leader_epoch = f.epoch AND r.state || ''`

// Heartbeat implements jobrun.Work (W2).
func (st *Jobs) Heartbeat(
	ctx context.Context, tenant, worker uuid.UUID, seq int64, load float64, beats []jobrun.Beat,
) (w jobrun.WorkerProcess, leases []jobrun.Lease, err error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return w, nil, err
	}
	_, err = postgres.RetryCollision(func() (struct{}, error) {
		return struct{}{}, st.db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
			w, err = workerTable.One(tx.QueryRowContext(ctx, beatWorker.Text,
				beatWorker.Args(postgres.Values{tenant, worker, seq, len(beats), load})...))
			if errors.Is(err, sql.ErrNoRows) {
				w, err = workerTable.One(tx.QueryRowContext(ctx, `SELECT `+workerColumns+`
				  FROM jobs.workers w
				 WHERE w.tenant_id = $1 AND w.id = $2`, tenant, worker))
			}
			if errors.Is(err, sql.ErrNoRows) || err == nil && w.State == jobrun.WorkerDetached {
				return workerGone()
			}
			if err != nil {
				return err
			}
			leases, err = st.renew(ctx, tx, tenant, settings, beats)
			return err
		})
	})
	return w, leases, postgres.Wrap("record a heartbeat", err)
}

// renew renews leases in a transaction of the tenant, and returns the result of each beat.
func (st *Jobs) renew(
	ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, s jobrun.Settings, beats []jobrun.Beat,
) ([]jobrun.Lease, error) {
	if len(beats) == 0 {
		return nil, nil
	}
	var values [7][]*string // one slice per column
	leases := make([]jobrun.Lease, len(beats))
	at := map[uuid.UUID][]int{}
	for i := range beats {
		b := &beats[i]
		leases[i].RunID = b.RunID
		at[b.RunID] = append(at[b.RunID], i)
		told, kept, err := st.beatContent(tenant, b)
		if err != nil {
			return nil, err
		}
		for c, v := range []*string{new(b.RunID.String()), new(b.Fence.WorkerID.String()), new(fmt.Sprint(b.Fence.Attempt)),
			new(b.Fence.LeaseToken.String()), new(fmt.Sprint(b.Fence.LeaderEpoch)), told, kept} {
			values[c] = append(values[c], v)
		}
	}
	args := postgres.Values{tenant}
	for c := range values {
		args = append(args, pq.Array(values[c]))
	}
	args = append(args, s.Seconds(jobrun.RunLease).Microseconds(), s.Seconds(jobrun.AssignLease).Microseconds())
	rows, err := tx.QueryContext(ctx, renewLeases.Text, renewLeases.Args(args)...)
	if err != nil {
		return nil, err
	}
	err = postgres.EachRow(rows, func() error {
		var l jobrun.Lease
		err := rows.Scan(&l.RunID, &l.ExpiresAt, &l.CancelRequested, &l.Reason)
		l.OK = true
		postgres.UTC(&l.ExpiresAt)
		for _, i := range at[l.RunID] {
			leases[i] = l
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return leases, st.refuseBeats(ctx, tx, tenant, beats, leases)
}

// beatContent is the stored form of a beat's progress and checkpoint; nil if it has neither.
func (st *Jobs) beatContent(tenantID uuid.UUID, b *jobrun.Beat) (progress, checkpoint *string, err error) {
	if b.Progress != nil {
		doc, err := json.Marshal(b.Progress)
		if err != nil {
			return nil, nil, fmt.Errorf("encode the progress: %w", err)
		}
		progress = new(string(doc))
	}
	if b.Checkpoint != nil {
		sealer := st.db.Keys.SealerFor(tenantID, b.RunID)
		doc, err := postgres.Seal(&sealer, fieldRunCheckpoint, b.Checkpoint)
		if err != nil {
			return nil, nil, err
		}
		checkpoint = new(string(doc))
	}
	return progress, checkpoint, nil
}

var readRuns = `SELECT ` + RunColumns + ` FROM jobs.job_runs r WHERE r.tenant_id = $1 AND r.id = ANY ($2::uuid[])`

// refuseBeats determines why leases were not renewed.
func (st *Jobs) refuseBeats(
	ctx context.Context, tx *sqlx.Tx, tenant uuid.UUID, beats []jobrun.Beat, leases []jobrun.Lease,
) error {
	var ids []uuid.UUID
	for i := range leases {
		if !leases[i].OK {
			ids = append(ids, beats[i].RunID)
			leases[i].Reason = jobrun.CodeRunNotFound
		}
	}
	if ids == nil {
		return nil
	}
	rows, err := tx.QueryContext(ctx, readRuns, tenant, pq.Array(ids))
	if err != nil {
		return err
	}
	found := map[uuid.UUID]jobrun.Run{}
	err = postgres.EachRow(rows, func() error {
		r, err := st.db.ScanRun(rows)
		found[r.ID] = r
		return st.db.PassOver(ctx, err)
	})
	if err != nil {
		return err
	}
	for i := range leases {
		l := &leases[i]
		r, ok := found[l.RunID]
		if l.OK || !ok {
			continue
		}
		_, goOn, refusal := jobrun.Judge(&r, beats[i].Fence, jobrun.CallProgress)
		switch f := fault.As(refusal); {
		case f != nil && f.Code != jobrun.CodeNotStarted:
			l.Reason = f.Code
			if r.State == jobrun.TimedOut && f.Code == jobrun.CodeConflict { // it was not started in time
				l.Reason = string(jobrun.TimedOut)
			}
			if err := st.noteRefusal(ctx, tx, &r, workerCall{tenant, r.ID, beats[i].Fence, jobrun.CallProgress},
				refusal); err != nil {
				return err
			}
		case (goOn || f != nil) && r.LeaseExpiresAt != nil: // it has changed in the meantime
			*l = jobrun.Lease{
				RunID:           r.ID,
				OK:              true,
				ExpiresAt:       *r.LeaseExpiresAt,
				CancelRequested: r.CancelRequestedAt != nil,
				Reason:          r.CancelReason,
			}
		}
	}
	return nil
}

// Progress implements jobrun.Work (W5).
func (st *Jobs) Progress(ctx context.Context, tenant uuid.UUID, b jobrun.Beat) (jobrun.Run, error) {
	r, _, err := st.keep(ctx, tenant, b, jobrun.CallProgress)
	return r, postgres.Wrap("store progress", err)
}

// Confirm implements jobrun.Work (W11).
func (st *Jobs) Confirm(ctx context.Context, tenant, run uuid.UUID, f jobrun.Fence) (jobrun.Run, error) {
	r, _, err := st.keep(ctx, tenant, jobrun.Beat{RunID: run, Fence: f}, jobrun.CallConfirm)
	return r, postgres.Wrap("confirm a job run", err)
}

// keep renews the lease of a RUNNING run and stores its progress and checkpoint.
func (st *Jobs) keep(ctx context.Context, tenant uuid.UUID, b jobrun.Beat, call jobrun.Call) (jobrun.Run, bool, error) {
	settings, err := st.settings(ctx)
	if err != nil {
		return jobrun.Run{}, false, err
	}
	c := workerCall{tenant, b.RunID, b.Fence, call}
	return st.decide(ctx, c, func(tx *sqlx.Tx, r jobrun.Run, now time.Time) (jobrun.Run, error) {
		if call == jobrun.CallConfirm && r.ConfirmDeadlineAt != nil && now.After(*r.ConfirmDeadlineAt) {
			return r, fault.New(fault.Conflict, jobrun.CodeFenceLost, "the deadline for confirming the run passed at %s: stop the run and discard its result",
				r.ConfirmDeadlineAt.Format(time.RFC3339Nano))
		}
		leases, err := st.renew(ctx, tx, tenant, settings, []jobrun.Beat{b})
		if err != nil {
			return r, err
		}
		if !leases[0].OK {
			return r, fmt.Errorf("the lease of job run %s was not renewed although the run is locked: %s", r.ID, leases[0].Reason)
		}
		r.LeaseExpiresAt, r.Continuation, r.ConfirmStartedAt, r.ConfirmDeadlineAt = &leases[0].ExpiresAt,
			jobrun.NoDoubt, nil, nil
		if b.Progress != nil {
			r.Progress = b.Progress
		}
		if b.Checkpoint != nil {
			r.Checkpoint = slices.Clone(b.Checkpoint)
		}
		return r, nil
	})
}
