package trail

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Publications records how far each tenant's audit trail has been published to a message broker,
// and which node publishes it. Leases are set and compared by the store's clock. Every error is an
// outage.
type Publications interface {
	// Lead makes owner the leader of a publication for ttl. If it has another leader, epoch is 0.
	// Every term has a higher epoch than all earlier terms.
	Lead(ctx context.Context, name, owner string, ttl time.Duration) (epoch int64, err error)
	// Renew extends the term to ttl from now. It returns false if the term has ended, in which case
	// there may be another leader.
	Renew(ctx context.Context, name string, epoch int64, ttl time.Duration) (bool, error)
	// Resign ends the term immediately, unless it has already ended.
	Resign(ctx context.Context, name string, epoch int64) error
	// Unpublished returns the tenants that have events after their last published one. A tenant
	// without published events starts at the zero Position.
	Unpublished(ctx context.Context, name string) ([]Unpublished, error)
	// Advance durably records that a tenant's events are published up to a position. If the term
	// has ended, it writes nothing and returns false.
	Advance(ctx context.Context, name string, epoch int64, tenant uuid.UUID, to Position) (bool, error)
}

// Unpublished is a tenant with events that are to be published.
type Unpublished struct {
	TenantID uuid.UUID
	After    Position
	Since    time.Time // time of the first of them
	Held     bool      // the feed holds the first event and its successors back, because an earlier transaction is open
}
