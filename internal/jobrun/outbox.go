package jobrun

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

// CheckEmit returns which topics of a definition its events may not be published to:
// refuse says why a topic is refused, "" if it is not. Fault: Invalid (CodeInvalid).
func (s *Spec) CheckEmit(refuse func(topic string) string) error {
	var w mistakes
	for i, e := range s.Emit {
		if why := refuse(e.Topic); why != "" {
			w.Add(fmt.Sprintf("/emit/%d/topic", i), "refused", "%s", why)
		}
	}
	return w.fault()
}

// Outgoing is an event on its way to a topic.
type Outgoing struct {
	Event     PublishedEvent
	Topic     string
	Key       string // those with the same key keep their order
	CreatedAt time.Time
}

// RecordKey is the key of the record of an event that r emits.
func (r *Run) RecordKey(e *NewEvent) string {
	return cmp.Or(e.CorrelationID, r.RootRunID.String())
}

// RefusedEvent is an event that a topic will never take, and the letter that it becomes.
type RefusedEvent struct {
	ID     uuid.UUID
	Why    string
	Letter dlq.Letter
}

// Outbox is the events that are to be published to topics. A run's are written with its
// outcome.
type Outbox interface {
	// Unsent returns up to limit events that are to be sent. If one was emitted after
	// another was committed, it comes later.
	Unsent(ctx context.Context, limit int) ([]Outgoing, error)
	// Sent records, durably, which events the brokers have acknowledged, and stores the letters of
	// those that are refused permanently. False when the term of the publication has ended; nothing is
	// written then.
	Sent(ctx context.Context, publication string, epoch int64, sent []uuid.UUID, refused []RefusedEvent) (bool, error)
}

// Unpublished makes the dead letter of an event that its topic refuses. A retry sends the
// same record; being PERMANENT, it waits for an operator.
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
