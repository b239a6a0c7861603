package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
			"Attempts to deliver to webhooks, by result: delivered, retried, failed (given up), abandoned.",
			"result",
		),
		disabled: counter(
			"skald_webhooks_disabled_total",
			"Webhooks that this node disabled because their endpoint failed for too long.",
		).WithLabelValues(),
		pending: gauge("skald_webhook_deliveries_pending", "Pending deliveries of enabled webhooks.").WithLabelValues(),
		age:     gauge("skald_webhook_lag_seconds", "Age of the oldest event that an enabled webhook has not got: one that the feed holds back, or whose delivery is pending.").WithLabelValues(),
		published: counter(
			"skald_kafka_events_published_total",
			"Audit events that this node published to Kafka.",
		).WithLabelValues(),
		failures: counter("skald_kafka_publish_failures_total", "Batches that Kafka rejected.").WithLabelValues(),
		lag: gauge(
			"skald_kafka_lag_seconds",
			"Age of the oldest unpublished event, also one that the feed holds back; 0 on nodes that do not publish.",
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

// Emitted counts events of job runs that Kafka has acknowledged.
func (m *Metrics) Emitted(events int) { m.emitted.published.Add(float64(events)) }

// EmitRefused counts an event that became a dead letter.
func (m *Metrics) EmitRefused() { m.emitted.refused.Inc() }

// EmitFailed counts a batch that was not acknowledged.
func (m *Metrics) EmitFailed() { m.emitted.failures.Inc() }

// EmitLag records the age of the oldest unpublished event.
func (m *Metrics) EmitLag(age time.Duration) { m.emitted.lag.Set(age.Seconds()) }

// EmitLeading records whether this node publishes events of job runs.
func (m *Metrics) EmitLeading(leader bool) { set(m.emitted.leader, leader) }

// WebhookAttempted counts an attempt to deliver.
func (m *Metrics) WebhookAttempted(result string) { m.notices.attempts.WithLabelValues(result).Inc() }

// WebhookDisabled counts a webhook that was disabled after failures.
func (m *Metrics) WebhookDisabled() { m.notices.disabled.Inc() }

// WebhookBacklog records how many deliveries are pending, and the age of the oldest.
func (m *Metrics) WebhookBacklog(pending int64, oldest time.Duration) {
	m.notices.pending.Set(float64(pending))
	m.notices.age.Set(oldest.Seconds())
}

// Published counts events that Kafka has acknowledged.
func (m *Metrics) Published(events int) { m.notices.published.Add(float64(events)) }

// PublishFailed counts a batch that Kafka did not accept.
func (m *Metrics) PublishFailed() { m.notices.failures.Inc() }

// PublishLag records the age of the oldest unpublished event.
func (m *Metrics) PublishLag(age time.Duration) { m.notices.lag.Set(age.Seconds()) }

// PublishLeading records whether this node publishes.
func (m *Metrics) PublishLeading(leader bool) {
	set(m.notices.leader, leader)
}
