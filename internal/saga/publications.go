package saga

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Publications keeps how far the audit trail of each tenant has been carried
// to a message broker, and which node does that. Leases are set and compared by
// the store's clock. Every error is an outage.
type Publications interface {
	// Lead makes owner the leader of a publication until ttl has passed, unless
	// somebody else leads it: then epoch is 0. Every term has a greater epoch.
	Lead(ctx context.Context, name, owner string, ttl time.Duration) (epoch int64, err error)
	// Renew prolongs the term. False: it has ended, another leader has come.
	Renew(ctx context.Context, name string, epoch int64, ttl time.Duration) (bool, error)
	// Resign ends the term at once, if it has not ended.
	Resign(ctx context.Context, name string, epoch int64) error
	// Unpublished returns the tenants whose feed goes on after what has been
	// published of it; a tenant never published begins at the zero Position.
	Unpublished(ctx context.Context, name string) ([]Unpublished, error)
	// Advance records that everything of a tenant up to a position is published.
	// False, and nothing is written, when the term has ended.
	Advance(ctx context.Context, name string, epoch int64, tenant uuid.UUID, to Position) (bool, error)
}

// Unpublished is a tenant with events that are to be published.
type Unpublished struct {
	TenantID uuid.UUID
	After    Position
	Since    time.Time // of the first of them
}
