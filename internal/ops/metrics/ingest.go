package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// ingest holds the metrics of dead letters read from Kafka.
type ingest struct {
	read     prometheus.Counter
	stored   prometheus.Counter
	batches  prometheus.Counter
	refused  prometheus.Counter
	failures prometheus.Counter
	lag      prometheus.Gauge
	paused   prometheus.Gauge
	held     prometheus.Counter
	topics   *prometheus.GaugeVec
}

func newIngest(
	counter func(name, help string, labels ...string) *prometheus.CounterVec,
	gauge func(name, help string, labels ...string) *prometheus.GaugeVec,
) *ingest {
	return &ingest{
		read: counter(
			"skald_dlq_ingest_records_total",
			"Dead-letter records that this node read and stored.",
		).WithLabelValues(),
		stored: counter(
			"skald_dlq_ingest_letters_total",
			"Dead-letter records that were stored for the first time.",
		).WithLabelValues(),
		batches: counter("skald_dlq_ingest_batches_total", "Batches of dead-letter records stored.").WithLabelValues(),
		refused: counter(
			"skald_dlq_ingest_reduced_total",
			"Records that PostgreSQL rejected as received and that were stored in a reduced form.",
		).WithLabelValues(),
		failures: counter(
			"skald_dlq_ingest_failures_total",
			"Failed fetches, batches and offset commits; they are retried.",
		).WithLabelValues(),
		lag: gauge(
			"skald_dlq_ingest_lag_records",
			"Unread offsets in the partitions of this node, up to their ends, including those behind open transactions.",
		).WithLabelValues(),
		paused: gauge(
			"skald_dlq_ingest_paused",
			"1 while this node waits for the database to store what it has read.",
		).WithLabelValues(),
		held: counter(
			"skald_dlq_ingest_held_total",
			"Records whose dead letters are held because they were in the topic before it was first read.",
		).WithLabelValues(),
		topics: gauge(
			"skald_dlq_ingest_topic",
			"1 for each topic. match=read: the topic is read; match=case: the expression would match it if case were ignored.",
			"topic",
			"match",
		),
	}
}

// sources holds the metrics of Kafka records that become events.
type sources struct {
	read, stored, refused, failures, skipped prometheus.Counter
	lag, paused                              prometheus.Gauge
}

func newSources(
	counter func(name, help string, labels ...string) *prometheus.CounterVec,
	gauge func(name, help string, labels ...string) *prometheus.GaugeVec,
) *sources {
	return &sources{
		read:     counter("skald_kafka_source_records_total", "Records that this node read as events and stored.").WithLabelValues(),
		stored:   counter("skald_kafka_source_events_total", "Records that became a new event.").WithLabelValues(),
		refused:  counter("skald_kafka_source_refused_total", "Records that are not events and became dead letters.").WithLabelValues(),
		skipped:  counter("skald_kafka_source_skipped_total", "Records skipped because they were in the topic before it was first read.").WithLabelValues(),
		failures: counter("skald_kafka_source_failures_total", "Failed fetches, batches and offset commits; they are retried.").WithLabelValues(),
		lag:      gauge("skald_kafka_source_lag_records", "Unread records in the partitions of this node.").WithLabelValues(),
		paused:   gauge("skald_kafka_source_paused", "1 while this node waits for the database to store what it has read.").WithLabelValues(),
	}
}

// SourceRead counts a stored batch of records, of which stored became new events.
func (m *Metrics) SourceRead(read, stored int) {
	m.sources.read.Add(float64(read))
	m.sources.stored.Add(float64(stored))
}

// SourceRefused counts a record that is not an event.
func (m *Metrics) SourceRefused() { m.sources.refused.Inc() }

// SourceSkipped counts records written before their topic was first read.
func (m *Metrics) SourceSkipped(records int) { m.sources.skipped.Add(float64(records)) }

// SourceFailed counts a failure that is retried.
func (m *Metrics) SourceFailed() { m.sources.failures.Inc() }

// SourceLag records the number of unread records.
func (m *Metrics) SourceLag(records int64) { m.sources.lag.Set(float64(records)) }

// SourcePaused records whether reading is waiting for the database.
func (m *Metrics) SourcePaused(paused bool) { set(m.sources.paused, paused) }

func set(g prometheus.Gauge, on bool) {
	v := 0.0
	if on {
		v = 1
	}
	g.Set(v)
}

// Ingested counts a stored batch of read records, of which stored were new.
func (m *Metrics) Ingested(read, stored int) {
	m.ingest.read.Add(float64(read))
	m.ingest.stored.Add(float64(stored))
	m.ingest.batches.Inc()
}

// IngestReduced counts a record that was stored in a reduced form.
func (m *Metrics) IngestReduced() { m.ingest.refused.Inc() }

// IngestFailed counts an ingestion failure that is retried.
func (m *Metrics) IngestFailed() { m.ingest.failures.Inc() }

// IngestLag records the number of unread records.
func (m *Metrics) IngestLag(records int64) { m.ingest.lag.Set(float64(records)) }

// IngestPaused records whether ingestion is waiting for the database.
func (m *Metrics) IngestPaused(paused bool) { set(m.ingest.paused, paused) }

// IngestHeld counts records whose letters are held.
func (m *Metrics) IngestHeld(records int) { m.ingest.held.Add(float64(records)) }

// IngestTopics records which topics are read, and which are not read only because they differ
// in case.
func (m *Metrics) IngestTopics(read, near []string) {
	m.ingest.topics.Reset()
	for _, topic := range read {
		m.ingest.topics.WithLabelValues(topic, "read").Set(1)
	}
	for _, topic := range near {
		m.ingest.topics.WithLabelValues(topic, "case").Set(1)
	}
}
