// Package cache is seed 4's way to sagas: a small interface behind which a
// service keeps them, in memory until SetCache says otherwise. It is a façade
// over the same rules and stores as everything else, so what it writes is what
// the API and the engine see.
package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// Cache is seed 4's interface (section Cache Interface). Every method sees only
// the sagas of the tenant in ctx (WithTenant); without one there are none.
// Implementations are safe for concurrent use.
type Cache interface {
	// GetAll returns the tenant's active and compensating sagas, newest first.
	// An outage is logged and looks like "none": who must tell the two apart
	// asks the store.
	GetAll(ctx context.Context) []Saga
	// GetById returns a saga; false when the tenant has none of this id.
	GetById(ctx context.Context, id uuid.UUID) (Saga, bool) //nolint:revive // the seed's name
	// Put adds a saga whose Version is 0, durable on return; the engine then
	// runs it. An id that is taken is a *VersionConflictError. One with a
	// Version changes the saga if that is still its version, else it is a
	// *VersionConflictError and nothing is written: Status may go from Active to
	// Compensating, and TimeoutAt may move; nothing else of a saga is the caller's to change.
	Put(ctx context.Context, s Saga) error
	// Remove marks a saga as completed (soft delete); true if the tenant has it
	// and it is completed now, or was. Only where an operator could force its
	// completion: a compensating or failed saga stays, and false is returned.
	Remove(ctx context.Context, id uuid.UUID) bool
}

// Status is seed 4's word for where a saga is.
type Status string

// Statuses of seed 4.
const (
	Active       Status = "active"
	Compensating Status = "compensating"
	Completed    Status = "completed" // also when everything was undone
	Failed       Status = "failed"
)

// Saga is seed 4's row (section sagas).
type Saga struct {
	TransactionID uuid.UUID
	Tenant        saga.Tenant // Put takes the one in ctx
	SagaType      string      // "": from the workflow's name
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
	Steps       []Step          `json:"steps,omitempty"` // what was done and undone so far
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

// VersionConflictError is a Put that lost: the saga is no longer at the version
// that was read, or a new one's id is taken.
type VersionConflictError struct {
	ID       uuid.UUID
	Expected int64 // 0: that there is none
	Actual   int64 // 0: the saga is gone, or belongs to another tenant
}

func (e *VersionConflictError) Error() string {
	return fmt.Sprintf("saga %s is at version %d, not %d", e.ID, e.Actual, e.Expected)
}

type tenantKey struct{}

// WithTenant returns a context whose cache calls are the tenant's.
func WithTenant(ctx context.Context, t saga.Tenant) context.Context {
	return context.WithValue(ctx, tenantKey{}, t)
}

func tenantOf(ctx context.Context) (saga.Tenant, bool) {
	t, ok := ctx.Value(tenantKey{}).(saga.Tenant)
	return t, ok
}

var errNoTenant = errors.New("cache: the context has no tenant: see WithTenant")
