package saga

import (
	"bytes"
	"cmp"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/tenant"
)

// Cause is the reason why a saga stopped running forward (requirements/saga.md D2).
type Cause string

// The causes of a compensation.
const (
	CauseStepFailed Cause = "step_failed"
	CauseCancelled  Cause = "cancelled"
	CauseDeadline   Cause = "deadline"
	CauseOperator   Cause = "operator"
)

// Causes lists every cause.
var Causes = []Cause{CauseStepFailed, CauseCancelled, CauseDeadline, CauseOperator}

// End returns the state in which a saga with this cause ends once everything is undone.
func (c Cause) End() State {
	switch c {
	case CauseCancelled:
		return Cancelled
	case CauseDeadline:
		return TimedOut
	}
	return Compensated
}

// Error is seed 2's error object. In a Saga, nil means "no error".
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

// SealedMessage stands in for the message of a sealed error.
const SealedMessage = "sealed"

// Brief returns the part of an error that may be shown if content is sealed. It contains no text
// from a participant.
func (e *Error) Brief() *Error {
	return &Error{Code: e.Code, Message: SealedMessage, Type: e.Type, Retryable: e.Retryable, Timestamp: e.Timestamp}
}

// Ref identifies a saga across tenants. An id is unique only within its tenant, because clients may
// choose it.
type Ref struct{ Tenant, ID uuid.UUID }

// Compare orders refs by id and then by tenant, which is the order in which rows are locked.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(bytes.Compare(r.ID[:], o.ID[:]), bytes.Compare(r.Tenant[:], o.Tenant[:]))
}

// Ref returns the reference to the saga.
func (s *Saga) Ref() Ref { return Ref{Tenant: s.Tenant.ID, ID: s.ID} }

// Saga is the head of a saga: one small row. Nil pointers are SQL NULLs. The outcomes of its steps
// are in its step logs, from which Rebuild builds the Instance.
type Saga struct {
	ID uuid.UUID
	tenant.Tenant
	// TenantInKeys means that the idempotency keys of the saga's calls contain the tenant. It is
	// fixed at creation, because keys never change (invariant I7).
	TenantInKeys bool
	// ContentUnreadable means that encrypted content of the saga could not be decrypted and is left
	// out. It is set only when the saga is read for people; loops never receive such a saga.
	ContentUnreadable bool

	SagaType        string // seed 4; at most 64 characters
	WorkflowName    string
	WorkflowVersion int // the version that the saga is pinned to
	Name            *string
	Description     *string
	BusinessKey     *string
	CorrelationID   *string
	InitiatedBy     string
	TraceID         *string
	SpanID          *string
	TraceState      *string         // W3C Trace Context; participants receive it as the client sent it
	Baggage         *string         // W3C Baggage; participants receive it as the client sent it
	Payload         json.RawMessage // canonical JSON; nil when none was given
	Metadata        json.RawMessage // a JSON object or nil
	// RetryPolicy overrides the workflow's policy and is overridden by those of steps; nil means
	// none.
	RetryPolicy *retry.Policy

	State       State
	CurrentStep int // the step in flight; while compensating, the step being undone
	TotalSteps  int
	// Attempt numbers the call in flight (X-Saga-Attempt), starting from 1; crashes increase it
	// too. 0 means that nothing was ever sent.
	Attempt int
	// Failures counts the committed failed attempts of the current call. The retry policy uses this
	// number, so that crashes do not consume attempts.
	Failures int
	// Uncertain means that an attempt of the current call may have been applied although no answer
	// says so, because its answer was lost or its node died. Only an answer that the call was done
	// ends this state. A step in doubt is also compensated (trap X10); a saga whose compensation is
	// in doubt never goes forward again.
	Uncertain bool

	Version    int64  // 1 + the number of accepted changes; the ETag
	LeaseOwner *int64 // incarnation of the node that drives it; nil means that any node may claim it
	LeaseEpoch int64  // fencing token: increases with every owner
	// NextRunAt is set while the saga waits for an owner, for a retry or, after a flag, for its
	// owner to notice. It is nil while its owner drives it.
	NextRunAt *time.Time

	Error           *Error
	EndCause        *Cause // set as soon as the saga must compensate
	Clean           *bool  // nil until the end; false means that effects may remain
	NeedsAttention  bool
	AttentionReason *string

	// Interventions contains everything that operators have changed; nil means nothing.
	Interventions *Interventions
	// Result is the result of a completed saga, set by the workflow's output declaration or by an
	// operator. If it is nil, there is neither, and the outputs of the steps are the result.
	Result json.RawMessage

	TimeoutMS             *int64
	CompensationTimeoutMS *int64
	TimeoutAt             *time.Time // database clock
	CompensationTimeoutAt *time.Time // database clock; set when compensation begins
	// CompensationExpired is the flag for a compensation deadline that has passed: the compensation
	// attempt in flight is the last one.
	CompensationExpired bool
	TimedOutAt          *time.Time
	CancelRequestedAt   *time.Time
	SuspendedAt         *time.Time
	CreatedAt           time.Time
	StartedAt           *time.Time
	CompletedAt         *time.Time // set when the saga ends in any state
	UpdatedAt           time.Time
}

// Deadline is the deadline of the current phase on the database's clock, or nil if it has none.
func (s *Saga) Deadline() *time.Time { return *s.phaseDeadline() }

// phaseDeadline returns the field that holds Deadline, so that it can be set.
func (s *Saga) phaseDeadline() **time.Time {
	if s.State.Forward() {
		return &s.TimeoutAt
	}
	return &s.CompensationTimeoutAt
}

// Place is the saga's position in a list.
func (s *Saga) Place() page.TimeID { return page.TimeID{At: s.CreatedAt, ID: s.ID} }

// ErrorMessage is seed 1's error_message; "" if the saga has no error.
func (s *Saga) ErrorMessage() string {
	if s.Error == nil {
		return ""
	}
	return s.Error.Message
}
