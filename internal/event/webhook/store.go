package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/page"
)

// Store stores subscriptions. A tenant sees only its own; others do not exist for it (NotFound,
// DeliveryNotFound). The methods document their faults; any other error is an outage, after which
// the outcome of a write is unknown. Implementations are safe for concurrent use.
type Store interface {
	// Create stores a subscription. It gets every event of its tenant that is committed from now on
	// or, with fromBeginning, all events. Fault: Conflict with CodeLimit if the tenant has
	// MaxPerTenant subscriptions. Simultaneous creates may slightly exceed that limit.
	Create(ctx context.Context, s Subscription, fromBeginning bool) error
	// Get returns one subscription. Fault: NotFound.
	Get(ctx context.Context, tenant, id uuid.UUID) (Subscription, error)
	// List returns the subscriptions of a tenant with their backlogs, oldest first.
	List(ctx context.Context, tenant uuid.UUID, f Filter) (page.Of[Listed], error)
	// Replace stores s if the stored version is s.Version-1. With skip, past events are skipped
	// and pending deliveries become Discarded. Faults: NotFound, Stale.
	Replace(ctx context.Context, s Subscription, skip bool) error
	// Delete removes a subscription and its deliveries; version 0 means any version. Faults:
	// NotFound, Stale.
	Delete(ctx context.Context, tenant, id uuid.UUID, version int64) error
}

// Log stores the deliveries that users see. Otherwise it is like Store.
type Log interface {
	// Add stores a delivery, which must be Pending. Fault: NotFound.
	Add(ctx context.Context, d Delivery) error
	// Delivery returns one delivery. Faults: NotFound, DeliveryNotFound.
	Delivery(ctx context.Context, tenant, webhookID, id uuid.UUID) (Delivery, error)
	// Deliveries returns a page of deliveries, newest first, without Body. Fault: NotFound.
	Deliveries(ctx context.Context, tenant, webhookID uuid.UUID, f Filter) (page.Of[Delivery], error)
	// Redeliver applies Redeliver to one delivery and returns it. Faults:
	// NotFound, DeliveryNotFound.
	Redeliver(ctx context.Context, tenant, webhookID, id uuid.UUID, m Moment) (Delivery, error)
	// RedeliverFailed applies Redeliver to Failed deliveries that were created at or after since,
	// oldest first, up to MaxRedeliver of them. more reports whether there are others. Fault:
	// NotFound.
	RedeliverFailed(
		ctx context.Context,
		tenant, webhookID uuid.UUID,
		since time.Time,
		m Moment,
	) (count int, more bool, err error)
	// Redeliverable returns the deliveries that RedeliverFailed would redeliver, without their content, and whether
	// there are others. Fault: NotFound.
	Redeliverable(
		ctx context.Context,
		tenant, webhookID uuid.UUID,
		since time.Time,
	) (all []Delivery, more bool, err error)
	// Letters counts the dead letters of deliveries by their status.
	Letters(ctx context.Context, tenant uuid.UUID, of []Delivery) (map[dlq.Status]int64, error)
}

// Queue stores the deliveries of all tenants, for the loop. Leases use the store's clock; now is
// the caller's time and decides which deliveries are due.
type Queue interface {
	// Ready returns the enabled subscriptions for which there are deliveries to create or to send.
	Ready(ctx context.Context, now time.Time) ([]Work, error)
	// Enqueue stores new deliveries and moves the cursor atomically. If the cursor is no longer at
	// from, or the subscription is no longer enabled in this version, it does neither and returns
	// false. Therefore each event becomes a delivery only once, however many nodes read the feed.
	Enqueue(ctx context.Context, s *Subscription, from, to trail.Position, deliveries []Delivery) (bool, error)
	// Claim returns up to limit pending deliveries that are due, oldest first, each with its
	// Attempt begun. No other node gets them until the lease expires. If the subscription is no
	// longer enabled in this version, it returns none.
	Claim(ctx context.Context, s *Subscription, now time.Time, lease time.Duration, limit int) ([]Delivery, error)
	// Settle applies the rule of the same name to a claimed delivery and its subscription, and
	// stores the result. If there is a dead-letter queue, this includes the update of the
	// delivery's dead letter (LetterUpdate). If a later attempt has begun or the delivery was
	// deleted, nothing is written and stored is false.
	Settle(ctx context.Context, d *Delivery, o Outcome, p Policy, m Moment) (r Result, stored bool, err error)
	// Expire deletes deliveries that have ended and were created before a given time, and returns
	// how many. A failed delivery is kept as long as a retry of its dead letter may send it again.
	Expire(ctx context.Context, before time.Time) (int64, error)
	// Backlog counts the pending deliveries of enabled subscriptions. It also returns since when
	// the oldest unsent event of one of them has been waiting: since the creation of its delivery,
	// or since it happened, if the feed has not been read that far. Zero means that none waits.
	Backlog(ctx context.Context) (pending int64, oldest time.Time, err error)
}

// Listed is a subscription with its backlog.
type Listed struct {
	Subscription
	Pending int64      // pending deliveries, limited by MaxPending
	Oldest  *time.Time // when the oldest of them was created; nil if there is none
}

// Work is a subscription for which there are deliveries to create or to send.
type Work struct {
	Subscription
	Cursor    trail.Position // how far its feed has been read
	FeedReady bool           // there are more events, and there is room for more deliveries
	Due       bool           // deliveries are due
}

// Filter selects subscriptions or deliveries; zero fields do not restrict.
type Filter struct {
	Status                  Status // of deliveries
	page.Request[uuid.UUID]        // the cursor is an id
}
