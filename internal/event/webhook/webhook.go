// Package webhook contains the rules of webhooks: which webhook gets which event, what the outcome
// of an attempt means, when it is retried, and when an endpoint is disabled. It is pure: time, ids
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

// These are the limits of webhooks.
const (
	MaxPerTenant   = 100  // subscriptions per tenant
	MaxPatterns    = 100  // event types or workflow names per subscription
	MaxURL         = 2048 // bytes
	MaxDescription = 1000 // characters
	// MaxPending is the maximum number of undelivered events of one subscription that are stored as
	// deliveries. Further events stay only in the audit trail, so that an endpoint that is down for
	// days does not fill the table.
	MaxPending = 1000
	// MaxRedeliver is the maximum number of deliveries that one request sends again.
	MaxRedeliver = 1000
	// RotationOverlap is how long a former secret still signs alongside the new one.
	RotationOverlap = 24 * time.Hour
)

// Subscription describes where a tenant's events are sent.
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

// Secret is a key with which deliveries are signed.
type Secret struct {
	Key       []byte
	CreatedAt time.Time
	ExpiresAt *time.Time // nil: valid until it is replaced
}

// Health describes the recent success of an endpoint. It changes without a new Version.
type Health struct {
	FailingSince *time.Time // time of the first failure after the last success; nil: none
	GivenUp      int        // number of consecutive deliveries that gave up
}

// Wants reports whether an event is for the subscription. workflow is the workflow of the event's
// saga, and label is the client's name for inline steps. Both are "" if the saga no longer exists;
// no list of names matches that.
func (s *Subscription) Wants(t eventtype.Type, workflow, label string) bool {
	return (len(s.WorkflowNames) == 0 || slices.ContainsFunc(s.WorkflowNames, func(name string) bool {
		return name == workflow || saga.TypeOf(name) == label
	})) &&
		(len(s.EventTypes) == 0 || slices.ContainsFunc(s.EventTypes, func(p string) bool { return fits(p, string(t)) }))
}

// Keys returns the keys that sign at a given time: the newest one, and an older one that has not
// expired.
func (s *Subscription) Keys(now time.Time) [][]byte {
	var keys [][]byte
	for _, secret := range s.Secrets {
		if secret.ExpiresAt == nil || now.Before(*secret.ExpiresAt) {
			keys = append(keys, secret.Key)
		}
	}
	return keys
}

// Status is the status of a delivery.
type Status string

// A Pending delivery waits for an attempt or is being sent. The other statuses are final unless a
// redelivery is requested.
const (
	Pending   Status = "pending"
	Delivered Status = "delivered"
	Failed    Status = "failed"    // given up
	Discarded Status = "discarded" // skipped when the subscription was enabled for events from then on
)

// Statuses lists all statuses.
var Statuses = []Status{Pending, Delivered, Failed, Discarded}

// Delivery is one event for one endpoint. Its ID is the webhook-id of every attempt, and all
// attempts send exactly the same Body.
type Delivery struct {
	TenantID, WebhookID, ID uuid.UUID
	EventID                 int64 // 0 for a test
	EventType               string
	SagaID                  uuid.UUID // Nil for a test
	Body                    []byte
	Status                  Status
	Attempt                 int // number of attempts begun so far; fences the outcome of each
	RoundStart              int // attempts that do not count: those of former rounds and abandoned ones
	DueAt                   time.Time
	LastAttemptAt           *time.Time
	ResponseStatus          int    // of the last attempt; 0: no response
	Error                   string // of the last attempt; "": none
	CreatedAt               time.Time
	EndedAt                 *time.Time // nil while Pending
}

// IsTest reports whether the delivery is a test of the endpoint. A test is attempted once and does
// not affect the endpoint's health.
func (d *Delivery) IsTest() bool { return d.EventID == 0 }

// fits reports whether a pattern, which is exact or ends in .*, matches a type.
func fits(pattern, t string) bool {
	if prefix, any := strings.CutSuffix(pattern, "*"); any {
		return strings.HasPrefix(t, prefix)
	}
	return pattern == t
}
