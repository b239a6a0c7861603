package saga

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/tenant"
)

// Spec is a client's request for a saga.
type Spec struct {
	ID            uuid.UUID // chosen by the client or the server
	Tenant        tenant.Tenant
	SagaType      string // "" means the first 64 characters of the workflow's name
	Name          *string
	Description   *string
	BusinessKey   *string
	CorrelationID *string
	InitiatedBy   string
	TraceID       *string
	SpanID        *string
	TraceState    *string
	Baggage       *string
	Payload       json.RawMessage // canonical JSON or nil
	Metadata      json.RawMessage // canonical JSON object or nil
	TimeoutMS     int64           // 0 means the definition's timeout, or else the server's default
	RetryPolicy   *retry.Policy   // for steps that set none; nil means the definition's policy
	// TenantInKeys means that the idempotency keys of the saga's calls contain the tenant, as they
	// do in every tenant except the default one.
	TenantInKeys bool
}

// NewSaga is a saga that has not been stored yet.
type NewSaga struct {
	Saga
	// Floating means that the client gave no workflow version. The store then refuses the saga
	// (NotCurrent) unless its version is still the latest.
	Floating bool
	Key      *idempotency.Key
	// Join means that an unfinished saga of the workflow with this business key is returned
	// instead, if there is one (on_conflict: return_existing).
	Join bool
	// Actor and RequestID are those of Moment. They are for the audit trail: the store writes
	// Saga.Begun together with the saga.
	Actor     string
	ActorName string
	RequestID string
}

// New returns the first version of a saga of definition version ver. owner is the node that will
// drive it; if the node has no capacity, owner is nil and any node may claim the saga.
// defaultTimeout applies if neither spec nor the definition has a timeout; 0 means none. CreatedAt
// is now; the store sets TimeoutAt on the database's clock.
func New(spec Spec, def *workflow.Definition, ver int, owner *int64, now time.Time, defaultTimeout time.Duration) Saga {
	s := Saga{
		ID: spec.ID, Tenant: spec.Tenant, SagaType: spec.SagaType,
		WorkflowName: def.Name, WorkflowVersion: ver,
		Name: spec.Name, Description: spec.Description, BusinessKey: spec.BusinessKey,
		CorrelationID: spec.CorrelationID, InitiatedBy: spec.InitiatedBy,
		TraceID: spec.TraceID, SpanID: spec.SpanID, TraceState: spec.TraceState, Baggage: spec.Baggage,
		Payload: spec.Payload, Metadata: spec.Metadata,
		RetryPolicy: spec.RetryPolicy, TenantInKeys: spec.TenantInKeys,
		State: Pending, TotalSteps: len(def.Steps), Version: 1,
		CreatedAt: now, UpdatedAt: now,
	}
	if s.SagaType == "" {
		s.SagaType = TypeOf(def.Name)
	}
	timeout := spec.TimeoutMS
	if timeout == 0 {
		timeout = def.TimeoutMS
	}
	if timeout == 0 {
		timeout = defaultTimeout.Milliseconds()
	}
	if timeout > 0 {
		s.TimeoutMS = &timeout
	}
	if def.CompensationTimeoutMS > 0 {
		s.CompensationTimeoutMS = &def.CompensationTimeoutMS
	}
	if owner == nil {
		s.NextRunAt = &now
		return s
	}
	// The intent is stored with the saga, because the first call follows the commit immediately.
	s.LeaseOwner, s.LeaseEpoch, s.Attempt, s.StartedAt = owner, 1, 1, &now
	return s
}

// InlinePrefix is the prefix of the names of workflows that are created for inline steps. Clients
// cannot register such names. The name that the client gives to the steps becomes the type of the
// saga, unless the client sets a type. Filters by workflow name find it as well.
const InlinePrefix = "inline:"

// TypeOf returns the saga type of a workflow: the first 64 characters of its name, the size of
// seed 4's column.
func TypeOf(workflowName string) string {
	if r := []rune(workflowName); len(r) > 64 {
		return string(r[:64])
	}
	return workflowName
}
