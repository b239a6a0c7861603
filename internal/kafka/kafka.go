// Package kafka is the connection to Kafka brokers.
package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/skald-saga/skald/internal/publication"
)

// Config says how the brokers are reached. Brokers and Topic are required.
type Config struct {
	Brokers  []string // host:port, some of the cluster's
	Topic    string
	ClientID string
	TLS      bool
	CAFile   string // CA certificates to verify the brokers with; "": the system's
	SASL     string // "", plain, scram-sha-256 or scram-sha-512
	User     string
	Password string
}

// options checks the configuration and returns the client's options. It does
// not connect.
func (c Config) options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...), kgo.ClientID(c.ClientID), kgo.DefaultProduceTopic(c.Topic),
		// Idempotent and acknowledged by every replica in sync: the client's
		// defaults, written out because the promise rests on them.
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // by key, as Kafka's own clients do it
		kgo.ProducerLinger(0),
		kgo.AllowAutoTopicCreation(),
		kgo.UnknownTopicRetries(4), // the broker may be creating it
		kgo.DialTimeout(10 * time.Second),
		kgo.MetadataMinAge(500 * time.Millisecond), // a retry waits for it; 5 s is long when a leader has moved
	}
	if c.TLS {
		cfg := &tls.Config{MinVersion: tls.VersionTLS12}
		if c.CAFile != "" {
			pem, err := os.ReadFile(c.CAFile)
			if err != nil {
				return nil, fmt.Errorf("kafka: read the CA certificates: %w", err)
			}
			if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("kafka: %s holds no certificates", c.CAFile)
			}
		}
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: cfg}
		opts = append(opts, kgo.Dialer(dialer.DialContext))
	}
	mechanism, err := c.mechanism()
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, err
}

func (c Config) mechanism() (sasl.Mechanism, error) {
	switch {
	case c.SASL == "":
		return nil, nil //nolint:nilnil // none was asked for
	case c.User == "":
		return nil, errors.New("kafka: SASL needs a user")
	}
	switch c.SASL {
	case "plain":
		return plain.Auth{User: c.User, Pass: c.Password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: c.User, Pass: c.Password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: c.User, Pass: c.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("kafka: there is no SASL mechanism %q", c.SASL)
}

// Check returns what is wrong with the configuration, without connecting.
func (c Config) Check() error {
	opts, err := c.options()
	if err != nil {
		return err
	}
	return kgo.ValidateOpts(opts...)
}

// Open returns a producer. It connects when something is sent.
func (c Config) Open() (publication.Producer, error) {
	opts, err := c.options()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return &producer{client: client}, nil
}

type producer struct {
	client  *kgo.Client
	reached bool // a broker has answered once; only Send looks, and one at a time
	closed  sync.Once
}

// Close gives up the connections and whatever is in flight.
func (p *producer) Close() { p.closed.Do(p.client.Close) }

// Send implements publication.Producer. The client retries what may be retried
// by itself, in order, for as long as ctx lasts: an idempotent producer cannot
// take back what it may have sent, so the end of ctx closes the client.
func (p *producer) Send(ctx context.Context, messages []publication.Message) error {
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		records[i] = &kgo.Record{Key: m.Key, Value: m.Value, Timestamp: m.At}
		for _, h := range m.Headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
		}
	}
	// Producing keeps trying without a word; asking first tells what is wrong.
	if !p.reached {
		if err := p.client.Ping(ctx); err != nil {
			return fmt.Errorf("kafka: reach a broker: %w", err)
		}
		p.reached = true
	}
	stop := context.AfterFunc(ctx, p.Close)
	defer stop()
	if err := p.client.ProduceSync(context.WithoutCancel(ctx), records...).FirstErr(); err != nil {
		return fmt.Errorf("kafka: produce: %w", errors.Join(ctx.Err(), err))
	}
	return nil
}
