package sagadb

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/retry"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// sagaRow is a row of saga.saga_states. Content that may be sealed is in its stored form.
type sagaRow struct {
	*saga.Saga
	payload, metadata, policy, interventions, result, failure []byte

	floating, keyed bool // for a new saga: its workflow must be current and its key new
}

// sagaTable is saga.saga_states. Where a column is only read, a new saga gets the column's default.
var sagaTable = postgres.NewTable(
	postgres.UUID("id", func(r *sagaRow) *uuid.UUID { return &r.ID }),
	postgres.UUID("tenant_id", func(r *sagaRow) *uuid.UUID { return &r.Tenant.ID }),
	postgres.Bool("tenant_in_keys", func(r *sagaRow) *bool { return &r.TenantInKeys }),
	postgres.Text("tenant_region", func(r *sagaRow) *string { return &r.Region }),
	postgres.Int("tenant_major", func(r *sagaRow) *int { return &r.Major }),
	postgres.Int("tenant_minor", func(r *sagaRow) *int { return &r.Minor }),
	postgres.Text("saga_type", func(r *sagaRow) *string { return &r.SagaType }),
	postgres.Text("workflow_name", func(r *sagaRow) *string { return &r.WorkflowName }),
	postgres.Int("workflow_version", func(r *sagaRow) *int { return &r.WorkflowVersion }),
	postgres.Bool("floating", func(r *sagaRow) *bool { return &r.floating }).InputOnly(),
	postgres.TextOrNil("name", func(r *sagaRow) **string { return &r.Name }),
	postgres.TextOrNil("description", func(r *sagaRow) **string { return &r.Description }),
	postgres.TextOrNil("business_key", func(r *sagaRow) **string { return &r.BusinessKey }),
	postgres.TextOrNil("correlation_id", func(r *sagaRow) **string { return &r.CorrelationID }),
	postgres.Text("initiated_by", func(r *sagaRow) *string { return &r.InitiatedBy }),
	postgres.TextOrNil("trace_id", func(r *sagaRow) **string { return &r.TraceID }),
	postgres.TextOrNil("span_id", func(r *sagaRow) **string { return &r.SpanID }),
	postgres.TextOrNil("tracestate", func(r *sagaRow) **string { return &r.TraceState }),
	postgres.TextOrNil("baggage", func(r *sagaRow) **string { return &r.Baggage }),
	postgres.JSON("payload", func(r *sagaRow) *[]byte { return &r.payload }),
	postgres.JSON("metadata", func(r *sagaRow) *[]byte { return &r.metadata }),
	postgres.JSON("retry_policy", func(r *sagaRow) *[]byte { return &r.policy }),
	postgres.JSON("interventions", func(r *sagaRow) *[]byte { return &r.interventions }).ReadOnly(),
	postgres.JSON("result_data", func(r *sagaRow) *[]byte { return &r.result }).ReadOnly(),
	postgres.Int("state", func(r *sagaRow) *saga.State { return &r.State }).ReadOnly(),
	postgres.Int("current_step", func(r *sagaRow) *int { return &r.CurrentStep }).ReadOnly(),
	postgres.Int("total_steps", func(r *sagaRow) *int { return &r.TotalSteps }),
	postgres.Int("step_attempt", func(r *sagaRow) *int { return &r.Attempt }),
	postgres.Int("step_failures", func(r *sagaRow) *int { return &r.Failures }).ReadOnly(),
	postgres.Bool("step_uncertain", func(r *sagaRow) *bool { return &r.Uncertain }).ReadOnly(),
	postgres.Int("version", func(r *sagaRow) *int64 { return &r.Version }).ReadOnly(),
	postgres.IntOrNil("lease_owner", func(r *sagaRow) **int64 { return &r.LeaseOwner }),
	postgres.Int("lease_epoch", func(r *sagaRow) *int64 { return &r.LeaseEpoch }),
	postgres.TimeOrNil("next_run_at", func(r *sagaRow) **time.Time { return &r.NextRunAt }).StoredFrom(
		dueAt("next_run_at", "created_at")),
	postgres.JSON("error", func(r *sagaRow) *[]byte { return &r.failure }).ReadOnly(),
	postgres.TextOrNil("end_cause", func(r *sagaRow) **saga.Cause { return &r.EndCause }).ReadOnly(),
	postgres.BoolOrNil("clean", func(r *sagaRow) **bool { return &r.Clean }).ReadOnly(),
	postgres.Bool("needs_attention", func(r *sagaRow) *bool { return &r.NeedsAttention }).ReadOnly(),
	postgres.TextOrNil("attention_reason", func(r *sagaRow) **string { return &r.AttentionReason }).ReadOnly(),
	postgres.IntOrNil("timeout_ms", func(r *sagaRow) **int64 { return &r.TimeoutMS }),
	postgres.IntOrNil("compensation_timeout_ms", func(r *sagaRow) **int64 { return &r.CompensationTimeoutMS }),
	postgres.TimeOrNil("timeout_at", func(r *sagaRow) **time.Time { return &r.TimeoutAt }).From("now() + timeout_ms * interval '1 ms'"),
	postgres.TimeOrNil("compensation_timeout_at",
		func(r *sagaRow) **time.Time { return &r.CompensationTimeoutAt }).ReadOnly(),
	postgres.Bool("compensation_expired", func(r *sagaRow) *bool { return &r.CompensationExpired }).ReadOnly(),
	postgres.TimeOrNil("timed_out_at", func(r *sagaRow) **time.Time { return &r.TimedOutAt }).ReadOnly(),
	postgres.TimeOrNil("cancel_requested_at", func(r *sagaRow) **time.Time { return &r.CancelRequestedAt }).ReadOnly(),
	postgres.TimeOrNil("suspended_at", func(r *sagaRow) **time.Time { return &r.SuspendedAt }).ReadOnly(),
	postgres.Time("created_at", func(r *sagaRow) *time.Time { return &r.CreatedAt }),
	postgres.TimeOrNil("started_at", func(r *sagaRow) **time.Time { return &r.StartedAt }),
	postgres.TimeOrNil("completed_at", func(r *sagaRow) **time.Time { return &r.CompletedAt }).ReadOnly(),
	postgres.Time("updated_at", func(r *sagaRow) *time.Time { return &r.UpdatedAt }).From("created_at"),
	postgres.Bool("keyed", func(r *sagaRow) *bool { return &r.keyed }).InputOnly(),
)

// logRow is a row of saga.saga_step_logs. Content that may be sealed is in its stored form.
type logRow struct {
	*saga.StepLog
	of                         saga.Ref
	request, response, failure []byte
}

// logTable is saga.saga_step_logs.
var logTable = postgres.NewTable(
	postgres.UUID("id", func(r *logRow) *uuid.UUID { return &r.ID }),
	postgres.UUID("saga_id", func(r *logRow) *uuid.UUID { return &r.of.ID }),
	postgres.UUID("tenant_id", func(r *logRow) *uuid.UUID { return &r.of.Tenant }),
	postgres.Int("step_index", func(r *logRow) *int { return &r.StepIndex }),
	postgres.Text("step_name", func(r *logRow) *string { return &r.StepName }),
	postgres.Text("action", func(r *logRow) *saga.Action { return &r.Action }),
	postgres.Int("attempt", func(r *logRow) *int { return &r.Attempt }),
	postgres.Text("status", func(r *logRow) *saga.LogStatus { return &r.Status }),
	postgres.Bool("final", func(r *logRow) *bool { return &r.Final }),
	postgres.TextOrNil("outcome_code", func(r *logRow) **string { return &r.Outcome }),
	postgres.JSON("request_payload", func(r *logRow) *[]byte { return &r.request }),
	postgres.Bytes("request_parts", func(r *logRow) *[]byte { return (*[]byte)(&r.Parts) }),
	postgres.JSON("response_payload", func(r *logRow) *[]byte { return &r.response }),
	postgres.JSON("error", func(r *logRow) *[]byte { return &r.failure }),
	postgres.Time("started_at", func(r *logRow) *time.Time { return &r.StartedAt }),
	postgres.TimeOrNil("completed_at", func(r *logRow) **time.Time { return &r.CompletedAt }),
	postgres.IntOrNil("duration_ms", func(r *logRow) **int64 { return &r.DurationMS }),
	postgres.Time("updated_at", func(r *logRow) *time.Time { return &r.UpdatedAt }),
	postgres.Bool("completes", func(r *logRow) *bool { return &r.Completes }).InputOnly(),
)

var theLogs = logTable.As("g")

// completedLog has the columns that are written when a RUNNING row is completed.
var completedLog = logTable.Without("id", "step_name", "started_at")

// seal sets the stored form of the content. A request that saga.MakeRequests can rebuild is not
// stored.
func (r *logRow) seal(p *envelope.Sealer) (err error) {
	if r.Parts != nil {
		r.request = nil
	} else if r.request, err = postgres.Seal(p, logField(fieldRequest, r.StepLog), r.Request); err != nil {
		return err
	}
	if r.response, err = postgres.Seal(p, logField(fieldResponse, r.StepLog), r.Response); err != nil {
		return err
	}
	r.failure, err = sealedError(p, logField(fieldLogError, r.StepLog), r.Error)
	return err
}

// keyRow is a row of saga.idempotency_keys.
type keyRow struct {
	id uuid.UUID // of the saga
	*idempotency.Key
}

var keyTable = postgres.NewTable(
	postgres.UUID("id", func(r *keyRow) *uuid.UUID { return &r.id }),
	postgres.UUID("tenant", func(r *keyRow) *uuid.UUID { return &r.TenantID }),
	postgres.Text("principal", func(r *keyRow) *string { return &r.Principal }),
	postgres.Text("route", func(r *keyRow) *string { return &r.Route }),
	postgres.Text("key", func(r *keyRow) *string { return &r.Key.Key }),
	postgres.Bytes("hash", func(r *keyRow) *[]byte { return &r.Hash }),
)

var theKeys = keyTable.As("k")

// changeRow holds the values that a change writes to the row of its saga.
type changeRow struct {
	*saga.Change
	failure []byte // sealed
	keyed   bool
}

var changeTable = postgres.NewTable(
	postgres.UUID("id", func(r *changeRow) *uuid.UUID { return &r.After.ID }),
	postgres.Int("was", func(r *changeRow) *int64 { return &r.Before.Version }),
	postgres.Int("epoch_was", func(r *changeRow) *int64 { return &r.Before.Epoch }),
	postgres.Int("version", func(r *changeRow) *int64 { return &r.After.Version }),
	postgres.Int("state", func(r *changeRow) *saga.State { return &r.After.State }),
	postgres.Int("current_step", func(r *changeRow) *int { return &r.After.CurrentStep }),
	postgres.Int("attempt", func(r *changeRow) *int { return &r.After.Attempt }),
	postgres.Int("failures", func(r *changeRow) *int { return &r.After.Failures }),
	postgres.Bool("uncertain", func(r *changeRow) *bool { return &r.After.Uncertain }),
	postgres.IntOrNil("owner", func(r *changeRow) **int64 { return &r.After.LeaseOwner }),
	postgres.Int("epoch", func(r *changeRow) *int64 { return &r.After.LeaseEpoch }),
	postgres.TimeOrNil("next_run_at", func(r *changeRow) **time.Time { return &r.After.NextRunAt }),
	postgres.JSON("error", func(r *changeRow) *[]byte { return &r.failure }),
	postgres.TextOrNil("end_cause", func(r *changeRow) **saga.Cause { return &r.After.EndCause }),
	postgres.BoolOrNil("clean", func(r *changeRow) **bool { return &r.After.Clean }),
	postgres.Bool("attention", func(r *changeRow) *bool { return &r.After.NeedsAttention }),
	postgres.TextOrNil("attention_reason", func(r *changeRow) **string { return &r.After.AttentionReason }),
	postgres.IntOrNil("comp_ms", func(r *changeRow) **int64 { return &r.After.CompensationTimeoutMS }),
	postgres.Bool("comp_starts", func(r *changeRow) *bool { return &r.StartsCompensation }),
	postgres.Bool("comp_expired", func(r *changeRow) *bool { return &r.After.CompensationExpired }),
	postgres.TimeOrNil("timed_out_at", func(r *changeRow) **time.Time { return &r.After.TimedOutAt }),
	postgres.TimeOrNil("cancel_at", func(r *changeRow) **time.Time { return &r.After.CancelRequestedAt }),
	postgres.TimeOrNil("started_at", func(r *changeRow) **time.Time { return &r.After.StartedAt }),
	postgres.TimeOrNil("completed_at", func(r *changeRow) **time.Time { return &r.After.CompletedAt }),
	postgres.Time("updated_at", func(r *changeRow) *time.Time { return &r.After.UpdatedAt }),
	postgres.Bool("keyed", func(r *changeRow) *bool { return &r.keyed }),
	postgres.UUID("tenant_id", func(r *changeRow) *uuid.UUID { return &r.After.Tenant.ID }),
)

// operatedRow holds the values that an operator's change writes in addition.
type operatedRow struct {
	*saga.Operated
	interventions, result []byte // sealed
}

var operatedTable = postgres.NewTable(
	postgres.BoolOrNil("suspend", func(r *operatedRow) **bool { return &r.Suspend }),
	postgres.IntOrNil("deadline_ms", func(r *operatedRow) **int64 { return &r.DeadlineInMS }),
	postgres.JSON("interventions", func(r *operatedRow) *[]byte { return &r.interventions }),
	postgres.JSON("result", func(r *operatedRow) *[]byte { return &r.result }),
)

// dueAt returns SQL for the time at which a change or a new saga is due, according to the
// database's clock: the node's clock may be wrong, and the node may be gone when the saga is due.
// If the clocks differ by less than five seconds, which the commit may take, the result is the
// node's time, which the audit trail also records.
func dueAt(at, madeAt string) string {
	return fmt.Sprintf(`CASE WHEN abs(extract(epoch FROM now() - %[2]s)) < 5 THEN %[1]s
	                         ELSE now() + (%[1]s - %[2]s) END`, at, madeAt)
}

// sagaColumns are the columns of s that scanSaga reads.
var sagaColumns = sagaTable.Selected("s")

// scanSaga reads one row of sagaColumns, and the columns after them into more. It makes jsonb
// canonical again (invariant I7). If the saga's encrypted content cannot be decrypted, it returns
// envelope.ErrUnreadable and the saga without that content (ContentUnreadable).
func scanSaga(db *postgres.DB, row postgres.Scanner, more ...any) (saga.Saga, error) {
	var s saga.Saga
	r := sagaRow{Saga: &s}
	err := sagaTable.Scan(row, &r, more...)
	if err != nil {
		return s, err
	}
	sealer := db.Keys.SealerFor(s.Tenant.ID, s.ID)
	var closed closedContent
	if s.Payload, err = postgres.Unseal(&sealer, fieldPayload, r.payload); closed.isNot(err) {
		return s, err
	}
	if s.Metadata, err = postgres.Canonical(r.metadata); err != nil {
		return s, err
	}
	if s.Error, err = openError(&sealer, fieldError, r.failure); closed.isNot(err) {
		return s, err
	}
	if r.policy != nil || r.interventions != nil || r.result != nil {
		if err := scanRare(&sealer, &r); closed.isNot(err) {
			return s, err
		}
	}
	s.ContentUnreadable = closed.err != nil
	return s, closed.err
}

// logColumns are the columns of l that scanLog reads.
var logColumns = logTable.Selected("l")

// briefLogColumns are logColumns with NULL for the columns that saga.Logs.Brief leaves out, so that
// PostgreSQL does not read them.
var briefLogColumns = strings.NewReplacer("l.request_payload", "NULL::jsonb AS request_payload",
	"l.request_parts", "NULL::bytea AS request_parts",
	"l.response_payload", "CASE WHEN l.status IN ('SKIPPED', 'RUNNING') THEN l.response_payload END AS response_payload").
	Replace(logColumns)

// explainedLogColumns are the columns for saga.Logs.Explained: those of brief logs, the newest five
// errors, and all encrypted content, because only the full ciphertext shows whether it can be
// decrypted.
var explainedLogColumns = strings.NewReplacer(
	"l.request_payload", "CASE WHEN l.request_payload ? '$skald_enc' THEN l.request_payload END AS request_payload",
	"l.request_parts", "NULL::bytea AS request_parts",
	"l.response_payload", `CASE
  WHEN l.status IN ('SKIPPED', 'RUNNING') OR l.response_payload ? '$skald_enc' THEN l.response_payload
  END AS response_payload`,
	"l.error", `CASE
  WHEN l.error -> 'details' ? '$skald_enc' THEN l.error
  WHEN row_number() OVER (ORDER BY l.error IS NULL, l.updated_at DESC) <= 5 THEN l.error
  END AS error`).
	Replace(logColumns)

// scanLog reads one row of logColumns, and the columns after them into more. sealerOf returns the
// sealer of the log's saga. A log whose encrypted content cannot be decrypted is handled as in
// scanSaga.
func scanLog(row postgres.Scanner, sealerOf func(saga.Ref) *envelope.Sealer, more ...any) (saga.StepLog, error) {
	l, _, err := scanLogOf(row, sealerOf, more...)
	return l, err
}

// scanLogOf is like scanLog but also returns the log's saga.
func scanLogOf(row postgres.Scanner,
	sealerOf func(saga.Ref) *envelope.Sealer, more ...any) (l saga.StepLog, of saga.Ref, err error) {
	r := logRow{StepLog: &l}
	if err = logTable.Scan(row, &r, more...); err != nil {
		return l, r.of, err
	}
	of, l.SagaID = r.of, r.of.ID
	sealer := sealerOf(of)
	var closed closedContent
	if l.Request, err = postgres.Unseal(sealer, logField(fieldRequest, &l), r.request); closed.isNot(err) {
		return l, of, err
	}
	if l.Response, err = postgres.Unseal(sealer, logField(fieldResponse, &l), r.response); closed.isNot(err) {
		return l, of, err
	}
	if l.Error, err = openError(sealer, logField(fieldLogError, &l), r.failure); closed.isNot(err) {
		return l, of, err
	}
	l.ContentUnreadable = closed.err != nil
	return l, of, closed.err
}

// scanRare reads the columns that are set for few sagas.
func scanRare(sealer *envelope.Sealer, s *sagaRow) (err error) {
	var closed closedContent
	if s.policy != nil {
		s.RetryPolicy = new(retry.Policy)
		if err := json.Unmarshal(s.policy, s.RetryPolicy); err != nil {
			return fmt.Errorf("stored retry policy: %w", err)
		}
	}
	interventions, err := postgres.Canonical(s.interventions)
	if err != nil {
		return err
	}
	if interventions != nil {
		s.Interventions = new(saga.Interventions)
		if err := json.Unmarshal(interventions, s.Interventions); err != nil {
			return fmt.Errorf("stored interventions: %w", err)
		}
		if s.Interventions, err = openInterventions(sealer, s.Interventions); closed.isNot(err) {
			return err
		}
	}
	if s.Result, err = postgres.Unseal(sealer, fieldResult, s.result); closed.isNot(err) {
		return err
	}
	return closed.err
}
