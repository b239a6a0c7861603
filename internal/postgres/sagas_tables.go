package postgres

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// sagaRow is a row of saga.saga_states, and as it is stored what may be sealed.
type sagaRow struct {
	*saga.Saga
	payload, metadata, policy, interventions, result, failure []byte

	floating, keyed bool // of a new one: its workflow must be current, its key new
}

// sagaTable is saga.saga_states. What it stores of a new saga is the table's
// default where a column is only read.
var sagaTable = NewTable(
	UUID("id", func(r *sagaRow) *uuid.UUID { return &r.ID }),
	UUID("tenant_id", func(r *sagaRow) *uuid.UUID { return &r.Tenant.ID }),
	Bool("tenant_in_keys", func(r *sagaRow) *bool { return &r.TenantInKeys }),
	Text("tenant_region", func(r *sagaRow) *string { return &r.Region }),
	Int("tenant_major", func(r *sagaRow) *int { return &r.Major }),
	Int("tenant_minor", func(r *sagaRow) *int { return &r.Minor }),
	Text("saga_type", func(r *sagaRow) *string { return &r.SagaType }),
	Text("workflow_name", func(r *sagaRow) *string { return &r.WorkflowName }),
	Int("workflow_version", func(r *sagaRow) *int { return &r.WorkflowVersion }),
	Bool("floating", func(r *sagaRow) *bool { return &r.floating }).Told(),
	TextOrNil("name", func(r *sagaRow) **string { return &r.Name }),
	TextOrNil("description", func(r *sagaRow) **string { return &r.Description }),
	TextOrNil("business_key", func(r *sagaRow) **string { return &r.BusinessKey }),
	TextOrNil("correlation_id", func(r *sagaRow) **string { return &r.CorrelationID }),
	Text("initiated_by", func(r *sagaRow) *string { return &r.InitiatedBy }),
	TextOrNil("trace_id", func(r *sagaRow) **string { return &r.TraceID }),
	TextOrNil("span_id", func(r *sagaRow) **string { return &r.SpanID }),
	JSON("payload", func(r *sagaRow) *[]byte { return &r.payload }),
	JSON("metadata", func(r *sagaRow) *[]byte { return &r.metadata }),
	JSON("retry_policy", func(r *sagaRow) *[]byte { return &r.policy }),
	JSON("interventions", func(r *sagaRow) *[]byte { return &r.interventions }).ReadOnly(),
	JSON("result_data", func(r *sagaRow) *[]byte { return &r.result }).ReadOnly(),
	Int("state", func(r *sagaRow) *saga.State { return &r.State }).ReadOnly(),
	Int("current_step", func(r *sagaRow) *int { return &r.CurrentStep }).ReadOnly(),
	Int("total_steps", func(r *sagaRow) *int { return &r.TotalSteps }),
	Int("step_attempt", func(r *sagaRow) *int { return &r.Attempt }),
	Int("step_failures", func(r *sagaRow) *int { return &r.Failures }).ReadOnly(),
	Bool("step_uncertain", func(r *sagaRow) *bool { return &r.Uncertain }).ReadOnly(),
	Int("version", func(r *sagaRow) *int64 { return &r.Version }).ReadOnly(),
	IntOrNil("lease_owner", func(r *sagaRow) **int64 { return &r.LeaseOwner }),
	Int("lease_epoch", func(r *sagaRow) *int64 { return &r.LeaseEpoch }),
	TimeOrNil("next_run_at", func(r *sagaRow) **time.Time { return &r.NextRunAt }).StoredFrom(dueAt("next_run_at", "created_at")),
	JSON("error", func(r *sagaRow) *[]byte { return &r.failure }).ReadOnly(),
	TextOrNil("end_cause", func(r *sagaRow) **saga.Cause { return &r.EndCause }).ReadOnly(),
	BoolOrNil("clean", func(r *sagaRow) **bool { return &r.Clean }).ReadOnly(),
	Bool("needs_attention", func(r *sagaRow) *bool { return &r.NeedsAttention }).ReadOnly(),
	TextOrNil("attention_reason", func(r *sagaRow) **string { return &r.AttentionReason }).ReadOnly(),
	IntOrNil("timeout_ms", func(r *sagaRow) **int64 { return &r.TimeoutMS }),
	IntOrNil("compensation_timeout_ms", func(r *sagaRow) **int64 { return &r.CompensationTimeoutMS }),
	TimeOrNil("timeout_at", func(r *sagaRow) **time.Time { return &r.TimeoutAt }).From("now() + timeout_ms * interval '1 ms'"),
	TimeOrNil("compensation_timeout_at", func(r *sagaRow) **time.Time { return &r.CompensationTimeoutAt }).ReadOnly(),
	Bool("compensation_expired", func(r *sagaRow) *bool { return &r.CompensationExpired }).ReadOnly(),
	TimeOrNil("timed_out_at", func(r *sagaRow) **time.Time { return &r.TimedOutAt }).ReadOnly(),
	TimeOrNil("cancel_requested_at", func(r *sagaRow) **time.Time { return &r.CancelRequestedAt }).ReadOnly(),
	TimeOrNil("suspended_at", func(r *sagaRow) **time.Time { return &r.SuspendedAt }).ReadOnly(),
	Time("created_at", func(r *sagaRow) *time.Time { return &r.CreatedAt }),
	TimeOrNil("started_at", func(r *sagaRow) **time.Time { return &r.StartedAt }),
	TimeOrNil("completed_at", func(r *sagaRow) **time.Time { return &r.CompletedAt }).ReadOnly(),
	Time("updated_at", func(r *sagaRow) *time.Time { return &r.UpdatedAt }).From("created_at"),
	Bool("keyed", func(r *sagaRow) *bool { return &r.keyed }).Told(),
)

// logRow is a row of saga.saga_step_logs, and as it is stored what may be sealed.
type logRow struct {
	*saga.StepLog
	of                         saga.Ref
	request, response, failure []byte
}

// logTable is saga.saga_step_logs.
var logTable = NewTable(
	UUID("id", func(r *logRow) *uuid.UUID { return &r.ID }),
	UUID("saga_id", func(r *logRow) *uuid.UUID { return &r.of.ID }),
	UUID("tenant_id", func(r *logRow) *uuid.UUID { return &r.of.Tenant }),
	Int("step_index", func(r *logRow) *int { return &r.StepIndex }),
	Text("step_name", func(r *logRow) *string { return &r.StepName }),
	Text("action", func(r *logRow) *saga.Action { return &r.Action }),
	Int("attempt", func(r *logRow) *int { return &r.Attempt }),
	Text("status", func(r *logRow) *saga.LogStatus { return &r.Status }),
	Bool("final", func(r *logRow) *bool { return &r.Final }),
	TextOrNil("outcome_code", func(r *logRow) **string { return &r.Outcome }),
	JSON("request_payload", func(r *logRow) *[]byte { return &r.request }),
	JSON("response_payload", func(r *logRow) *[]byte { return &r.response }),
	JSON("error", func(r *logRow) *[]byte { return &r.failure }),
	Time("started_at", func(r *logRow) *time.Time { return &r.StartedAt }),
	TimeOrNil("completed_at", func(r *logRow) **time.Time { return &r.CompletedAt }),
	IntOrNil("duration_ms", func(r *logRow) **int64 { return &r.DurationMS }),
	Time("updated_at", func(r *logRow) *time.Time { return &r.UpdatedAt }),
	Bool("completes", func(r *logRow) *bool { return &r.Completes }).Told(),
)

var theLogs = logTable.As("g")

// seal fills in what is stored of the content.
func (r *logRow) seal(p *envelope.Sealer) (err error) {
	if r.request, err = seal(p, logField(fieldRequest, r.StepLog), r.Request); err != nil {
		return err
	}
	if r.response, err = seal(p, logField(fieldResponse, r.StepLog), r.Response); err != nil {
		return err
	}
	r.failure, err = sealedError(p, logField(fieldLogError, r.StepLog), r.Error)
	return err
}

// keyRow is a row of saga.idempotency_keys.
type keyRow struct {
	id uuid.UUID // of the saga
	*saga.IdempotencyKey
}

var keyTable = NewTable(
	UUID("id", func(r *keyRow) *uuid.UUID { return &r.id }),
	UUID("tenant", func(r *keyRow) *uuid.UUID { return &r.TenantID }),
	Text("principal", func(r *keyRow) *string { return &r.Principal }),
	Text("route", func(r *keyRow) *string { return &r.Route }),
	Text("key", func(r *keyRow) *string { return &r.Key }),
	Bytes("hash", func(r *keyRow) *[]byte { return &r.Hash }),
)

var theKeys = keyTable.As("k")

// changeRow is what a change says of its saga's row.
type changeRow struct {
	*saga.Change
	failure []byte // sealed
	keyed   bool
}

var changeTable = NewTable(
	UUID("id", func(r *changeRow) *uuid.UUID { return &r.After.ID }),
	Int("was", func(r *changeRow) *int64 { return &r.Before.Version }),
	Int("epoch_was", func(r *changeRow) *int64 { return &r.Before.Epoch }),
	Int("version", func(r *changeRow) *int64 { return &r.After.Version }),
	Int("state", func(r *changeRow) *saga.State { return &r.After.State }),
	Int("current_step", func(r *changeRow) *int { return &r.After.CurrentStep }),
	Int("attempt", func(r *changeRow) *int { return &r.After.Attempt }),
	Int("failures", func(r *changeRow) *int { return &r.After.Failures }),
	Bool("uncertain", func(r *changeRow) *bool { return &r.After.Uncertain }),
	IntOrNil("owner", func(r *changeRow) **int64 { return &r.After.LeaseOwner }),
	Int("epoch", func(r *changeRow) *int64 { return &r.After.LeaseEpoch }),
	TimeOrNil("next_run_at", func(r *changeRow) **time.Time { return &r.After.NextRunAt }),
	JSON("error", func(r *changeRow) *[]byte { return &r.failure }),
	TextOrNil("end_cause", func(r *changeRow) **saga.Cause { return &r.After.EndCause }),
	BoolOrNil("clean", func(r *changeRow) **bool { return &r.After.Clean }),
	Bool("attention", func(r *changeRow) *bool { return &r.After.NeedsAttention }),
	TextOrNil("attention_reason", func(r *changeRow) **string { return &r.After.AttentionReason }),
	IntOrNil("comp_ms", func(r *changeRow) **int64 { return &r.After.CompensationTimeoutMS }),
	Bool("comp_starts", func(r *changeRow) *bool { return &r.StartsCompensation }),
	Bool("comp_expired", func(r *changeRow) *bool { return &r.After.CompensationExpired }),
	TimeOrNil("timed_out_at", func(r *changeRow) **time.Time { return &r.After.TimedOutAt }),
	TimeOrNil("cancel_at", func(r *changeRow) **time.Time { return &r.After.CancelRequestedAt }),
	TimeOrNil("started_at", func(r *changeRow) **time.Time { return &r.After.StartedAt }),
	TimeOrNil("completed_at", func(r *changeRow) **time.Time { return &r.After.CompletedAt }),
	Time("updated_at", func(r *changeRow) *time.Time { return &r.After.UpdatedAt }),
	Bool("keyed", func(r *changeRow) *bool { return &r.keyed }),
	UUID("tenant_id", func(r *changeRow) *uuid.UUID { return &r.After.Tenant.ID }),
)

// operatedRow is what a change of an operator says beside.
type operatedRow struct {
	*saga.Operated
	interventions, result []byte // sealed
}

var operatedTable = NewTable(
	BoolOrNil("suspend", func(r *operatedRow) **bool { return &r.Suspend }),
	IntOrNil("deadline_ms", func(r *operatedRow) **int64 { return &r.DeadlineInMS }),
	JSON("interventions", func(r *operatedRow) *[]byte { return &r.interventions }),
	JSON("result", func(r *operatedRow) *[]byte { return &r.result }),
)
