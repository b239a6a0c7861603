package jobrun

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

// CheckEmit checks the Kafka topics to which a definition's events are published. refuse returns
// the reason why a topic is refused, or "". Fault: Invalid (CodeInvalid).
func (s *Spec) CheckEmit(refuse func(topic string) string) error {
	var w mistakes
	for i, e := range s.Emit {
		if why := refuse(e.Topic); why != "" {
			w.Add(fmt.Sprintf("/emit/%d/topic", i), "refused", "%s", why)
		}
	}
	return w.fault()
}

// Outgoing is an event to be published to a topic.
type Outgoing struct {
	Event     PublishedEvent
	Topic     string
	Key       string // events with the same key keep their order
	CreatedAt time.Time
}

// RecordKey returns the record key of an event that r emits.
func (r *Run) RecordKey(e *NewEvent) string {
	return cmp.Or(e.CorrelationID, r.RootRunID.String())
}

// RefusedEvent is an event that a topic refuses permanently, and the dead letter that it becomes.
type RefusedEvent struct {
	ID     uuid.UUID
	Why    string
	Letter dlq.Letter
}

// Outbox holds the events that are to be published to topics. The events of a run are written in
// the same transaction as its outcome.
type Outbox interface {
	// Unsent returns up to limit unsent events. If an event was emitted after another one was
	// committed, it follows that one.
	Unsent(ctx context.Context, limit int) ([]Outgoing, error)
	// Sent durably records which events the brokers have acknowledged, and stores the letters of
	// the events that were refused permanently. If the publication's term is over, it returns false
	// and writes nothing.
	Sent(ctx context.Context, publication string, epoch int64, sent []uuid.UUID, refused []RefusedEvent) (bool, error)
}

// Unpublished returns the dead letter of an event that its topic refuses. Retrying the letter sends
// the same record. Because the letter is PERMANENT, it waits for an operator.
func Unpublished(o *Outgoing, record dlq.Content, why string, id uuid.UUID, m dlq.Moment) RefusedEvent {
	l := dlq.Letter{
		TenantID: o.Event.TenantID, Source: dlq.FromJob, OriginalTopic: o.Topic, Content: record,
		Failure: dlq.Failure{
			Message: dlq.Storable(fmt.Sprintf("event %s (%s) was not published: %s", o.Event.ID, o.Event.Type, why), dlq.MaxError),
			Type:    "EVENT_NOT_PUBLISHED", Class: dlq.Permanent,
		},
		CorrelationID: o.Event.CorrelationID, MaxRetries: dlq.DefaultPolicy.MaxRetries,
		Target: dlq.Target{Kind: dlq.ToKafka, Topic: o.Topic},
	}
	return RefusedEvent{ID: o.Event.ID, Why: why, Letter: dlq.New(l, id, &dlq.DefaultPolicy, m)}
}
