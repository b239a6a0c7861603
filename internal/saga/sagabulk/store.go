package sagabulk

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
)

// Store stores bulk operations on sagas. A tenant sees only its own.
type Store interface {
	// Count returns how many sagas a bulk would select if it were requested now.
	Count(ctx context.Context, b Bulk) (int64, error)
	// Create stores a bulk for the sagas that exist now. If its id exists, Create returns the
	// stored bulk, with created false.
	Create(ctx context.Context, b Bulk, by operator.Action) (stored Bulk, created bool, err error)
	// Get returns a bulk. Fault: NotFound.
	Get(ctx context.Context, tenant, id uuid.UUID) (Bulk, error)
	// List returns bulks, newest first. An empty state selects all states.
	List(ctx context.Context, tenant uuid.UUID, state bulk.State, p page.ByTime) (page.Of[Bulk], error)
	// Items returns the processed sagas by position. An empty outcome selects all outcomes.
	Items(ctx context.Context, tenant, id uuid.UUID, o Outcome, p page.Request[int64]) (page.Of[Item], error)
	// SetRate changes the rate if the version is still was; 0 means any version. Faults: NotFound;
	// Precondition (CodeStale); Conflict.
	SetRate(ctx context.Context, tenant, id uuid.UUID, was int64, rate float64, by operator.Action) (Bulk, error)
	// Move applies an operator's verb to a bulk. Faults: NotFound; Conflict.
	Move(ctx context.Context, tenant, id uuid.UUID, on bulk.Verb, by operator.Action) (Bulk, error)
}

// NotFound is the fault for a bulk that does not exist.
func NotFound() error {
	return fault.New(fault.NotFound, CodeNotFound, "there is no such bulk operation on sagas")
}
