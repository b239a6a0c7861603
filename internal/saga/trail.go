package saga

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

// StoredEvent is an audit event as it was read back.
type StoredEvent struct {
	AuditEvent
	Position
	Stored []byte // the digest that was stored with it; AuditEvent.Digest says what it should be
	// Altered: the row holds what no event has, so that somebody else has put it
	// there and AuditEvent shows less than the row. Its digest counts for nothing.
	Altered bool

	WorkflowName  string // of its saga, live or archived; "" when that is gone
	CorrelationID *string
	BusinessKey   *string
}

// Position is a place in the feed of a tenant: after the event of that
// transaction and id. The zero Position is before the first event.
type Position struct {
	TxID uint64
	ID   int64 // grows with the time of writing, not of commit
}

// EventFilter selects events; zero fields do not restrict.
type EventFilter struct {
	Types        []AuditType
	SagaID       uuid.UUID
	WorkflowName string
	TraceID      string
	Actor        string
	From         time.Time // inclusive
	To           time.Time // exclusive
}

// Trail reads the audit trail. A tenant sees only its own events.
type Trail interface {
	// Feed returns up to limit events after a position, in the order (TxID, ID).
	// It leaves out events that one with a smaller position could still come
	// before, because its transaction has not ended: a reader that goes on
	// after the last event it got misses none, ever (trap X8). end is how far
	// it looked: the position to go on from, also when nothing matched. A call
	// that returned fewer than limit has reached the feed's end if end is after;
	// else it may have stopped because it looks at FeedScan events at most.
	Feed(
		ctx context.Context,
		tenant uuid.UUID,
		after Position,
		f EventFilter,
		limit int,
	) (events []StoredEvent, end Position, err error)
	// Events returns a page of one saga's events, archived or not, in the order
	// in which they happened, or newest first. after is the ID of the last event
	// of the page before, 0 for the first page. more: there is a next page.
	// Events of a foreign or unknown saga: none.
	Events(
		ctx context.Context,
		tenant, sagaID uuid.UUID,
		f EventFilter,
		newestFirst bool,
		after int64,
		limit int,
	) (events []StoredEvent, more bool, err error)
	// End returns the position after every event that Feed shows now.
	End(ctx context.Context, tenant uuid.UUID) (Position, error)
}

// FeedScan is how many events Trail.Feed looks at in one call, at most, or the
// call's limit where that is more: a filter that nothing matches must not read
// a feed of a year at once.
const FeedScan = 5000

// Compare orders positions as the feed does.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.TxID, o.TxID), cmp.Compare(p.ID, o.ID))
}

// Common tells whether nearly every saga has an event of the type.
func (t AuditType) Common() bool {
	return t == SagaStarted || t == StepStarted || t == StepFinished || t == SagaCompleted
}

// Matches tells whether an event fits the filter.
func (f *EventFilter) Matches(e *StoredEvent) bool {
	return (f.Types == nil || slices.Contains(f.Types, e.Type)) &&
		(f.SagaID == uuid.Nil || f.SagaID == e.SagaID) &&
		(f.WorkflowName == "" || f.WorkflowName == e.WorkflowName) &&
		(f.TraceID == "" || e.TraceID != nil && f.TraceID == *e.TraceID) &&
		(f.Actor == "" || f.Actor == e.Actor) &&
		(f.From.IsZero() || !e.At.Before(f.From)) && (f.To.IsZero() || e.At.Before(f.To))
}
