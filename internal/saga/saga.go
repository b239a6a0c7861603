package saga

import (
	"bytes"
	"cmp"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
)

// Tenant is seed 4's tenant: every row carries it, every query names its ID.
type Tenant struct {
	ID     uuid.UUID `db:"tenant_id"`
	Region string    `db:"tenant_region"` // at most 32 characters
	Major  int       `db:"tenant_major"`  // 0..65535
	Minor  int       `db:"tenant_minor"`  // 0..65535
}

// Cause says why a saga did not go on forward (requirements/saga.md D2).
type Cause string

// Causes of a turn to compensation.
const (
	CauseStepFailed Cause = "step_failed"
	CauseCancelled  Cause = "cancelled"
	CauseDeadline   Cause = "deadline"
	CauseOperator   Cause = "operator"
)

// Causes lists every cause.
var Causes = []Cause{CauseStepFailed, CauseCancelled, CauseDeadline, CauseOperator}

// End returns the state in which a saga of this cause ends once everything is undone.
func (c Cause) End() State {
	switch c {
	case CauseCancelled:
		return Cancelled
	case CauseDeadline:
		return TimedOut
	}
	return Compensated
}

// Error is seed 2's error object. Nil in a Saga means "no error".
type Error struct {
	Code       string          `json:"code"`
	Message    string          `json:"message"`
	Type       string          `json:"type"` // a retry.Class, or "cancelled", "deadline", "operator"
	Retryable  bool            `json:"retryable"`
	Timestamp  time.Time       `json:"timestamp"`
	StackTrace string          `json:"stack_trace,omitempty"`
	Details    json.RawMessage `json:"details,omitempty"`
	Cause      *Error          `json:"cause,omitempty"`
}

// Brief returns what of an error may be shown where its content is sealed:
// nothing that a participant may have said.
func (e *Error) Brief() *Error {
	return &Error{Code: e.Code, Message: "sealed", Type: e.Type, Retryable: e.Retryable, Timestamp: e.Timestamp}
}

// Ref is which saga is meant, where sagas of several tenants meet: an id is
// unique within its tenant only, because clients may choose it.
type Ref struct{ Tenant, ID uuid.UUID }

// Compare orders refs by id, then by tenant: the order in which rows are locked.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(bytes.Compare(r.ID[:], o.ID[:]), bytes.Compare(r.Tenant[:], o.Tenant[:]))
}

// Ref returns which saga it is.
func (s *Saga) Ref() Ref { return Ref{Tenant: s.Tenant.ID, ID: s.ID} }

// Saga is the head of a saga: one small row. Nil pointers are SQL NULLs. The
// outcome of its steps stands in its step logs, from which Run is rebuilt.
type Saga struct {
	ID uuid.UUID `db:"id"`
	Tenant
	// TenantInKeys: the idempotency keys of its calls name the tenant. Decided at
	// its creation for good, so that no key ever changes (invariant I7).
	TenantInKeys    bool            `db:"tenant_in_keys"`
	SagaType        string          `db:"saga_type"` // seed 4; at most 64 characters
	WorkflowName    string          `db:"workflow_name"`
	WorkflowVersion int             `db:"workflow_version"` // the saga is pinned to it
	Name            *string         `db:"name"`
	Description     *string         `db:"description"`
	BusinessKey     *string         `db:"business_key"`
	CorrelationID   *string         `db:"correlation_id"`
	InitiatedBy     string          `db:"initiated_by"`
	TraceID         *string         `db:"trace_id"`
	SpanID          *string         `db:"span_id"`
	Payload         json.RawMessage `db:"payload"`  // canonical JSON; nil when none was given
	Metadata        json.RawMessage `db:"metadata"` // a JSON object or nil
	// RetryPolicy stands between those of the steps and the workflow's; nil: nothing does.
	RetryPolicy *retry.Policy `db:"retry_policy"`

	State       State `db:"state"`
	CurrentStep int   `db:"current_step"` // the step in flight; while compensating, the one being undone
	TotalSteps  int   `db:"total_steps"`
	// Attempt numbers the call in flight (X-Saga-Attempt), from 1; it grows
	// over crashes too. 0 means that nothing was ever sent.
	Attempt int `db:"step_attempt"`
	// Failures counts committed failed attempts of the current call: what the
	// retry policy looks at, so that a crash does not eat up attempts.
	Failures int `db:"step_failures"`
	// Uncertain: an attempt of the current step may have been applied though
	// no definite answer says so. Such a step is undone too (trap X10).
	Uncertain bool `db:"step_uncertain"`

	Version    int64  `db:"version"`     // 1 + number of accepted changes; the ETag
	LeaseOwner *int64 `db:"lease_owner"` // incarnation of the node that drives it; nil: anybody may claim it
	LeaseEpoch int64  `db:"lease_epoch"` // fencing token: grows with every owner
	// NextRunAt is set while the saga waits: for an owner, a retry or, after a
	// flag, for its owner to look at it. Nil while its owner drives it.
	NextRunAt *time.Time `db:"next_run_at"`

	Error           *Error  `db:"error"`
	EndCause        *Cause  `db:"end_cause"` // set as soon as the saga must turn back
	Clean           *bool   `db:"clean"`     // nil until the end; false: effects may remain
	NeedsAttention  bool    `db:"needs_attention"`
	AttentionReason *string `db:"attention_reason"`

	// Interventions is what operators have changed; nil: nothing.
	Interventions *Interventions `db:"interventions"`
	// Result is what the workflow's output declaration or an operator made of a
	// completed saga; nil: neither has, and the outputs of the steps are the result.
	Result json.RawMessage `db:"result_data"`

	TimeoutMS             *int64     `db:"timeout_ms"`
	CompensationTimeoutMS *int64     `db:"compensation_timeout_ms"`
	TimeoutAt             *time.Time `db:"timeout_at"`              // database clock
	CompensationTimeoutAt *time.Time `db:"compensation_timeout_at"` // database clock; set when compensation begins
	// CompensationExpired is the reaper's flag: the running undo is the last one tried.
	CompensationExpired bool       `db:"compensation_expired"`
	TimedOutAt          *time.Time `db:"timed_out_at"`
	CancelRequestedAt   *time.Time `db:"cancel_requested_at"`
	SuspendedAt         *time.Time `db:"suspended_at"`
	CreatedAt           time.Time  `db:"created_at"`
	StartedAt           *time.Time `db:"started_at"`
	CompletedAt         *time.Time `db:"completed_at"` // set at any end
	UpdatedAt           time.Time  `db:"updated_at"`
}

// ErrorMessage is seed 1's error_message: "" when there is no error.
func (s *Saga) ErrorMessage() string {
	if s.Error == nil {
		return ""
	}
	return s.Error.Message
}

// Action is seed 1's action of a step log.
type Action string

// Actions of a call to a participant.
const (
	Execute    Action = "EXECUTE"
	Compensate Action = "COMPENSATE"
)

// LogStatus is seed 1's status of a step log, plus RUNNING (requirements/saga.md D7).
type LogStatus string

// Log statuses. LogRunning holds exactly while CompletedAt is nil.
const (
	LogRunning LogStatus = "RUNNING"
	LogSuccess LogStatus = "SUCCESS"
	LogFailed  LogStatus = "FAILED"
	LogTimeout LogStatus = "TIMEOUT"
	LogSkipped LogStatus = "SKIPPED"
)

// LogStatuses lists every log status.
var LogStatuses = []LogStatus{LogSuccess, LogFailed, LogTimeout, LogSkipped, LogRunning}

// StepLog is one attempt of one action of one step (seed 1, saga_step_logs).
type StepLog struct {
	ID        uuid.UUID       `db:"id"`
	SagaID    uuid.UUID       `db:"saga_id"`
	StepIndex int             `db:"step_index"`
	StepName  string          `db:"step_name"`
	Action    Action          `db:"action"`
	Attempt   int             `db:"attempt"`
	Status    LogStatus       `db:"status"`
	Final     bool            `db:"final"` // the outcome row seed 1 means; false for an attempt that is retried
	Outcome   *string         `db:"outcome_code"`
	Request   json.RawMessage `db:"request_payload"`
	Response  json.RawMessage `db:"response_payload"`
	Error     *Error          `db:"error"`
	StartedAt time.Time       `db:"started_at"`
	// CompletedAt is nil while the call runs.
	CompletedAt *time.Time `db:"completed_at"`
	DurationMS  *int64     `db:"duration_ms"`
	UpdatedAt   time.Time  `db:"updated_at"`
	// Completes: a RUNNING row of the same step, action and attempt exists and
	// is completed by this log instead of a second row. Set by Apply.
	Completes bool `db:"-"`
}
