package jobdb

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// A worker's call is executed by a statement whose condition contains the whole fence. If that
// statement matches no row, the code below locks the row and determines the outcome.

// workerCall is one call about one run.
type workerCall struct {
	tenant uuid.UUID
	run    uuid.UUID
	fence  jobrun.Fence
	call   jobrun.Call
}

// decide locks the run, and calls do if the fence and the state allow the call; do changes the run
// in tx and returns the result. If the call repeats one that was already applied, decide returns
// the unchanged run, and replayed is true. A refusal is a fault; it is recorded once per attempt
// and kind of call (J3).
func (st *Jobs) decide(
	ctx context.Context, c workerCall, do func(tx *sqlx.Tx, r jobrun.Run, now time.Time) (jobrun.Run, error),
) (r jobrun.Run, replayed bool, err error) {
	type decision struct {
		run      jobrun.Run
		replayed bool
		refusal  error
	}
	d, err := postgres.RetryCollision(func() (d decision, err error) {
		err = st.db.InWrite(ctx, func(tx *sqlx.Tx) error {
			r, now, err := st.db.LockRun(ctx, tx, c.tenant, c.run)
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

var putRefusal = postgres.Named(`
INSERT INTO jobs.job_run_events (run_id, tenant_id, at, kind, version, attempt, epoch, worker_id, reason)
SELECT @run, @tenant, clock_timestamp(), '`+string(jobrun.WasRefused)+`', @version, @attempt, @epoch, @worker, @reason
 WHERE NOT EXISTS (SELECT 1 FROM jobs.job_run_events e
        WHERE e.run_id = @run
          AND e.kind = '`+string(jobrun.WasRefused)+`'
          AND e.attempt = @attempt
          AND e.worker_id = @worker
          AND e.reason LIKE @same)`,
	postgres.Single("run", "tenant", "version", "attempt", "epoch", "worker", "reason", "same"))

// maxAttempt is the highest attempt number that callers may send.
const maxAttempt = 1<<31 - 1

// noteRefusal records that a call for r was refused, once per worker, attempt and kind of call,
// because a worker that does not get the response may repeat the call for hours.
func (st *Jobs) noteRefusal(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, c workerCall, refusal error) error {
	code := ""
	if f := fault.As(refusal); f != nil {
		code = f.Code
	}
	args := putRefusal.Args(postgres.Values{r.ID, r.TenantID, r.Version, min(c.fence.Attempt, maxAttempt),
		c.fence.LeaderEpoch, c.fence.WorkerID, string(c.call) + ": " + code, string(c.call) + ": %"})
	_, err := tx.ExecContext(ctx, putRefusal.Text, args...)
	return err
}

// Apply applies an event to a locked run according to the rules, and stores the result.
func (st *Jobs) Apply(
	ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, in jobrun.Event, now time.Time,
) (jobrun.Change, error) {
	return st.db.ApplyToRun(ctx, tx, r, in, st.db.At(now))
}

// ApplyToRun applies an event to a locked run at the moment m according to the rules, and stores
// the result.
func (db *DB) ApplyToRun(
	ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, in jobrun.Event, m jobrun.Moment,
) (jobrun.Change, error) {
	spec, err := db.specOf(ctx, tx, r)
	if err != nil {
		return jobrun.Change{}, err
	}
	c, err := jobrun.Apply(jobrun.Instance{Run: *r, Spec: spec}, in, m)
	if err != nil {
		return c, err
	}
	return c, db.putChange(ctx, tx, r, &c, m.Now)
}

// carryOut applies an event to the run of a worker's call, and notifies those who wait for the
// result.
func (st *Jobs) carryOut(ctx context.Context, c workerCall, in jobrun.Event) (jobrun.Done, error) {
	r, replayed, err := st.decide(ctx, c, func(tx *sqlx.Tx, r jobrun.Run, now time.Time) (jobrun.Run, error) {
		c, err := st.Apply(ctx, tx, &r, in, now)
		return c.After, err
	})
	if err == nil {
		st.db.RunEnded(&r)
	}
	if err == nil && r.State == jobrun.Orphaned && r.AdmittedAt != nil {
		st.db.Hub.Admitted(r.TenantID, r.Queue)
	}
	return jobrun.Done{Run: r, Replayed: replayed}, err
}

// AckCancel implements jobrun.Work (W10).
func (st *Jobs) AckCancel(ctx context.Context, tenant, run uuid.UUID, f jobrun.Fence) (jobrun.Done, error) {
	d, err := st.carryOut(ctx, workerCall{tenant, run, f, jobrun.CallCancel}, jobrun.CancelAcknowledged{})
	return d, postgres.Wrap("acknowledge a cancel", err)
}

// Release implements jobrun.Work (W9).
func (st *Jobs) Release(
	ctx context.Context, tenant, run uuid.UUID, f jobrun.Fence, how jobrun.Released,
) (d jobrun.Done, err error) {
	if how.Settings, err = st.settings(ctx); err == nil {
		d, err = st.carryOut(ctx, workerCall{tenant, run, f, jobrun.CallRelease}, how)
	}
	return d, postgres.Wrap("release a job run", err)
}
