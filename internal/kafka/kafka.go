// Package kafka is the connection to Kafka brokers: it publishes events, and reads the
// records of dead-letter topics and of topics whose records start job runs. (Package
// targets drives dead letters back.)
//
// Files, each on top of those before it: ingest_lives, ingest_backlog, connection, pattern,
// ingest, ingest_share, ingest_store, ingest_begin, ingest_events, kafka.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-saga/skald/internal/event/publication"
)

// Config of the publication of events. Topic is required.
type Config struct {
	Connection
	Topic string
}

// options checks the configuration and returns the client's options. It does
// not connect.
func (c Config) options() ([]kgo.Opt, error) {
	opts, err := c.Connection.options()
	if err != nil {
		return nil, err
	}
	return append(append(opts, Durable()...),
		kgo.DefaultProduceTopic(c.Topic),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // by key, as Kafka's own clients do
		kgo.AllowAutoTopicCreation(),
		kgo.ManualFlushing(), // see produce
	), nil
}

// Check returns what is wrong with the configuration, without connecting.
func (c Config) Check() error {
	opts, err := c.options()
	if err != nil {
		return err
	}
	return kgo.ValidateOpts(opts...)
}

// Open returns a producer. It connects at the first Send.
func (c Config) Open() (publication.Producer, error) {
	opts, err := c.options()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return &producer{client: client, topic: c.Topic}, nil
}

type producer struct {
	client *kgo.Client
	topic  string
	// Used only by Send, one call at a time:
	reached bool // a broker has answered once
	known   bool // the client knows the topic's partitions; until then it does not buffer by partition
	closed  sync.Once
}

// Close closes the connections and abandons whatever is in flight.
func (p *producer) Close() { p.closed.Do(p.client.Close) }

// Send implements publication.Producer. The client itself retries, in order, for as
// long as ctx lasts: an idempotent producer cannot withdraw what it may have sent, so
// the end of ctx closes the client.
func (p *producer) Send(ctx context.Context, messages []publication.Message) error {
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		records[i] = &kgo.Record{Key: m.Key, Value: m.Value, Timestamp: m.At}
		for _, h := range m.Headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
		}
	}
	// Producing retries silently; a ping first returns the error.
	if !p.reached {
		if err := p.client.Ping(ctx); err != nil {
			return fmt.Errorf("kafka: reach a broker: %w", err)
		}
		p.reached = true
	}
	stop := context.AfterFunc(ctx, p.Close)
	defer stop()
	if !p.known && len(records) > 0 {
		if err := p.produce(records[:1]); err != nil {
			return fmt.Errorf("kafka: produce to the topic %s: %w", p.topic, errors.Join(ctx.Err(), err))
		}
		p.known, records = true, records[1:]
	}
	if err := p.produce(records); err != nil {
		return fmt.Errorf("kafka: produce to the topic %s: %w", p.topic, errors.Join(ctx.Err(), err))
	}
	return nil
}

// produce returns nil when the broker has stored the records. They are all buffered
// before the first is sent: when the broker refuses some for good, the client drops what
// is buffered for their partition after them, but it would send what is added later, and
// the first copies would be out of order.
func (p *producer) produce(records []*kgo.Record) error {
	var refused kgo.FirstErrPromise
	for _, r := range records {
		p.client.Produce(context.Background(), r, refused.Promise())
	}
	if err := p.client.Flush(context.Background()); err != nil {
		return err
	}
	return refused.Err()
}
