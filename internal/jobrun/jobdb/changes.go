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

// storeEnd updates the row of a run that ends, unless the row has changed since it was read.
var (
	runEnd = runTable.Only("tenant_id", "id", "state", "version", "finished_at", "failures_used", "losses_used",
		"exit_code", "result", "error", "error_code", "error_summary", "resource_cpu_seconds_total",
		"resource_peak_rss_bytes", "resource_io_read_bytes", "resource_io_write_bytes")
	storeEnd = postgres.Named(`
UPDATE jobs.job_runs r
   SET `+runEnd.Set("n", "tenant_id", "id")+`, updated_at = @n.finished_at, continuation_state = 'NONE',
       continuation_check_started_at = NULL, continuation_check_deadline_at = NULL
 WHERE `+asItWas, runEnd.As("n"), itWas)
)

// storeMove updates the columns that all other decisions about a run change.
var (
	runMove = runTable.Only("tenant_id", "id", "state", "version", "updated_at", "available_at", "admitted_at",
		"cancel_requested_at", "cancel_reason", "continuation_state", "continuation_check_started_at",
		"continuation_check_deadline_at", "losses_used")
	storeMove = postgres.Named(`
UPDATE jobs.job_runs r SET `+runMove.Set("n", "tenant_id", "id")+` WHERE `+asItWas, runMove.As("n"), itWas)
)

const asItWas = `r.tenant_id = @n.tenant_id
  AND r.id = @n.id
  AND r.version = @was_version
  AND r.state || '' = @was_state`

var itWas = postgres.Single("was_version", "was_state")

// holdRetry holds the retry of a run if that run is held because its saga is suspended. The run is
// locked.
const holdRetry = `
UPDATE jobs.job_runs n SET held = true FROM jobs.job_runs o
 WHERE o.tenant_id = $1 AND o.id = $2 AND o.held AND n.tenant_id = $1 AND n.id = $3`

// putChange writes a decision about a run and all its consequences in tx, a transaction of the
// writers' connections: the run's row, if it is unchanged, the ended attempt, the run's events, its
// retry, updates of dead letters, and the waiting saga. The decision was based on before. If the
// run has changed since then, the fault is Conflict (CodeStale), and tx must be rolled back.
func (db *DB) putChange(ctx context.Context, tx *sqlx.Tx, before *jobrun.Run, c *jobrun.Change, at time.Time) error {
	if !c.Changes() {
		return nil
	}
	put := db.putMove
	if c.After.State.Terminal() {
		put = db.putEnd
	}
	if err := put(ctx, tx, c.Before, &c.After); err != nil {
		return err
	}
	if c.Attempt != nil {
		if err := db.putRunAttempt(ctx, tx, before, *c.Attempt); err != nil {
			return err
		}
	}
	var told RunEvents
	for _, ev := range c.Events {
		if c.After.Error != nil && db.Keys.Seals() && ev.Reason == c.After.Summary() {
			ev.Reason = c.After.Error.Code
		}
		told.Add(&c.After, ev)
	}
	if err := db.PutRunEvents(ctx, tx, &told); err != nil {
		return err
	}
	return db.putConsequences(ctx, tx, c, at)
}

// putConsequences writes the consequences of the end of a run.
func (db *DB) putConsequences(ctx context.Context, tx *sqlx.Tx, e *jobrun.Change, at time.Time) error {
	if e.Retry != nil {
		created, err := db.InsertRuns(ctx, tx, []jobrun.Run{*e.Retry})
		if err != nil {
			return err
		}
		if !created[0] {
			return fmt.Errorf("the retry of run %s already exists", e.After.ID)
		}
		if e.After.SagaID != uuid.Nil {
			if err := db.ExecIn(ctx, tx, holdRetry, e.After.TenantID, e.After.ID, e.Retry.ID); err != nil {
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
	if e.Final && e.After.SagaID != uuid.Nil {
		if db.ended == nil {
			return fmt.Errorf("run %s ended, but no saga store is registered to be notified", e.After.ID)
		}
		return db.ended(ctx, tx, &e.After)
	}
	return nil
}

// putMove writes the row of a run that has not ended, if the stored row is unchanged.
func (db *DB) putMove(ctx context.Context, tx *sqlx.Tx, before jobrun.Precondition, r *jobrun.Run) error {
	args := storeMove.Args(runMove.Row(&runRow{Run: r}), postgres.Values{before.Version, before.State})
	return db.putRow(ctx, tx, r, storeMove.Text, args)
}

// putEnd writes the row of a run that has ended, if the stored row is unchanged.
func (db *DB) putEnd(ctx context.Context, tx *sqlx.Tx, before jobrun.Precondition, r *jobrun.Run) (err error) {
	row := runRow{Run: r}
	sealer := db.Keys.SealerFor(r.TenantID, r.ID)
	if len(r.Result) > 0 {
		if row.result, err = postgres.Seal(&sealer, fieldRunResult, r.Result); err != nil {
			return err
		}
	}
	if row.failure, row.code, row.summary, err = sealedRunError(&sealer, r); err != nil {
		return err
	}
	args := storeEnd.Args(runEnd.Row(&row), postgres.Values{before.Version, before.State})
	return db.putRow(ctx, tx, r, storeEnd.Text, args)
}

// putRow executes storeMove or storeEnd. Its fault is that of putChange.
func (db *DB) putRow(ctx context.Context, tx *sqlx.Tx, r *jobrun.Run, query string, args []any) error {
	stmt, err := db.PreparedIn(ctx, tx, query)
	if err != nil {
		return err
	}
	done, err := stmt.ExecContext(ctx, args...)
	if changed, err := postgres.ChangedOne(done, "store a job run", err); err != nil || changed {
		return err
	}
	return fault.New(fault.Conflict, jobrun.CodeStale, "job run %s was changed concurrently: read it again", r.ID)
}

// letterUpdateOfRun returns the update of a run's dead letter after the run has ended. If
// encryption is on, nothing that a worker has reported is copied into the letter's error.
func (db *DB) letterUpdateOfRun(e *jobrun.Change, at time.Time) dlqdb.LetterUpdate {
	n := dlqdb.LetterUpdate{SourceUpdate: e.LetterUpdate, Tenant: e.After.TenantID, At: dlq.Moment{Now: at}}
	if n.Outcome == dlq.GaveUp && db.Keys.Seals() {
		plain := *e.LetterUpdate
		l := &plain.Letter
		l.Failure.Message, l.Failure.Stack = fmt.Sprintf("the job run gave up: %s", l.Failure.Type), ""
		l.Fingerprint = dlq.Fingerprint(l.OriginalTopic, l.ConsumerGroup, l.Failure)
		n.SourceUpdate = &plain
	}
	return n
}
