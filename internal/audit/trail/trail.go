// Package trail is the audit trail from the reader's side: the feed of a tenant's events and its
// positions, the seals that make it a hash chain, the findings of a verification, and how far it is
// published. It is pure. Package saga defines the content of events.
package trail

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/saga"
)

// StoredEvent is an audit event as read from the store.
type StoredEvent struct {
	saga.AuditEvent
	Position
	Stored []byte // the digest that was stored with it; saga.AuditEvent.Digest computes the expected value
	// Altered means that the row contains values that no event has, so it was changed from outside.
	// AuditEvent does not show these values completely, and its digest is meaningless.
	Altered bool

	WorkflowName  string // of its saga, live or archived; "" if that no longer exists
	Label         string // the type of a saga with inline steps: what the client called them; "": another saga
	CorrelationID *string
	BusinessKey   *string
	TraceState    *string
	Baggage       *string
}

// Position is a position in a tenant's feed, after the event with that transaction and id. The zero
// Position is before the first event.
type Position struct {
	TxID uint64
	ID   int64 // grows with the time of writing, not with the time of commit
}

// EventFilter selects events; zero fields do not restrict.
type EventFilter struct {
	Types        []eventtype.Type
	SagaID       uuid.UUID
	WorkflowName string // or the label of inline steps
	TraceID      string
	Actor        string
	From         time.Time // inclusive
	To           time.Time // exclusive
}

// Trail reads the audit trail. A tenant sees only its own events.
type Trail interface {
	// Feed returns up to limit events after a position, in the order (TxID, ID). It holds back
	// events that an event of an unfinished transaction could still precede, so that a reader that
	// continues after its last event never misses one (trap X8). end is the position from which to
	// continue, even if nothing matched. If a call returns fewer than limit events, it has reached
	// the end of the feed if end equals after; otherwise it may have stopped after FeedScan events.
	Feed(
		ctx context.Context,
		tenant uuid.UUID,
		after Position,
		f EventFilter,
		limit int,
	) (events []StoredEvent, end Position, err error)
	// Events returns a page of one saga's events, archived or not, in the order in which they
	// happened, or newest first. after is the ID of the last event of the previous page, or 0 for
	// the first page. more reports whether there is a next page. An unknown saga, or a saga of
	// another tenant, has no events.
	Events(
		ctx context.Context,
		tenant, sagaID uuid.UUID,
		f EventFilter,
		newestFirst bool,
		after int64,
		limit int,
	) (events []StoredEvent, more bool, err error)
	// End returns the position after the last event that Feed currently shows.
	End(ctx context.Context, tenant uuid.UUID) (Position, error)
}

// Participant returns the name of the participant if the event concerns a participant and no saga.
// For the event of a saga it returns "".
func (e *StoredEvent) Participant() string {
	if e.SagaID != uuid.Nil {
		return ""
	}
	var of struct {
		Participant string `json:"participant"`
	}
	_ = json.Unmarshal(e.Data, &of) // such an event always has the member
	return of.Participant
}

// FeedScan is the maximum number of events that Trail.Feed reads per call, unless the call's limit
// is higher. Without it, a filter without matches could read a whole year's feed in one call.
const FeedScan = 5000

// Compare orders positions in the order of the feed.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.TxID, o.TxID), cmp.Compare(p.ID, o.ID))
}

// Matches reports whether an event matches the filter.
func (f *EventFilter) Matches(e *StoredEvent) bool {
	return (f.Types == nil || slices.Contains(f.Types, e.Type)) &&
		(f.SagaID == uuid.Nil || f.SagaID == e.SagaID) &&
		(f.WorkflowName == "" || f.WorkflowName == e.WorkflowName || saga.TypeOf(f.WorkflowName) == e.Label) &&
		(f.TraceID == "" || e.TraceID != nil && f.TraceID == *e.TraceID) &&
		(f.Actor == "" || f.Actor == e.Actor) &&
		(f.From.IsZero() || !e.At.Before(f.From)) && (f.To.IsZero() || e.At.Before(f.To))
}
