package jobdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// runRow is a row of jobs.job_runs: a run and the stored form of the fields that may be sealed.
type runRow struct {
	*jobrun.Run
	args, progress, checkpoint, result, failure []byte
	code, summary                               *string // of the run's error
	step                                        *int    // nil: the run does not belong to a saga
}

// runTable is jobs.job_runs. The columns error_code and error_summary are derived from error and
// are not read.
var runTable = postgres.NewTable(
	postgres.UUID("id", func(r *runRow) *uuid.UUID { return &r.ID }),
	postgres.UUID("tenant_id", func(r *runRow) *uuid.UUID { return &r.TenantID }),
	postgres.UUID("definition_id", func(r *runRow) *uuid.UUID { return &r.DefinitionID }),
	postgres.Text("definition_name", func(r *runRow) *string { return &r.DefinitionName }),
	postgres.Int("spec_version", func(r *runRow) *int { return &r.SpecVersion }),
	postgres.Text("command_name", func(r *runRow) *string { return &r.CommandName }),
	postgres.Int("version", func(r *runRow) *int64 { return &r.Version }),
	postgres.Text("state", func(r *runRow) *jobrun.State { return &r.State }),
	postgres.Text("trigger", func(r *runRow) *jobrun.Trigger { return &r.Trigger }),
	postgres.Time("scheduled_for", func(r *runRow) *time.Time { return &r.ScheduledFor }),
	postgres.Time("available_at", func(r *runRow) *time.Time { return &r.AvailableAt }),
	postgres.TimeOrNil("admitted_at", func(r *runRow) **time.Time { return &r.AdmittedAt }),
	postgres.Text("queue", func(r *runRow) *string { return &r.Queue }),
	postgres.Int("priority", func(r *runRow) *int { return &r.Priority }),
	postgres.Texts("required_labels", func(r *runRow) *[]string { return &r.RequiredLabels }),
	postgres.Texts("labels", func(r *runRow) *[]string { return &r.Labels }),
	postgres.JSON("args", func(r *runRow) *[]byte { return &r.args }),
	postgres.Text("idempotency_key", func(r *runRow) *string { return &r.IdempotencyKey }),
	postgres.TextOrEmpty("concurrency_key", func(r *runRow) *string { return &r.ConcurrencyKey }),
	postgres.Text("concurrency_policy", func(r *runRow) *jobrun.Policy { return &r.Concurrency }),
	postgres.Int("timeout_ms", func(r *runRow) *int64 { return &r.TimeoutMS }),
	postgres.Int("attempt", func(r *runRow) *int { return &r.Attempt }).ReadOnly(),
	postgres.Int("failures_used", func(r *runRow) *int { return &r.FailuresUsed }),
	postgres.Int("losses_used", func(r *runRow) *int { return &r.LossesUsed }).ReadOnly(),
	postgres.Int("max_losses", func(r *runRow) *int { return &r.MaxLosses }),
	postgres.UUIDOrZero("assigned_worker_id", func(r *runRow) *uuid.UUID { return &r.WorkerID }).ReadOnly(),
	postgres.TimeOrNil("assigned_at", func(r *runRow) **time.Time { return &r.AssignedAt }).ReadOnly(),
	postgres.UUIDOrZero("lease_token", func(r *runRow) *uuid.UUID { return &r.LeaseToken }).ReadOnly(),
	postgres.TimeOrNil("lease_expires_at", func(r *runRow) **time.Time { return &r.LeaseExpiresAt }).ReadOnly(),
	postgres.IntOr(0, "leader_epoch", func(r *runRow) *int64 { return &r.LeaderEpoch }).ReadOnly(),
	postgres.IntOr(0, "fencing_seq", func(r *runRow) *int64 { return &r.FencingSeq }).ReadOnly(),
	postgres.TimeOrNil("started_at", func(r *runRow) **time.Time { return &r.StartedAt }).ReadOnly(),
	postgres.TimeOrNil("finished_at", func(r *runRow) **time.Time { return &r.FinishedAt }),
	postgres.Text("continuation_state", func(r *runRow) *jobrun.Continuation { return &r.Continuation }).ReadOnly(),
	postgres.TimeOrNil("continuation_check_started_at", func(r *runRow) **time.Time { return &r.ConfirmStartedAt }).ReadOnly(),
	postgres.TimeOrNil("continuation_check_deadline_at", func(r *runRow) **time.Time { return &r.ConfirmDeadlineAt }).ReadOnly(),
	postgres.TimeOrNil("cancel_requested_at", func(r *runRow) **time.Time { return &r.CancelRequestedAt }).ReadOnly(),
	postgres.Text("cancel_reason", func(r *runRow) *string { return &r.CancelReason }).ReadOnly(),
	postgres.JSON("progress", func(r *runRow) *[]byte { return &r.progress }).ReadOnly(),
	postgres.JSON("checkpoint", func(r *runRow) *[]byte { return &r.checkpoint }),
	postgres.IntOrNil("exit_code", func(r *runRow) **int { return &r.ExitCode }).ReadOnly(),
	postgres.JSON("result", func(r *runRow) *[]byte { return &r.result }).ReadOnly(),
	postgres.JSON("error", func(r *runRow) *[]byte { return &r.failure }).ReadOnly(),
	postgres.TextOrNil("error_code", func(r *runRow) **string { return &r.code }).ReadOnly().WriteOnly(),
	postgres.TextOrNil("error_summary", func(r *runRow) **string { return &r.summary }).ReadOnly().WriteOnly(),
	postgres.FloatOrNil("resource_cpu_seconds_total",
		func(r *runRow) **float64 { return &r.Resources.CPUSecondsTotal }).ReadOnly(),
	postgres.IntOrNil("resource_peak_rss_bytes", func(r *runRow) **int64 { return &r.Resources.PeakRSSBytes }).ReadOnly(),
	postgres.IntOrNil("resource_io_read_bytes", func(r *runRow) **int64 { return &r.Resources.IOReadBytes }).ReadOnly(),
	postgres.IntOrNil("resource_io_write_bytes", func(r *runRow) **int64 { return &r.Resources.IOWriteBytes }).ReadOnly(),
	postgres.Int("log_bytes", func(r *runRow) *int64 { return &r.LogBytes }).ReadOnly(),
	postgres.TextOrEmpty("log_ref", func(r *runRow) *string { return &r.LogRef }).ReadOnly(),
	postgres.Bytes("log_sha256", func(r *runRow) *[]byte { return &r.LogSHA256 }).ReadOnly(),
	postgres.UUID("root_run_id", func(r *runRow) *uuid.UUID { return &r.RootRunID }),
	postgres.UUIDOrZero("retry_of_run_id", func(r *runRow) *uuid.UUID { return &r.RetryOfRunID }),
	postgres.Int("retry_number", func(r *runRow) *int { return &r.RetryNumber }),
	postgres.UUIDOrZero("saga_id", func(r *runRow) *uuid.UUID { return &r.SagaID }),
	postgres.IntOrNil("saga_step", func(r *runRow) **int { return &r.step }),
	postgres.TextOrEmpty("saga_action", func(r *runRow) *string { return &r.SagaAction }),
	postgres.UUIDOrZero("event_id", func(r *runRow) *uuid.UUID { return &r.EventID }),
	postgres.UUIDOrZero("letter_id", func(r *runRow) *uuid.UUID { return &r.LetterID }),
	postgres.UUIDOrZero("backfill_id", func(r *runRow) *uuid.UUID { return &r.BackfillID }),
	postgres.TextOrEmpty("correlation_id", func(r *runRow) *string { return &r.CorrelationID }),
	postgres.TextOrEmpty("trace_id", func(r *runRow) *string { return &r.TraceID }),
	postgres.TextOrEmpty("tracestate", func(r *runRow) *string { return &r.TraceState }),
	postgres.TextOrEmpty("baggage", func(r *runRow) *string { return &r.Baggage }),
	postgres.Time("created_at", func(r *runRow) *time.Time { return &r.CreatedAt }),
	postgres.Time("updated_at", func(r *runRow) *time.Time { return &r.UpdatedAt }),
	postgres.TextOrEmpty("initiated_by", func(r *runRow) *string { return &r.InitiatedBy }),
	postgres.TextOrEmpty("initiated_as", func(r *runRow) *string { return &r.InitiatedAs }),
)

// RunColumns are the columns that ScanRun reads, with alias r for jobs.job_runs.
var RunColumns = runTable.Selected("r")

// ScanRun reads one row that begins with RunColumns; more receives the columns that follow. If
// encrypted content of the run cannot be decrypted (envelope.ErrUnreadable), ScanRun returns the
// run without that content.
func (db *DB) ScanRun(row postgres.Scanner, more ...any) (jobrun.Run, error) {
	var r jobrun.Run
	stored := runRow{Run: &r}
	if err := runTable.Scan(row, &stored, more...); err != nil {
		return r, err
	}
	if stored.step != nil {
		r.SagaStep = *stored.step
	}
	if stored.progress != nil {
		r.Progress = new(jobrun.Progress)
		if err := json.Unmarshal(stored.progress, r.Progress); err != nil {
			return r, fmt.Errorf("decode the stored progress: %w", err)
		}
	}
	err := db.openRun(&stored)
	r.ContentUnreadable = errors.Is(err, envelope.ErrUnreadable)
	return r, err
}

// shown returns nil for a decryption error if the run is to be shown without the content that
// cannot be decrypted.
func shown(err error) error {
	if errors.Is(err, envelope.ErrUnreadable) {
		return nil
	}
	return err
}

// openRun decrypts the fields that may be sealed.
func (db *DB) openRun(r *runRow) (err error) {
	sealer := db.Keys.SealerFor(r.TenantID, r.ID)
	if r.Args, err = openJSON(&sealer, fieldRunArgs, r.args); err != nil {
		return err
	}
	if r.Checkpoint, err = openJSON(&sealer, fieldRunCheckpoint, r.checkpoint); err != nil {
		return err
	}
	if r.Result, err = openJSON(&sealer, fieldRunResult, r.result); err != nil {
		return err
	}
	plain, err := openJSON(&sealer, fieldRunError, r.failure)
	if err != nil || plain == nil {
		return err
	}
	r.Error = new(jobrun.Error)
	if err := json.Unmarshal(plain, r.Error); err != nil {
		return fmt.Errorf("decode the stored error: %w", err)
	}
	return nil
}

// mayBeSealed is how the jsonb form of an envelope begins.
var mayBeSealed = []byte(`{"$skald_`)

// openJSON decrypts JSON that need not be canonical. Unsealed JSON is returned in the format of
// jsonb.
func openJSON(p *envelope.Sealer, f envelope.Field, stored []byte) (json.RawMessage, error) {
	if !bytes.HasPrefix(stored, mayBeSealed) {
		return stored, nil
	}
	return postgres.Unseal(p, f, stored)
}

// maxErrorCode is the maximum length of job_runs.error_code in characters.
const maxErrorCode = 100

// sealedRunError returns the stored form of a run's error: its JSON, its code and its one-line
// summary for lists. All are nil if the run has no error.
func sealedRunError(p *envelope.Sealer, r *jobrun.Run) (doc []byte, code, summary *string, err error) {
	if r.Error == nil {
		return nil, nil, nil, nil
	}
	e := *r.Error
	if doc, err = json.Marshal(e); err != nil {
		return nil, nil, nil, fmt.Errorf("encode the error: %w", err)
	}
	code, summary = new(dlq.Storable(e.Code, maxErrorCode)), new(r.Summary())
	if p.Seals() {
		summary = code
	}
	doc, err = postgres.Seal(p, fieldRunError, doc)
	return doc, code, summary, err
}
