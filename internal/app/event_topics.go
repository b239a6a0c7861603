package app

import (
	"slices"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/event/publication"
	"github.com/skald-saga/skald/internal/kafka"
)

// refusedTopics returns a function that returns why events of job runs must not be published to a
// topic; nil without brokers. If Skald published to a topic that it also reads, it would consume
// its own events or misinterpret them.
func refusedTopics(cfg config.Config) (func(topic string) string, error) {
	if len(cfg.Kafka.Brokers) == 0 {
		return nil, nil //nolint:nilnil // there is no Kafka
	}
	dead, err := deadTopics(cfg)
	if err != nil {
		return nil, err
	}
	sources := cfg.Kafka.Sources()
	return func(topic string) string {
		switch {
		case dead.Forbidden(topic):
			return "is a dead-letter topic (ingest.topics): the events would become dead letters"
		case slices.ContainsFunc(sources, func(s config.Source) bool { return s.Topic == topic }):
			return "is one of kafka.source_topics: the events would come back. Emitted events trigger job definitions even without this topic"
		case topic == cfg.Kafka.EventTopic:
			return "is kafka.event_topic, which is for audit events"
		}
		return ""
	}, nil
}

// newOutbox returns the configuration for publishing the events that job runs emit to Kafka topics,
// nil without brokers.
func (n *node) newOutbox() (*publication.Config, error) {
	if len(n.cfg.Kafka.Brokers) == 0 || n.jobStores == nil {
		return nil, nil //nolint:nilnil // there is no Kafka
	}
	refuse, err := refusedTopics(n.cfg)
	if err != nil {
		return nil, err
	}
	broker := kafka.Config{Connection: brokers(n.cfg)}
	return &publication.Config{
		Name:     "kafka:emitted",
		Node:     n.name,
		Store:    n.publications,
		Outbox:   n.jobStores.outbox,
		Refuse:   refuse,
		Open:     broker.Open,
		Now:      n.now,
		NewID:    newID,
		Log:      n.opt.Log,
		Lease:    n.cfg.Engine.LeaseTTL,
		Observer: n.metrics.EmittedEvents(),
	}, broker.Check()
}
