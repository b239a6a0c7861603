package sagabulk

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
)

// Store is bulk operations on sagas. A tenant sees only its own.
type Store interface {
	// Count returns how many sagas a bulk would be for if it were requested now.
	Count(ctx context.Context, b Bulk) (int64, error)
	// Create stores one that is for the sagas that exist now; of an id that is there, the
	// one that is (created false).
	Create(ctx context.Context, b Bulk, by operator.Action) (stored Bulk, created bool, err error)
	// Get returns one. Fault: NotFound.
	Get(ctx context.Context, tenant, id uuid.UUID) (Bulk, error)
	// List lists them, newest first; of an empty state all.
	List(ctx context.Context, tenant uuid.UUID, state bulk.State, p page.ByTime) (page.Of[Bulk], error)
	// Items lists the sagas that were dealt with, by position; of an empty outcome all.
	Items(ctx context.Context, tenant, id uuid.UUID, o Outcome, p page.Request[int64]) (page.Of[Item], error)
	// SetRate changes the rate if the version is still was; 0: whatever it is. Faults:
	// NotFound; Precondition (CodeStale); Conflict.
	SetRate(ctx context.Context, tenant, id uuid.UUID, was int64, rate float64, by operator.Action) (Bulk, error)
	// Move applies a verb of a person to one. Faults: NotFound; Conflict.
	Move(ctx context.Context, tenant, id uuid.UUID, on bulk.Verb, by operator.Action) (Bulk, error)
}

// NotFound is the fault of a bulk that is not there.
func NotFound() error {
	return fault.New(fault.NotFound, CodeNotFound, "there is no such bulk operation on sagas")
}
