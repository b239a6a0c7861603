package trail

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Publications records how far each tenant's audit trail has been published to a
// message broker, and which node publishes it. Leases are set and compared by the
// store's clock. Every error is an outage.
type Publications interface {
	// Lead makes owner the leader of a publication for ttl, unless it has another leader: epoch
	// is then 0. Every term has a higher epoch than those before.
	Lead(ctx context.Context, name, owner string, ttl time.Duration) (epoch int64, err error)
	// Renew extends the term to ttl from now. It returns false if the term has ended and there
	// may be another leader.
	Renew(ctx context.Context, name string, epoch int64, ttl time.Duration) (bool, error)
	// Resign ends the term immediately, if it has not ended.
	Resign(ctx context.Context, name string, epoch int64) error
	// Unpublished returns the tenants that have events after their last published one;
	// a tenant without published events starts at the zero Position.
	Unpublished(ctx context.Context, name string) ([]Unpublished, error)
	// Advance records, durably, that a tenant's events are published up to a position. It
	// returns false, and writes nothing, if the term has ended.
	Advance(ctx context.Context, name string, epoch int64, tenant uuid.UUID, to Position) (bool, error)
}

// Unpublished is a tenant with events that are to be published.
type Unpublished struct {
	TenantID uuid.UUID
	After    Position
	Since    time.Time // of the first of them
	Held     bool      // the feed holds it back, and what follows: an earlier transaction is open
}
