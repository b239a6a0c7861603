package publication

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/event/cloudevent"
	"github.com/skald-saga/skald/internal/jobrun"
)

// passOutbox sends one batch of the outbox. An event counts as published when the broker has
// acknowledged it. An event that its topic permanently rejects becomes a dead letter and does not
// block the others.
func (c *Config) passOutbox(ctx context.Context, to Producer, epoch int64) (published int, ours bool, err error) {
	batch, err := c.Outbox.Unsent(ctx, c.Batch)
	if err != nil {
		return 0, true, err
	}
	if len(batch) == 0 {
		c.Observer.Lag(0)
		return 0, true, nil
	}
	c.Observer.Lag(c.Now().Sub(batch[0].CreatedAt))
	var messages []Message
	var sent []*jobrun.Outgoing
	var refused []jobrun.RefusedEvent
	for i := range batch {
		o := &batch[i]
		m, err := emitted(o)
		if err != nil {
			return 0, true, err
		}
		if why := c.Refuse(o.Topic); why != "" { // the configuration may have changed in the meantime
			refused = append(refused, c.refusal(o, &m, o.Topic+" "+why))
			continue
		}
		messages, sent = append(messages, m), append(sent, o)
	}
	var no *Refused
	if len(messages) > 0 {
		send, cancel := context.WithTimeout(ctx, c.Timeout)
		err = to.Send(send, messages)
		cancel()
		if err != nil && !errors.As(err, &no) {
			return 0, true, err
		}
	}
	var ids []uuid.UUID
	for i, o := range sent {
		if no != nil && no.Why[i] != nil {
			refused = append(refused, c.refusal(o, &messages[i], no.Why[i].Error()))
		} else {
			ids = append(ids, o.Event.ID)
		}
	}
	ours, err = c.Outbox.Sent(ctx, c.Name, epoch, ids, refused)
	if err != nil || !ours {
		return 0, ours, err
	}
	c.Observer.Published(len(ids))
	for range refused {
		c.Observer.Refused()
	}
	return len(batch), true, nil
}

// emitted encodes an event of a job run.
func emitted(o *jobrun.Outgoing) (Message, error) {
	doc := cloudevent.Emitted(&o.Event)
	m, err := encode(&doc, o.Key, o.Event.TenantID, doc.Type)
	m.Topic, m.At = o.Topic, doc.Time
	m.Headers = append(m.Headers, Header{"job_run_id", doc.Subject})
	if doc.Correlation != "" {
		m.Headers = append(m.Headers, Header{"correlation_id", doc.Correlation})
	}
	return m, err
}

// refusal returns the dead letter of a rejected message, which contains the same record.
func (c *Config) refusal(o *jobrun.Outgoing, m *Message, why string) jobrun.RefusedEvent {
	record := dlq.Content{Key: m.Key, Payload: m.Value}
	for _, h := range m.Headers {
		record.Headers = append(record.Headers, dlq.Header{Name: h.Name, Value: []byte(h.Value)})
	}
	return jobrun.Unpublished(o, record, why, c.NewID(), dlq.Moment{Now: c.Now()})
}
