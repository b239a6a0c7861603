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

// Cause says why a saga stopped running forward (requirements/saga.md D2).
type Cause string

// Causes of a compensation.
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

// SealedMessage stands for the message of an error that is sealed.
const SealedMessage = "sealed"

// Brief returns the part of an error that may be shown where contents are sealed: no
// text of a participant.
func (e *Error) Brief() *Error {
	return &Error{Code: e.Code, Message: SealedMessage, Type: e.Type, Retryable: e.Retryable, Timestamp: e.Timestamp}
}

// Ref identifies a saga across tenants: an id is unique only within its tenant, because
// clients may choose it.
type Ref struct{ Tenant, ID uuid.UUID }

// Compare orders refs by id, then by tenant: the order in which rows are locked.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(bytes.Compare(r.ID[:], o.ID[:]), bytes.Compare(r.Tenant[:], o.Tenant[:]))
}

// Ref returns the reference to the saga.
func (s *Saga) Ref() Ref { return Ref{Tenant: s.Tenant.ID, ID: s.ID} }

// Saga is the head of a saga: one small row. Nil pointers are SQL NULLs. The outcomes
// of its steps are in its step logs, from which Rebuild makes the Instance.
type Saga struct {
	ID uuid.UUID
	tenant.Tenant
	// TenantInKeys: the idempotency keys of its calls contain the tenant. Fixed at
	// creation, because keys never change (invariant I7).
	TenantInKeys bool
	// ContentUnreadable: encrypted content of the saga could not be decrypted and is left out.
	// Only reading for people sets it; loops do not get such a saga.
	ContentUnreadable bool

	SagaType        string // seed 4; at most 64 characters
	WorkflowName    string
	WorkflowVersion int // the saga is pinned to it
	Name            *string
	Description     *string
	BusinessKey     *string
	CorrelationID   *string
	InitiatedBy     string
	TraceID         *string
	SpanID          *string
	TraceState      *string         // W3C Trace Context; participants receive it as it was sent
	Baggage         *string         // W3C Baggage, likewise
	Payload         json.RawMessage // canonical JSON; nil when none was given
	Metadata        json.RawMessage // a JSON object or nil
	// RetryPolicy overrides the workflow's policy and is overridden by those of steps;
	// nil: none.
	RetryPolicy *retry.Policy

	State       State
	CurrentStep int // the step in flight; while compensating, the one being undone
	TotalSteps  int
	// Attempt numbers the call in flight (X-Saga-Attempt), from 1; crashes increase it
	// too. 0: nothing was ever sent.
	Attempt int
	// Failures counts committed failed attempts of the current call. The retry policy
	// uses this number, so that crashes do not consume attempts.
	Failures int
	// Uncertain: an attempt of the current call may have been applied although no answer
	// says so, because its answer was lost or its node died. Only an answer that it was
	// done ends this. A step in doubt is compensated too (trap X10); a saga whose
	// compensation is in doubt never goes forward again.
	Uncertain bool

	Version    int64  // 1 + number of accepted changes; the ETag
	LeaseOwner *int64 // incarnation of the node that drives it; nil: any node may claim it
	LeaseEpoch int64  // fencing token: grows with every owner
	// NextRunAt is set while the saga waits: for an owner, for a retry or, after a
	// flag, for its owner to notice. Nil while its owner drives it.
	NextRunAt *time.Time

	Error           *Error
	EndCause        *Cause // set as soon as the saga must compensate
	Clean           *bool  // nil until the end; false: effects may remain
	NeedsAttention  bool
	AttentionReason *string

	// Interventions is what operators have changed; nil: nothing.
	Interventions *Interventions
	// Result is the result of a completed saga by the workflow's output declaration or by
	// an operator; nil: there is neither, and the outputs of the steps are the result.
	Result json.RawMessage

	TimeoutMS             *int64
	CompensationTimeoutMS *int64
	TimeoutAt             *time.Time // database clock
	CompensationTimeoutAt *time.Time // database clock; set when compensation begins
	// CompensationExpired is the flag for a passed compensation deadline: the
	// compensation attempt in flight is the last one.
	CompensationExpired bool
	TimedOutAt          *time.Time
	CancelRequestedAt   *time.Time
	SuspendedAt         *time.Time
	CreatedAt           time.Time
	StartedAt           *time.Time
	CompletedAt         *time.Time // set at any end
	UpdatedAt           time.Time
}

// Deadline is the deadline of the current phase on the database's clock, nil if it has none.
func (s *Saga) Deadline() *time.Time { return *s.phaseDeadline() }

// phaseDeadline is where Deadline is kept, to be set.
func (s *Saga) phaseDeadline() **time.Time {
	if s.State.Forward() {
		return &s.TimeoutAt
	}
	return &s.CompensationTimeoutAt
}

// Place is the saga's position in a list.
func (s *Saga) Place() page.TimeID { return page.TimeID{At: s.CreatedAt, ID: s.ID} }

// ErrorMessage is seed 1's error_message, "" if the saga has no error.
func (s *Saga) ErrorMessage() string {
	if s.Error == nil {
		return ""
	}
	return s.Error.Message
}
