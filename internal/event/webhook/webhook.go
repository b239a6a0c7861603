// Package webhook is the rulebook of webhooks: which webhook gets which event, what an
// attempt's outcome means, when it is retried and when an endpoint is disabled. Pure: time, ids
// and jitter are arguments. docs/webhooks.md is the description for users.
package webhook

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/saga"
)

// Bounds.
const (
	MaxPerTenant   = 100  // subscriptions of a tenant
	MaxPatterns    = 100  // event types or workflow names of a subscription
	MaxURL         = 2048 // bytes
	MaxDescription = 1000 // characters
	// MaxPending is how many undelivered events of one subscription are stored as deliveries.
	// Others stay in the audit trail only, so that an endpoint that is down for days does not
	// fill the table.
	MaxPending = 1000
	// MaxRedeliver is the maximum number of deliveries that one request sends again.
	MaxRedeliver = 1000
	// RotationOverlap is how long a former secret still signs alongside the new one.
	RotationOverlap = 24 * time.Hour
)

// Subscription is where a tenant's events are sent.
type Subscription struct {
	TenantID, ID   uuid.UUID
	URL            string
	Description    string
	EventTypes     []string // types, or prefixes such as saga.*; empty: all
	WorkflowNames  []string // empty: all
	Enabled        bool
	DisabledReason string     // "" while enabled
	DisabledAt     *time.Time // nil while enabled
	Secrets        []Secret   // one or two, newest first
	CreatedBy      string
	CreatedAt      time.Time
	UpdatedAt      time.Time
	Version        int64 // grows with every change except those of Health; the ETag
	Health         Health
}

// Secret is a key that deliveries are signed with.
type Secret struct {
	Key       []byte
	CreatedAt time.Time
	ExpiresAt *time.Time // nil: until it is replaced
}

// Health is the recent success of an endpoint. It changes without a new Version.
type Health struct {
	FailingSince *time.Time // of the first failure after the last success; nil: none
	GivenUp      int        // consecutive deliveries that gave up
}

// Wants reports whether an event is for the subscription. workflow is that of the event's saga, label
// what its client called inline steps; both "" if the saga no longer exists, which no list of names
// matches.
func (s *Subscription) Wants(t eventtype.Type, workflow, label string) bool {
	return (len(s.WorkflowNames) == 0 || slices.ContainsFunc(s.WorkflowNames, func(name string) bool {
		return name == workflow || saga.TypeOf(name) == label
	})) &&
		(len(s.EventTypes) == 0 || slices.ContainsFunc(s.EventTypes, func(p string) bool { return fits(p, string(t)) }))
}

// Keys returns the keys that sign at a moment: the newest, and an older one that has
// not expired.
func (s *Subscription) Keys(now time.Time) [][]byte {
	var keys [][]byte
	for _, secret := range s.Secrets {
		if secret.ExpiresAt == nil || now.Before(*secret.ExpiresAt) {
			keys = append(keys, secret.Key)
		}
	}
	return keys
}

// Status of a delivery.
type Status string

// A Pending delivery waits for an attempt or is being sent. The other statuses are
// final until a redelivery is requested.
const (
	Pending   Status = "pending"
	Delivered Status = "delivered"
	Failed    Status = "failed"    // given up
	Discarded Status = "discarded" // skipped when the subscription was enabled from now on
)

// Statuses lists every status.
var Statuses = []Status{Pending, Delivered, Failed, Discarded}

// Delivery is one event for one endpoint. Its ID is the webhook-id of every attempt,
// and Body is byte-equal in all of them.
type Delivery struct {
	TenantID, WebhookID, ID uuid.UUID
	EventID                 int64 // 0: a test
	EventType               string
	SagaID                  uuid.UUID // Nil: a test
	Body                    []byte
	Status                  Status
	Attempt                 int // attempts begun so far; fences the outcome of each
	RoundStart              int // number of attempts that do not count: those of former rounds, and abandoned ones
	DueAt                   time.Time
	LastAttemptAt           *time.Time
	ResponseStatus          int    // of the last attempt; 0: no response
	Error                   string // of the last attempt; "": none
	CreatedAt               time.Time
	EndedAt                 *time.Time // nil while Pending
}

// IsTest reports whether the delivery tests the endpoint: it is attempted once and does not affect
// the endpoint's health.
func (d *Delivery) IsTest() bool { return d.EventID == 0 }

// fits reports whether a pattern, exact or ending in .*, matches a type.
func fits(pattern, t string) bool {
	if prefix, any := strings.CutSuffix(pattern, "*"); any {
		return strings.HasPrefix(t, prefix)
	}
	return pattern == t
}
