package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// runRow is a row of jobs.job_runs: a run, and as it is stored what may be sealed.
type runRow struct {
	*jobrun.Run
	args, progress, checkpoint, result, failure []byte
	step                                        *int // nil: of no saga
}

// runTable is jobs.job_runs. error_code and error_summary are derived from error
// and not read.
var runTable = NewTable(
	UUID("id", func(r *runRow) *uuid.UUID { return &r.ID }),
	UUID("tenant_id", func(r *runRow) *uuid.UUID { return &r.TenantID }),
	UUID("definition_id", func(r *runRow) *uuid.UUID { return &r.DefinitionID }),
	Text("definition_name", func(r *runRow) *string { return &r.DefinitionName }),
	Int("spec_version", func(r *runRow) *int { return &r.SpecVersion }),
	Text("command_name", func(r *runRow) *string { return &r.CommandName }),
	Int("version", func(r *runRow) *int64 { return &r.Version }),
	Text("state", func(r *runRow) *jobrun.State { return &r.State }),
	Text("trigger", func(r *runRow) *jobrun.Trigger { return &r.Trigger }),
	Time("scheduled_for", func(r *runRow) *time.Time { return &r.ScheduledFor }),
	Time("available_at", func(r *runRow) *time.Time { return &r.AvailableAt }),
	TimeOrNil("admitted_at", func(r *runRow) **time.Time { return &r.AdmittedAt }),
	Text("queue", func(r *runRow) *string { return &r.Queue }),
	Int("priority", func(r *runRow) *int { return &r.Priority }),
	Texts("required_labels", func(r *runRow) *[]string { return &r.RequiredLabels }),
	Texts("labels", func(r *runRow) *[]string { return &r.Labels }),
	JSON("args", func(r *runRow) *[]byte { return &r.args }),
	Text("idempotency_key", func(r *runRow) *string { return &r.IdempotencyKey }),
	TextOrEmpty("concurrency_key", func(r *runRow) *string { return &r.ConcurrencyKey }),
	Text("concurrency_policy", func(r *runRow) *jobrun.Policy { return &r.Concurrency }),
	Int("timeout_ms", func(r *runRow) *int64 { return &r.TimeoutMS }),
	Int("attempt", func(r *runRow) *int { return &r.Attempt }).ReadOnly(),
	Int("failures_used", func(r *runRow) *int { return &r.FailuresUsed }),
	Int("losses_used", func(r *runRow) *int { return &r.LossesUsed }).ReadOnly(),
	Int("max_losses", func(r *runRow) *int { return &r.MaxLosses }),
	UUIDOrZero("assigned_worker_id", func(r *runRow) *uuid.UUID { return &r.WorkerID }).ReadOnly(),
	TimeOrNil("assigned_at", func(r *runRow) **time.Time { return &r.AssignedAt }).ReadOnly(),
	UUIDOrZero("lease_token", func(r *runRow) *uuid.UUID { return &r.LeaseToken }).ReadOnly(),
	TimeOrNil("lease_expires_at", func(r *runRow) **time.Time { return &r.LeaseExpiresAt }).ReadOnly(),
	IntOr(0, "leader_epoch", func(r *runRow) *int64 { return &r.LeaderEpoch }).ReadOnly(),
	IntOr(0, "fencing_seq", func(r *runRow) *int64 { return &r.FencingSeq }).ReadOnly(),
	TimeOrNil("started_at", func(r *runRow) **time.Time { return &r.StartedAt }).ReadOnly(),
	TimeOrNil("finished_at", func(r *runRow) **time.Time { return &r.FinishedAt }),
	Text("continuation_state", func(r *runRow) *jobrun.Continuation { return &r.Continuation }).ReadOnly(),
	TimeOrNil("continuation_check_started_at", func(r *runRow) **time.Time { return &r.ConfirmStartedAt }).ReadOnly(),
	TimeOrNil("continuation_check_deadline_at", func(r *runRow) **time.Time { return &r.ConfirmDeadlineAt }).ReadOnly(),
	TimeOrNil("cancel_requested_at", func(r *runRow) **time.Time { return &r.CancelRequestedAt }).ReadOnly(),
	Text("cancel_reason", func(r *runRow) *string { return &r.CancelReason }).ReadOnly(),
	JSON("progress", func(r *runRow) *[]byte { return &r.progress }).ReadOnly(),
	JSON("checkpoint", func(r *runRow) *[]byte { return &r.checkpoint }),
	IntOrNil("exit_code", func(r *runRow) **int { return &r.ExitCode }).ReadOnly(),
	JSON("result", func(r *runRow) *[]byte { return &r.result }).ReadOnly(),
	JSON("error", func(r *runRow) *[]byte { return &r.failure }).ReadOnly(),
	FloatOrNil("resource_cpu_seconds_total", func(r *runRow) **float64 { return &r.Resources.CPUSecondsTotal }).ReadOnly(),
	IntOrNil("resource_peak_rss_bytes", func(r *runRow) **int64 { return &r.Resources.PeakRSSBytes }).ReadOnly(),
	IntOrNil("resource_io_read_bytes", func(r *runRow) **int64 { return &r.Resources.IOReadBytes }).ReadOnly(),
	IntOrNil("resource_io_write_bytes", func(r *runRow) **int64 { return &r.Resources.IOWriteBytes }).ReadOnly(),
	Int("log_bytes", func(r *runRow) *int64 { return &r.LogBytes }).ReadOnly(),
	TextOrEmpty("log_ref", func(r *runRow) *string { return &r.LogRef }).ReadOnly(),
	Bytes("log_sha256", func(r *runRow) *[]byte { return &r.LogSHA256 }).ReadOnly(),
	UUID("root_run_id", func(r *runRow) *uuid.UUID { return &r.RootRunID }),
	UUIDOrZero("retry_of_run_id", func(r *runRow) *uuid.UUID { return &r.RetryOfRunID }),
	Int("retry_number", func(r *runRow) *int { return &r.RetryNumber }),
	UUIDOrZero("saga_id", func(r *runRow) *uuid.UUID { return &r.SagaID }),
	IntOrNil("saga_step", func(r *runRow) **int { return &r.step }),
	TextOrEmpty("saga_action", func(r *runRow) *string { return &r.SagaAction }),
	UUIDOrZero("event_id", func(r *runRow) *uuid.UUID { return &r.EventID }),
	UUIDOrZero("letter_id", func(r *runRow) *uuid.UUID { return &r.LetterID }),
	UUIDOrZero("backfill_id", func(r *runRow) *uuid.UUID { return &r.BackfillID }),
	TextOrEmpty("correlation_id", func(r *runRow) *string { return &r.CorrelationID }),
	TextOrEmpty("trace_id", func(r *runRow) *string { return &r.TraceID }),
	Time("created_at", func(r *runRow) *time.Time { return &r.CreatedAt }),
	Time("updated_at", func(r *runRow) *time.Time { return &r.UpdatedAt }),
	TextOrEmpty("initiated_by", func(r *runRow) *string { return &r.InitiatedBy }),
	TextOrEmpty("initiated_as", func(r *runRow) *string { return &r.InitiatedAs }),
)

// runColumns are what scanRun reads, of jobs.job_runs as r.
var runColumns = runTable.Selected("r")

// scanRun reads one row that begins with runColumns; more receives the columns
// after them. Of a run whose encrypted content cannot be decrypted
// (envelope.ErrUnreadable) it returns all but that.
func (db *JobDB) scanRun(row scanner, more ...any) (jobrun.Run, error) {
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
			return r, fmt.Errorf("stored progress: %w", err)
		}
	}
	return r, db.openRun(&stored)
}

// openRun fills in what may be sealed.
func (db *JobDB) openRun(r *runRow) (err error) {
	sealer := db.keys.SealerFor(r.TenantID, r.ID)
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
