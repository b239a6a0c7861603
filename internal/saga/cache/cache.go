// Package cache implements seed 4's Cache (GetAll, GetById, Put, Remove, SetCache,
// VersionConflictError, and InMemoryCache as the default). Seed 4 requires it, but nothing else in
// Skald uses it. It is a façade over the rules and stores of the API and the engine (decision
// 0027), and should stay this small: features belong in the stores.
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

// Cache is safe for concurrent use. Every method sees only the sagas of the tenant in ctx
// (WithTenant). On an outage GetAll, GetById and Remove log it and return an empty result; callers
// that must distinguish the two cases use the store.
type Cache interface {
	// GetAll returns the active and compensating sagas, newest first.
	GetAll(ctx context.Context) []Saga
	// GetById returns a saga; false means that the tenant has none with this id.
	GetById(ctx context.Context, id uuid.UUID) (Saga, bool) //nolint:revive // the seed's name
	// Put stores a saga whose Version is 0, durably, for the engine to run. For any other Version
	// it changes a stored saga: Status from Active to Compensating, or TimeoutAt; the engine
	// changes everything else. If the id is taken, or the saga no longer has this version, Put
	// returns a *VersionConflictError and writes nothing.
	Put(ctx context.Context, s Saga) error
	// Remove completes a saga if an operator could force its completion. It returns true if the
	// saga is completed now.
	Remove(ctx context.Context, id uuid.UUID) bool
}

// Status is seed 4's term for the state of a saga.
type Status string

// The statuses of seed 4. A saga that was compensated is completed.
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
	Version               int64 // 0 means not stored yet
	CreatedAt, UpdatedAt  time.Time
	TimeoutAt             *time.Time // nil means no deadline
}

// Data is seed 4's saga_data, the saga's model. Its steps are in the order in which they started.
type Data struct {
	Workflow    Workflow
	Payload     json.RawMessage
	CurrentStep int
	Steps       []saga.StepLog
}

// Workflow names the definition of a saga. In Put, Version 0 means the latest.
type Workflow struct {
	Name    string
	Version int
}

// VersionConflictError is the error of a Put that lost a race. Version 0 means that there is no
// such saga.
type VersionConflictError struct {
	ID               uuid.UUID
	Expected, Actual int64
}

func (e *VersionConflictError) Error() string {
	return fmt.Sprintf("saga %s is at version %d, not %d", e.ID, e.Actual, e.Expected)
}

type tenantKey struct{}

// WithTenant returns a context for cache calls of tenant t.
func WithTenant(ctx context.Context, t tenant.Tenant) context.Context {
	return context.WithValue(ctx, tenantKey{}, t)
}
