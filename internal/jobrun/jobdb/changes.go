package jobdb

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// storeEnd writes the end of a run that is still as it was read.
const storeEnd = `
UPDATE jobs.job_runs r
   SET state = $5, version = $6, finished_at = $7, updated_at = $7, failures_used = $8, losses_used = $9, continuation_state = 'NONE',
       continuation_check_started_at = NULL, continuation_check_deadline_at = NULL, exit_code = $10, result = $11::jsonb,
       error = $12::jsonb, error_code = $13, error_summary = $14, resource_cpu_seconds_total = $15, resource_peak_rss_bytes = $16,
       resource_io_read_bytes = $17, resource_io_write_bytes = $18
 WHERE r.tenant_id = $1 AND r.id = $2 AND r.version = $3 AND r.state || '' = $4`

// storeMove writes what else may change of a run by one decision about it.
const storeMove = `
UPDATE jobs.job_runs r
   SET state = $5, version = $6, updated_at = $7, available_at = $8, admitted_at = $9, cancel_requested_at = $10, cancel_reason = $11,
       continuation_state = $12, continuation_check_started_at = $13, continuation_check_deadline_at = $14, losses_used = $15
 WHERE r.tenant_id = $1 AND r.id = $2 AND r.version = $3 AND r.state || '' = $4`

// holdRetry: a run is held like the one that it retries, which is locked.
const holdRetry = `
UPDATE jobs.job_runs n SET held = true FROM jobs.job_runs o
 WHERE o.tenant_id = $1 AND o.id = $2 AND o.held AND n.tenant_id = $1 AND n.id = $3`

// putChange writes a decision about a run, and all that follows from it, in tx, a
// transaction of the writers' connections: the row, if it is still as before, the
// attempt that has ended, what was decided, the run that retries it, what is told
// of dead letters, and the saga that waits for it. before is the run as it was, at
// the moment of the decision. Fault: Conflict (CodeStale) when somebody else moved
// the run; then nothing of tx is to be kept.
func (db *DB) putChange(ctx context.Context, tx *sqlx.Tx, before *jobrun.Run, c *jobrun.Change, at time.Time) error {
	if !c.Changes() {
		return nil
	}
	put := db.putMove
	if c.Run.State.Terminal() {
		put = db.putEnd
	}
	if err := put(ctx, tx, c.Before, &c.Run); err != nil {
		return err
	}
	if c.Attempt != nil {
		if err := db.putRunAttempt(ctx, tx, before, *c.Attempt); err != nil {
			return err
		}
	}
	var told RunEvents
	for _, ev := range c.Events {
		if c.Run.Error != nil && db.Keys.Seals() && ev.Reason == c.Run.Summary() {
			ev.Reason = c.Run.Error.Code
		}
		told.Add(&c.Run, ev)
	}
	if err := db.PutRunEvents(ctx, tx, &told); err != nil {
		return err
	}
	return db.putConsequences(ctx, tx, c, at)
}

// putConsequences writes what follows from the end of a run.
func (db *DB) putConsequences(ctx context.Context, tx *sqlx.Tx, e *jobrun.Change, at time.Time) error {
	if e.Retry != nil {
		created, err := db.InsertRuns(ctx, tx, []jobrun.Run{*e.Retry})
		if err != nil {
			return err
		}
		if !created[0] {
			return fmt.Errorf("the retry of run %s already exists", e.Run.ID)
		}
		if e.Run.SagaID != uuid.Nil {
			if err := db.ExecIn(ctx, tx, holdRetry, e.Run.TenantID, e.Run.ID, e.Retry.ID); err != nil {
				return err
			}
		}
	}
	if e.LetterUpdate != nil {
		all := []dlqdb.LetterUpdate{db.letterUpdateOfRun(e, at)}
		found, err := db.Tell.LockForUpdates(ctx, tx, all)
		if err != nil {
			return err
		}
		if err := db.Tell.UpdateLetters(ctx, tx, all, found); err != nil {
			return err
		}
	}
	if e.Final && e.Run.SagaID != uuid.Nil {
		if db.ended == nil {
			return fmt.Errorf("run %s ended, but no saga store is registered to be notified", e.Run.ID)
		}
		return db.ended(ctx, tx, &e.Run)
	}
	return nil
}

// putMove writes the row of a run that has not ended, if it is still as before.
func (db *DB) putMove(ctx context.Context, tx *sqlx.Tx, before jobrun.Precondition, r *jobrun.Run) error {
	return db.putRow(ctx, tx, r, storeMove, r.TenantID, r.ID, before.Version, before.State,
		r.State, r.Version, r.UpdatedAt, r.AvailableAt, r.AdmittedAt, r.CancelRequestedAt, r.CancelReason,
		r.Continuation, r.ConfirmStartedAt, r.ConfirmDeadlineAt, r.LossesUsed)
}

// putEnd writes the row of a run that has ended, if it is still as before.
func (db *DB) putEnd(ctx context.Context, tx *sqlx.Tx, before jobrun.Precondition, r *jobrun.Run) error {
	sealer := db.Keys.SealerFor(r.TenantID, r.ID)
	result, err := postgres.Seal(&sealer, fieldRunResult, r.Result)
	if err != nil {
		return err
	}
	failure, code, summary, err := sealedRunError(&sealer, r)
	if err != nil {
		return err
	}
	return db.putRow(ctx, tx, r, storeEnd, r.TenantID, r.ID, before.Version, before.State,
		r.State, r.Version, r.FinishedAt, r.FailuresUsed, r.LossesUsed, r.ExitCode, postgres.NullIfEmpty(string(result)),
		postgres.NullIfEmpty(string(failure)), code, summary, r.Resources.CPUSecondsTotal, r.Resources.PeakRSSBytes,
		r.Resources.IOReadBytes, r.Resources.IOWriteBytes)
}

// putRow carries out storeMove or storeEnd. Fault: see putChange.
func (db *DB) putRow(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, query string, args ...any) error {
	stmt, err := db.PreparedIn(ctx, tx, query)
	if err != nil {
		return err
	}
	done, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return fault.New(fault.Conflict, jobrun.CodeStale, "job run %s was changed concurrently: read it again", r.ID)
}

// letterUpdateOfRun is what a run's end tells of its dead letter. While content is sealed,
// nothing that a worker has said goes into the letter's error.
func (db *DB) letterUpdateOfRun(e *jobrun.Change, at time.Time) dlqdb.LetterUpdate {
	n := dlqdb.LetterUpdate{SourceUpdate: e.LetterUpdate, Tenant: e.Run.TenantID, At: dlq.Moment{Now: at}}
	if n.Outcome == dlq.GaveUp && db.Keys.Seals() {
		plain := *e.LetterUpdate
		l := &plain.Letter
		l.Failure.Message, l.Failure.Stack = fmt.Sprintf("the job run gave up: %s", l.Failure.Type), ""
		l.Fingerprint = dlq.Fingerprint(l.OriginalTopic, l.ConsumerGroup, l.Failure)
		n.SourceUpdate = &plain
	}
	return n
}
