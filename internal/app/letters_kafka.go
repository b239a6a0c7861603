package app

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/targets"
	"github.com/skald-saga/skald/internal/kafka"
)

// deadTopics returns the pattern of topics that ingestion reads; none when it is off.
func deadTopics(cfg config.Config) (kafka.Pattern, error) {
	return kafka.NewPattern(cfg.Ingest.Topics, cfg.Ingest.Exclude)
}

// newIngest returns the configuration of ingestion from Kafka, nil when it is off.
func (n *node) newIngest(store kafka.Arrivals) (*kafka.IngestConfig, error) {
	in, m := n.cfg.Ingest, n.metrics
	if in.Topics == "" || len(n.cfg.Kafka.Brokers) == 0 || store == nil || !n.cfg.Has(config.RoleIngest) {
		return nil, nil //nolint:nilnil // it is off
	}
	tenant := n.cfg.Tenant.DefaultID
	if in.Tenant != "" {
		var err error
		if tenant, err = uuid.Parse(in.Tenant); err != nil {
			return nil, fmt.Errorf("ingest.tenant: %w", err)
		}
	}
	cfg := &kafka.IngestConfig{
		Connection: brokers(n.cfg),
		Topics:     in.Topics,
		Exclude:    in.Exclude,
		Group:      in.Group,
		Member:     n.name,
		Latest:     in.Start == "latest",
		Backlog:    in.Backlog == "retry",
		Intake:     dlq.Intake{Tenant: tenant, Suffixes: in.Suffixes, Prefixes: in.Prefixes},
		Store:      store,
		NewID:      newID,
		Now:        n.now,
		Log:        n.opt.Log,
		Batch:      in.Batch,
		MaxBytes:   int32(in.MaxBytes), //nolint:gosec // validated
		Observer: kafka.IngestObserver{
			Stored: m.Ingested, Refused: m.IngestReduced, Failed: m.IngestFailed, Paused: m.IngestPaused, Lag: m.IngestLag,
			Held: m.IngestHeld, Topics: m.IngestTopics, Round: func() { m.Loop("ingest") },
		},
	}
	return cfg, cfg.Check()
}

// newKafkaDriver returns the driver of letters to Kafka, nil without brokers.
func (n *node) newKafkaDriver() (*targets.Kafka, error) {
	if len(n.cfg.Kafka.Brokers) == 0 {
		return nil, nil //nolint:nilnil // without brokers there is no driver
	}
	topics, err := deadTopics(n.cfg)
	if err != nil {
		return nil, err
	}
	return targets.KafkaConfig{
		Connection: brokers(n.cfg), Forbidden: topics.Forbidden, CreateTopics: n.cfg.Ingest.AllowTopicCreation, Now: n.now,
	}.Open()
}
