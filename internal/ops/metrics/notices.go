package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skald-saga/skald/internal/event/delivery"
	"github.com/skald-saga/skald/internal/event/publication"
)

// notices holds the metrics of events on their way to webhooks and Kafka.
type notices struct {
	attempts  *prometheus.CounterVec
	disabled  prometheus.Counter
	pending   prometheus.Gauge
	age       prometheus.Gauge
	published prometheus.Counter
	failures  prometheus.Counter
	lag       prometheus.Gauge
	leader    prometheus.Gauge
}

func newNotices(
	counter func(name, help string, labels ...string) *prometheus.CounterVec,
	gauge func(name, help string, labels ...string) *prometheus.GaugeVec,
) *notices {
	return &notices{
		attempts: counter(
			"skald_webhook_attempts_total",
			"Attempts to deliver to webhooks, by result: delivered, retried, failed (not retried) or abandoned.",
			"result",
		),
		disabled: counter(
			"skald_webhooks_disabled_total",
			"Webhooks that this node disabled because their endpoint failed for too long.",
		).WithLabelValues(),
		pending: gauge("skald_webhook_deliveries_pending", "Pending deliveries of enabled webhooks.").WithLabelValues(),
		age:     gauge("skald_webhook_lag_seconds", "Age of the oldest event that an enabled webhook has not received, because the feed holds it back or its delivery is pending.").WithLabelValues(),
		published: counter(
			"skald_kafka_events_published_total",
			"Audit events that this node published to Kafka.",
		).WithLabelValues(),
		failures: counter("skald_kafka_publish_failures_total", "Batches that Kafka rejected.").WithLabelValues(),
		lag: gauge(
			"skald_kafka_lag_seconds",
			"Age of the oldest unpublished event, including events that the feed holds back; 0 on nodes that do not publish.",
		).WithLabelValues(),
		leader: gauge("skald_kafka_leader", "1 on the node that publishes.").WithLabelValues(),
	}
}

// emitted holds the metrics of events of job runs on their way to Kafka topics.
type emitted struct {
	published, refused, failures prometheus.Counter
	lag, leader                  prometheus.Gauge
}

func newEmitted(
	counter func(name, help string, labels ...string) *prometheus.CounterVec,
	gauge func(name, help string, labels ...string) *prometheus.GaugeVec,
) *emitted {
	return &emitted{
		published: counter(
			"skald_kafka_emitted_events_published_total",
			"Events of job runs that this node published to Kafka.",
		).WithLabelValues(),
		refused: counter(
			"skald_kafka_emitted_events_refused_total",
			"Events of job runs that were rejected by their topic and became dead letters.",
		).WithLabelValues(),
		failures: counter("skald_kafka_emitted_failures_total", "Batches that were not acknowledged; they are sent again.").WithLabelValues(),
		lag: gauge(
			"skald_kafka_emitted_lag_seconds",
			"Age of the oldest unpublished event of a job run; 0 on nodes that do not publish.",
		).WithLabelValues(),
		leader: gauge("skald_kafka_emitted_leader", "1 on the node that publishes events of job runs.").WithLabelValues(),
	}
}

// Webhooks returns the observer for the delivery of events to webhooks.
func (m *Metrics) Webhooks() delivery.Observer {
	n := m.notices
	return delivery.Observer{
		Attempted: func(result string) { n.attempts.WithLabelValues(result).Inc() },
		Disabled:  n.disabled.Inc,
		Backlog: func(pending int64, oldest time.Duration) {
			n.pending.Set(float64(pending))
			n.age.Set(oldest.Seconds())
		},
		Round: func() { m.Loop("webhooks") },
	}
}

// AuditTopic returns the observer for the publication of audit events to Kafka.
func (m *Metrics) AuditTopic() publication.Observer {
	n := m.notices
	return publication.Observer{
		Leading:   func(leader bool) { set(n.leader, leader) },
		Published: func(events int) { n.published.Add(float64(events)) },
		Failed:    n.failures.Inc,
		Lag:       func(age time.Duration) { n.lag.Set(age.Seconds()) },
	}
}

// EmittedEvents returns the observer for the publication of events of job runs to Kafka.
func (m *Metrics) EmittedEvents() publication.Observer {
	e := m.emitted
	return publication.Observer{
		Leading:   func(leader bool) { set(e.leader, leader) },
		Published: func(events int) { e.published.Add(float64(events)) },
		Refused:   e.refused.Inc,
		Failed:    e.failures.Inc,
		Lag:       func(age time.Duration) { e.lag.Set(age.Seconds()) },
	}
}
