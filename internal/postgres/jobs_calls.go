package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// A worker's call is carried out by a statement that has its whole fence in the
// condition. What that statement did not find is decided here, on the locked row.

// workerCall is one call about one run.
type workerCall struct {
	tenant uuid.UUID
	run    uuid.UUID
	fence  jobrun.Fence
	call   jobrun.Call
}

// decide locks the run, and calls do if the call has what it needs; do changes
// the run in tx and returns it as it is then. Of a call that was carried out
// before it returns the run as it is, and replayed. A refusal is a fault, and is
// noted once for each attempt and kind of call (J3).
func (st *Jobs) decide(ctx context.Context, c workerCall, do func(tx *sqlx.Tx, r jobrun.Run, now time.Time) (jobrun.Run, error)) (r jobrun.Run, replayed bool, err error) {
	type decision struct {
		run      jobrun.Run
		replayed bool
		refusal  error
	}
	d, err := retryCollision(func() (d decision, err error) {
		err = st.db.inWrite(ctx, func(tx *sqlx.Tx) error {
			r, now, err := st.db.lockRun(ctx, tx, c.tenant, c.run)
			if err != nil {
				return err
			}
			d.run = r
			var goOn bool
			d.replayed, goOn, d.refusal = jobrun.Judge(&r, c.fence, c.call)
			switch {
			case d.refusal != nil:
				return st.noteRefusal(ctx, tx, &r, c, d.refusal)
			case goOn:
				d.run, err = do(tx, r, now)
			}
			return err
		})
		return d, err
	})
	if err == nil {
		err = d.refusal
	}
	return d.run, d.replayed, err
}

const putRefusal = `
INSERT INTO jobs.job_run_events (run_id, tenant_id, at, kind, version, attempt, epoch, worker_id, reason)
SELECT $1, $2, clock_timestamp(), '` + string(jobrun.WasRefused) + `', $3, $4, $5, $6, $7
 WHERE NOT EXISTS (SELECT 1 FROM jobs.job_run_events e
        WHERE e.run_id = $1 AND e.kind = '` + string(jobrun.WasRefused) + `' AND e.attempt = $4 AND e.worker_id = $6 AND e.reason LIKE $8)`

// maxAttempt bounds the attempts that callers claim to have.
const maxAttempt = 1<<31 - 1

// noteRefusal notes that a call on r was refused, once for each worker, attempt
// and kind of call: a worker that does not hear the answer may go on for hours.
func (st *Jobs) noteRefusal(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, c workerCall, refusal error) error {
	code := ""
	if f := fault.As(refusal); f != nil {
		code = f.Code
	}
	_, err := tx.ExecContext(ctx, putRefusal, r.ID, r.TenantID, r.Version, min(c.fence.Attempt, maxAttempt), c.fence.LeaderEpoch, c.fence.WorkerID,
		string(c.call)+": "+code, string(c.call)+": %")
	return err
}

// end writes that the run of a worker's call has ended.
func (st *Jobs) end(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, o jobrun.Outcome, now time.Time) (jobrun.Ending, error) {
	spec, err := st.db.specOf(ctx, tx, r)
	if err != nil {
		return jobrun.Ending{}, err
	}
	e := jobrun.Ended(*r, spec, o, momentAt(now))
	return e, st.db.putEnding(ctx, tx, r, &e, now)
}

// AckCancel implements jobrun.Work (W10).
func (st *Jobs) AckCancel(ctx context.Context, tenant, run uuid.UUID, f jobrun.Fence) (jobrun.Done, error) {
	c := workerCall{tenant, run, f, jobrun.CallCancel}
	r, replayed, err := st.decide(ctx, c, func(tx *sqlx.Tx, r jobrun.Run, now time.Time) (jobrun.Run, error) {
		e, err := st.end(ctx, tx, &r, jobrun.Outcome{State: jobrun.Canceled, By: jobrun.Worker, Reason: r.CancelReason}, now)
		return e.Run, err
	})
	if err == nil {
		st.db.runEnded(&r)
	}
	return jobrun.Done{Run: r, Replayed: replayed}, outage("acknowledge a cancel", err)
}

// giveBack makes a run claimable at once, without its worker. Its token stays on
// record until another one has it.
const giveBack = `
UPDATE jobs.job_runs r
   SET state = 'ORPHANED', version = r.version + 1, available_at = $4, admitted_at = $4, updated_at = $4, continuation_state = 'NONE',
       continuation_check_started_at = NULL, continuation_check_deadline_at = NULL
 WHERE r.tenant_id = $1 AND r.id = $2 AND r.version = $3 AND r.phase = 'HELD'`

// Outcomes of attempts that another one may follow.
const (
	outcomeOrphaned   = "ORPHANED"
	outcomeReleased   = "RELEASED"
	outcomeReassigned = "REASSIGNED"
)

// putBack writes that an attempt of r has ended and its run may be claimed at
// once, in tx of the writers' connections; what is the event. runsAdmitted is the
// caller's, after the commit.
func (db *DB) putBack(ctx context.Context, tx *sqlx.Tx, r jobrun.Run, what jobrun.Event, outcome string) (jobrun.Run, error) {
	done, err := tx.ExecContext(ctx, giveBack, r.TenantID, r.ID, r.Version, what.At)
	if err != nil {
		return r, err
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return r, fmt.Errorf("job run %s moved although it was locked (%w)", r.ID, err)
	}
	var attempts runAttempts
	attempts.add(&r, jobrun.Attempt{EndedAt: &what.At, Outcome: outcome, Reason: what.Reason})
	if err := db.putRunAttempts(ctx, tx, &attempts); err != nil {
		return r, err
	}
	what.From, what.To, what.Version, what.Attempt, what.WorkerID = r.State, jobrun.Orphaned, r.Version+1, r.Attempt, r.WorkerID
	var told runEvents
	told.add(&r, what)
	if err := db.putRunEvents(ctx, tx, &told); err != nil {
		return r, err
	}
	r.State, r.Version, r.AvailableAt, r.AdmittedAt, r.UpdatedAt = jobrun.Orphaned, r.Version+1, what.At, &what.At, what.At
	r.Continuation, r.ConfirmStartedAt, r.ConfirmDeadlineAt = jobrun.NoDoubt, nil, nil
	return r, nil
}

// Release implements jobrun.Work (W9). A run that was to be canceled is CANCELED
// instead: nobody else is to do it.
func (st *Jobs) Release(ctx context.Context, tenant, run uuid.UUID, f jobrun.Fence, reason string) (jobrun.Done, error) {
	c := workerCall{tenant, run, f, jobrun.CallRelease}
	r, replayed, err := st.decide(ctx, c, func(tx *sqlx.Tx, r jobrun.Run, now time.Time) (jobrun.Run, error) {
		if r.CancelRequestedAt != nil {
			e, err := st.end(ctx, tx, &r, jobrun.Outcome{State: jobrun.Canceled, By: jobrun.Worker, Reason: r.CancelReason}, now)
			return e.Run, err
		}
		return st.db.putBack(ctx, tx, r, jobrun.Event{At: now, Kind: jobrun.WasReleased, Reason: reason}, outcomeReleased)
	})
	if err == nil {
		st.db.runEnded(&r)
	}
	if err == nil && r.State == jobrun.Orphaned {
		st.db.runsAdmitted(r.TenantID, r.Queue)
	}
	return jobrun.Done{Run: r, Replayed: replayed}, outage("release a job run", err)
}
