// Package cache is seed 4's Cache (GetAll, GetById, Put, Remove, SetCache, VersionConflictError, by default an
// InMemoryCache), which seed 4 requires and nothing else in Skald uses. It is a façade over the rules and
// stores of the API and the engine (decision 0027), and stays this small: features belong in the stores.
package cache

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/tenant"
)

// Cache is safe for concurrent use. Every method sees only the sagas of the tenant in ctx (WithTenant). GetAll,
// GetById and Remove log an outage and return "none"; callers that must distinguish the two use the store.
type Cache interface {
	// GetAll returns the active and compensating sagas, newest first.
	GetAll(ctx context.Context) []Saga
	// GetById returns a saga; false when the tenant has none with this id.
	GetById(ctx context.Context, id uuid.UUID) (Saga, bool) //nolint:revive // the seed's name
	// Put adds a saga whose Version is 0, durably, for the engine to run. One with another Version is changed:
	// Status from Active to Compensating, or TimeoutAt; the rest is the engine's. A taken id, or a saga that is no
	// longer at this version, is a *VersionConflictError, and nothing is written.
	Put(ctx context.Context, s Saga) error
	// Remove completes a saga if an operator could force that; it returns true if the saga is
	// completed now.
	Remove(ctx context.Context, id uuid.UUID) bool
}

// Status is seed 4's term for the state of a saga.
type Status string

// Statuses of seed 4. A saga that was compensated is completed.
const (
	Active       Status = "active"
	Compensating Status = "compensating"
	Completed    Status = "completed"
	Failed       Status = "failed"
)

// Saga is seed 4's row (section sagas). Put takes the tenant from its context.
type Saga struct {
	TransactionID         uuid.UUID
	Tenant                tenant.Tenant
	SagaType, InitiatedBy string
	Status                Status
	Data                  Data
	Version               int64 // 0: not stored yet
	CreatedAt, UpdatedAt  time.Time
	TimeoutAt             *time.Time // nil: no deadline
}

// Data is seed 4's saga_data: the saga's model. Steps are in the order in which they began.
type Data struct {
	Workflow    Workflow
	Payload     json.RawMessage
	CurrentStep int
	Steps       []saga.StepLog
}

// Workflow names the definition of a saga. Version 0 in Put: the latest.
type Workflow struct {
	Name    string
	Version int
}

// VersionConflictError is the error of a Put that lost a race. Version 0: no saga.
type VersionConflictError struct {
	ID               uuid.UUID
	Expected, Actual int64
}

func (e *VersionConflictError) Error() string {
	return fmt.Sprintf("saga %s is at version %d, not %d", e.ID, e.Actual, e.Expected)
}

type tenantKey struct{}

// WithTenant returns a context whose cache calls are for tenant t.
func WithTenant(ctx context.Context, t tenant.Tenant) context.Context {
	return context.WithValue(ctx, tenantKey{}, t)
}
