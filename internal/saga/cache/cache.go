// Package cache is the interface to sagas that seed 4 defines: a small interface
// behind which a service keeps its sagas, in memory until SetCache sets another cache.
// It is a façade over the same rules and stores as everything else, so the API and the
// engine see what it writes.
package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/tenant"
)

// Cache is seed 4's interface (section Cache Interface). Every method sees only the
// sagas of the tenant in ctx (WithTenant), and none if ctx has no tenant.
// Implementations are safe for concurrent use.
type Cache interface {
	// GetAll returns the tenant's active and compensating sagas, newest first.
	// An outage is logged and looks like "none": callers that must distinguish the
	// two use the store.
	GetAll(ctx context.Context) []Saga
	// GetById returns a saga; false when the tenant has none with this id.
	GetById(ctx context.Context, id uuid.UUID) (Saga, bool) //nolint:revive // the seed's name
	// Put adds a saga whose Version is 0, durably before it returns; the engine then
	// runs it. If its id is taken, the error is a *VersionConflictError. A saga with
	// another Version is changed if that is still its version; otherwise the error is
	// a *VersionConflictError and nothing is written. Status may change from Active to
	// Compensating, and TimeoutAt may move; callers can change nothing else.
	Put(ctx context.Context, s Saga) error
	// Remove marks a saga as completed (soft delete). It returns true if the tenant
	// has the saga and it is completed now or already was. It works only where an
	// operator could force completion: for a compensating or failed saga it changes
	// nothing and returns false.
	Remove(ctx context.Context, id uuid.UUID) bool
}

// Status is seed 4's term for the state of a saga.
type Status string

// Statuses of seed 4.
const (
	Active       Status = "active"
	Compensating Status = "compensating"
	Completed    Status = "completed" // also when everything was compensated
	Failed       Status = "failed"
)

// Saga is seed 4's row (section sagas).
type Saga struct {
	TransactionID uuid.UUID
	Tenant        tenant.Tenant // Put uses the one in ctx
	SagaType      string        // "": derived from the workflow's name
	InitiatedBy   string
	Status        Status
	Data          Data
	Version       int64 // 0: not stored yet
	CreatedAt     time.Time
	UpdatedAt     time.Time
	TimeoutAt     *time.Time // nil: no deadline
}

// Data is seed 4's saga_data: the saga's model.
type Data struct {
	Workflow    Workflow        `json:"workflow"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	CurrentStep int             `json:"current_step"`
	Steps       []Step          `json:"steps,omitempty"` // what has been done and compensated so far
}

// Workflow names the definition of a saga. Version 0 in Put: the latest.
type Workflow struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// Step is one attempt of one step.
type Step struct {
	Index   int             `json:"index"`
	Name    string          `json:"name"`
	Action  saga.Action     `json:"action"`
	Attempt int             `json:"attempt"`
	Status  saga.LogStatus  `json:"status"`
	Result  json.RawMessage `json:"result,omitempty"`
}

// VersionConflictError is the error of a Put that lost a race: the saga is no longer at
// the version that was read, or the id of a new one is taken.
type VersionConflictError struct {
	ID       uuid.UUID
	Expected int64 // 0: the saga was expected not to exist
	Actual   int64 // 0: the saga is gone, or belongs to another tenant
}

func (e *VersionConflictError) Error() string {
	return fmt.Sprintf("saga %s is at version %d, not %d", e.ID, e.Actual, e.Expected)
}

type tenantKey struct{}

// WithTenant returns a context whose cache calls are for tenant t.
func WithTenant(ctx context.Context, t tenant.Tenant) context.Context {
	return context.WithValue(ctx, tenantKey{}, t)
}

func tenantOf(ctx context.Context) (tenant.Tenant, bool) {
	t, ok := ctx.Value(tenantKey{}).(tenant.Tenant)
	return t, ok
}

var errNoTenant = errors.New("cache: the context has no tenant: see WithTenant")
