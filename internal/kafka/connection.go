package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const dialTimeout = 10 * time.Second

// Connection describes how clients reach the brokers. Brokers is required.
type Connection struct {
	Brokers  []string // host:port of any brokers of the cluster
	ClientID string
	TLS      bool
	CAFile   string // CA certificates for verifying the brokers; "": the system's
	SASL     string // "", plain, scram-sha-256 or scram-sha-512
	User     string
	Password string
}

// options returns the options that all clients share. It does not connect.
func (c Connection) options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...), kgo.ClientID(c.ClientID), kgo.DialTimeout(dialTimeout),
		kgo.MetadataMinAge(500 * time.Millisecond), // the minimum wait of a retry; the default of 5 s is too long
	}
	if c.TLS {
		cfg := &tls.Config{MinVersion: tls.VersionTLS12}
		if c.CAFile != "" {
			pem, err := os.ReadFile(c.CAFile)
			if err != nil {
				return nil, fmt.Errorf("kafka: read the CA certificates: %w", err)
			}
			if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("kafka: %s contains no certificates", c.CAFile)
			}
		}
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: cfg}
		opts = append(opts, kgo.Dialer(dialer.DialContext))
	}
	mechanism, err := c.mechanism()
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, err
}

func (c Connection) mechanism() (sasl.Mechanism, error) {
	switch {
	case c.SASL == "":
		return nil, nil //nolint:nilnil // SASL is off
	case c.User == "":
		return nil, errors.New("kafka: SASL requires a user")
	}
	switch c.SASL {
	case "plain":
		return plain.Auth{User: c.User, Pass: c.Password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: c.User, Pass: c.Password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: c.User, Pass: c.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("kafka: unknown SASL mechanism %q", c.SASL)
}

// Durable returns the options of every producer: it is idempotent, and waits for acknowledgement by
// every in-sync replica. These are the client's defaults, set explicitly because the guarantees
// depend on them.
func Durable() []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.UnknownTopicRetries(4), // the broker may be auto-creating it
	}
}

// NewClient makes a client that connects when it is first used.
func NewClient(c Connection, more ...kgo.Opt) (*kgo.Client, error) {
	opts, err := c.options()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return client, nil
}
