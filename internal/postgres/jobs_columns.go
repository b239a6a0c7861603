package postgres

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// runColumns are the columns of jobs.job_runs, alias r, in the order of scanRun.
// error_code and error_summary are derived from error and not read.
const runColumns = `r.id, r.tenant_id, r.definition_id, r.definition_name, r.spec_version, r.command_name, r.version, r.state, r.trigger,
	r.scheduled_for, r.available_at, r.admitted_at, r.queue, r.priority, r.required_labels, r.labels, r.args, r.idempotency_key,
	r.concurrency_key, r.concurrency_policy, r.timeout_ms, r.attempt, r.failures_used, r.losses_used, r.max_losses,
	r.assigned_worker_id, r.assigned_at, r.lease_token, r.lease_expires_at, r.leader_epoch, r.fencing_seq, r.started_at, r.finished_at,
	r.continuation_state, r.continuation_check_started_at, r.continuation_check_deadline_at, r.cancel_requested_at, r.cancel_reason,
	r.progress, r.checkpoint, r.exit_code, r.result, r.error, r.resource_cpu_seconds_total, r.resource_peak_rss_bytes,
	r.resource_io_read_bytes, r.resource_io_write_bytes, r.log_bytes, r.log_ref, r.log_sha256, r.root_run_id, r.retry_of_run_id,
	r.retry_number, r.saga_id, r.saga_step, r.saga_action, r.event_id, r.letter_id, r.backfill_id, r.correlation_id, r.trace_id,
	r.created_at, r.updated_at, r.initiated_by, r.initiated_as`

// scanRun reads one row that begins with runColumns; more receives the columns
// after them. Of a run whose sealed content does not open
// (envelope.ErrUnreadable) it returns all but that.
func (db *JobDB) scanRun(row scanner, more ...any) (jobrun.Run, error) {
	var r jobrun.Run
	var key, logRef, action, correlation, trace, by, as sql.NullString
	var worker, token, retryOf, saga, event, letter, backfill uuid.NullUUID
	var epoch, seq, step sql.NullInt64
	var exit sql.NullInt32
	var args, progress, checkpoint, result, failure []byte
	dest := []any{
		&r.ID, &r.TenantID, &r.DefinitionID, &r.DefinitionName, &r.SpecVersion, &r.CommandName, &r.Version, &r.State, &r.Trigger,
		&r.ScheduledFor, &r.AvailableAt, &r.AdmittedAt, &r.Queue, &r.Priority, pq.Array(&r.RequiredLabels), pq.Array(&r.Labels), &args, &r.IdempotencyKey,
		&key, &r.Concurrency, &r.TimeoutMS, &r.Attempt, &r.FailuresUsed, &r.LossesUsed, &r.MaxLosses,
		&worker, &r.AssignedAt, &token, &r.LeaseExpiresAt, &epoch, &seq, &r.StartedAt, &r.FinishedAt,
		&r.Continuation, &r.ConfirmStartedAt, &r.ConfirmDeadlineAt, &r.CancelRequestedAt, &r.CancelReason,
		&progress, &checkpoint, &exit, &result, &failure, &r.Resources.CPUSecondsTotal, &r.Resources.PeakRSSBytes,
		&r.Resources.IOReadBytes, &r.Resources.IOWriteBytes, &r.LogBytes, &logRef, &r.LogSHA256, &r.RootRunID, &retryOf,
		&r.RetryNumber, &saga, &step, &action, &event, &letter, &backfill, &correlation, &trace,
		&r.CreatedAt, &r.UpdatedAt, &by, &as,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return r, err
	}
	r.ConcurrencyKey, r.LogRef, r.SagaAction, r.CorrelationID, r.TraceID = key.String, logRef.String, action.String, correlation.String, trace.String
	r.InitiatedBy, r.InitiatedAs = by.String, as.String
	r.WorkerID, r.LeaseToken, r.RetryOfRunID, r.SagaID = worker.UUID, token.UUID, retryOf.UUID, saga.UUID
	r.EventID, r.LetterID, r.BackfillID = event.UUID, letter.UUID, backfill.UUID
	r.LeaderEpoch, r.FencingSeq, r.SagaStep = epoch.Int64, seq.Int64, int(step.Int64)
	if exit.Valid {
		r.ExitCode = new(int(exit.Int32))
	}
	utc(&r.ScheduledFor, &r.AvailableAt, r.AdmittedAt, r.AssignedAt, r.LeaseExpiresAt, r.StartedAt, r.FinishedAt,
		r.ConfirmStartedAt, r.ConfirmDeadlineAt, r.CancelRequestedAt, &r.CreatedAt, &r.UpdatedAt)
	if progress != nil {
		r.Progress = new(jobrun.Progress)
		if err := json.Unmarshal(progress, r.Progress); err != nil {
			return r, fmt.Errorf("stored progress: %w", err)
		}
	}
	return r, db.openRun(&r, args, checkpoint, result, failure)
}

// openRun fills in what may be sealed.
func (db *JobDB) openRun(r *jobrun.Run, args, checkpoint, result, failure []byte) (err error) {
	place := db.keys.SealerFor(r.TenantID, r.ID)
	if r.Args, err = openJSON(&place, fieldRunArgs, args); err != nil {
		return err
	}
	if r.Checkpoint, err = openJSON(&place, fieldRunCheckpoint, checkpoint); err != nil {
		return err
	}
	if r.Result, err = openJSON(&place, fieldRunResult, result); err != nil {
		return err
	}
	plain, err := openJSON(&place, fieldRunError, failure)
	if err != nil || plain == nil {
		return err
	}
	r.Error = new(jobrun.Error)
	if err := json.Unmarshal(plain, r.Error); err != nil {
		return fmt.Errorf("stored error: %w", err)
	}
	return nil
}

// mayBeSealed is how the jsonb of an envelope begins.
var mayBeSealed = []byte(`{"$skald_`)

// openJSON is opened for what need not be canonical where it is not sealed: it is
// what jsonb makes of it.
func openJSON(p *envelope.Sealer, f envelope.Field, stored []byte) (json.RawMessage, error) {
	if !bytes.HasPrefix(stored, mayBeSealed) {
		return stored, nil
	}
	return opened(p, f, stored)
}

// maxErrorCode is how many characters job_runs.error_code has.
const maxErrorCode = 100

// sealedRunError returns what to store of a run's error: its JSON, its code and
// the line that lists show; nil, nil, nil without one.
func sealedRunError(p *envelope.Sealer, r *jobrun.Run) (doc []byte, code, summary *string, err error) {
	if r.Error == nil {
		return nil, nil, nil, nil
	}
	e := *r.Error
	if doc, err = json.Marshal(e); err != nil {
		return nil, nil, nil, fmt.Errorf("encode error: %w", err)
	}
	code, summary = new(dlq.Storable(e.Code, maxErrorCode)), new(r.Summary())
	if p.Seals() {
		summary = code
	}
	doc, err = seal(p, fieldRunError, doc)
	return doc, code, summary, err
}
