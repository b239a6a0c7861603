// Package kafka provides the connection to Kafka brokers. It publishes events, and reads the
// records of dead-letter topics and of topics whose records start job runs. (Package targets sends
// dead letters back.)
//
// Files, each on top of those before it: ingest_lives, ingest_backlog, connection, ingest_lag,
// pattern, ingest, ingest_share, ingest_store, refusals, ingest_begin, ingest_events, kafka.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-saga/skald/internal/event/publication"
)

// Config configures the publication of events.
type Config struct {
	Connection
	// Topic is the topic for messages that do not name one; brokers with topic auto-creation create
	// it. "" means that every message names a topic.
	Topic string
}

// options checks the configuration and returns the client's options. It does
// not connect.
func (c Config) options() ([]kgo.Opt, error) {
	opts, err := c.Connection.options()
	if err != nil {
		return nil, err
	}
	opts = append(append(opts, Durable()...),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // by key, like Kafka's own clients
		kgo.ManualFlushing(), // see produce
	)
	if c.Topic != "" {
		opts = append(opts, kgo.DefaultProduceTopic(c.Topic), kgo.AllowAutoTopicCreation())
	}
	return opts, nil
}

// Check returns what is wrong with the configuration. It does not connect.
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
	return &producer{client: client, topic: c.Topic, known: map[string]bool{}}, nil
}

type producer struct {
	client *kgo.Client
	topic  string // "": messages name their topics
	// The following fields are used only by Send, one call at a time.
	reached bool            // whether a broker has ever answered
	known   map[string]bool // topics whose partitions the client knows; it cannot buffer by partition without them
	closed  sync.Once
}

// Close closes the connections and abandons whatever is in flight.
func (p *producer) Close() { p.closed.Do(p.client.Close) }

// Send implements publication.Producer. The client retries, in order, until ctx ends. An idempotent
// producer cannot withdraw what it may already have sent, so the client is closed when ctx ends.
//
// If a message that names its topic is rejected, the messages that were dropped with it are sent
// again one at a time to find the rejected one, which is abandoned. Messages without a topic must
// keep their order, so nothing is sent after the first error.
func (p *producer) Send(ctx context.Context, messages []publication.Message) error {
	// Producing retries silently, so a ping is sent first to obtain the error.
	if !p.reached {
		if err := p.client.Ping(ctx); err != nil {
			return fmt.Errorf("kafka: reach a broker: %w", err)
		}
		p.reached = true
	}
	stop := context.AfterFunc(ctx, p.Close)
	defer stop()
	errs := make([]error, len(messages))
	var rest, failed []int
	for i := range messages { // the first message of a topic is sent alone
		if topic := messages[i].Topic; p.known[topic] {
			rest = append(rest, i)
		} else {
			p.produce(messages, []int{i}, errs)
			p.known[topic] = true
			if p.topic != "" && errs[i] != nil {
				return p.failure(ctx, errs[i])
			}
		}
	}
	p.produce(messages, rest, errs)
	permanent := false
	for i, err := range errs {
		if err != nil {
			failed, permanent = append(failed, i), permanent || refuses(err)
		}
	}
	switch {
	case len(failed) == 0:
		return nil
	case p.topic != "" || !permanent:
		return p.failure(ctx, errs[failed[0]])
	}
	refused := map[int]error{}
	for _, i := range failed {
		if !MissingTopic(errs[i]) {
			p.produce(messages, []int{i}, errs)
		}
		switch err := errs[i]; {
		case err == nil:
		case refuses(err):
			refused[i] = p.failure(ctx, err)
		default:
			return p.failure(ctx, err)
		}
	}
	if len(refused) > 0 {
		return &publication.Refused{Why: refused}
	}
	return nil
}

// refuses reports whether the broker will never accept a message.
func refuses(err error) bool { return MissingTopic(err) || BatchRefused(err) || Refusal(err) }

func (p *producer) failure(ctx context.Context, err error) error {
	of := ""
	if p.topic != "" {
		of = " to the topic " + p.topic
	}
	return fmt.Errorf("kafka: produce%s: %w", of, errors.Join(ctx.Err(), err))
}

// produce sends the chosen messages and sets the error of each. All of them are buffered before the
// first is sent. If the broker permanently rejects a message, the client drops the messages
// buffered after it for the same partition. It would still send messages added later, so that the
// first copies would be out of order.
func (p *producer) produce(messages []publication.Message, chosen []int, errs []error) {
	if len(chosen) == 0 {
		return
	}
	done := make(chan struct{}, len(chosen))
	for _, i := range chosen {
		m := &messages[i]
		r := &kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Value, Timestamp: m.At}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
		}
		p.client.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
			errs[i] = err
			done <- struct{}{}
		})
	}
	_ = p.client.Flush(context.Background()) // this context does not end, and each record has its own error
	for range chosen {
		<-done
	}
}
