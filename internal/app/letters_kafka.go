package app

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/targets"
	"github.com/skald-saga/skald/internal/kafka"
)

// deadTopics returns the pattern of the topics to ingest, which matches none if ingestion is off.
func deadTopics(cfg config.Config) (kafka.Pattern, error) {
	return kafka.NewPattern(cfg.Ingest.Topics, cfg.Ingest.Exclude)
}

// newIngest returns the configuration of ingestion from Kafka, nil if it is off.
func (n *node) newIngest(store kafka.Arrivals) (*kafka.IngestConfig, error) {
	in := n.cfg.Ingest
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
		Observer:   n.metrics.Ingest(),
	}
	return cfg, cfg.Check()
}

// newSources returns the configuration of event sources in Kafka, nil if there are none.
func (n *node) newSources(letters kafka.Arrivals) (*kafka.IngestConfig, error) {
	k := n.cfg.Kafka
	if len(k.SourceTopics) == 0 || letters == nil || n.jobStores == nil || !n.cfg.Has(config.RoleIngest) {
		return nil, nil //nolint:nilnil // it is off
	}
	tenants, names := map[string]uuid.UUID{}, []string{}
	for _, s := range k.Sources() {
		if tenants[s.Topic] = s.Tenant; s.Tenant == uuid.Nil {
			tenants[s.Topic] = n.cfg.Tenant.DefaultID
		}
		names = append(names, regexp.QuoteMeta(s.Topic))
	}
	slices.Sort(names) // the resulting expression identifies the set of topics
	cfg := &kafka.IngestConfig{
		Connection: brokers(n.cfg),
		Topics:     "^(?:" + strings.Join(names, "|") + ")$",
		Group:      k.SourceGroup,
		Member:     n.name,
		Store:      letters,
		Sources:    &kafka.Sources{Tenants: tenants, Earliest: k.SourceStart == "earliest", Store: n.jobStores.records},
		NewID:      newID,
		Now:        n.now,
		Log:        n.opt.Log.With(slog.String("group", k.SourceGroup)),
		Batch:      n.cfg.Ingest.Batch,
		MaxBytes:   int32(n.cfg.Ingest.MaxBytes), //nolint:gosec // validated
		Observer:   n.metrics.Sources(),
	}
	return cfg, cfg.Check()
}

// newKafkaDriver returns the driver that retries letters to Kafka, nil without brokers.
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

// brokers returns the settings of all Kafka connections.
func brokers(cfg config.Config) kafka.Connection {
	k := cfg.Kafka
	return kafka.Connection{
		Brokers: k.Brokers, ClientID: cfg.App.Name, TLS: k.TLS, CAFile: k.CAFile,
		SASL: k.SASL, User: k.SASLUser, Password: string(k.SASLPassword),
	}
}
