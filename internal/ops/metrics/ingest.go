package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/skald-saga/skald/internal/kafka"
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
			"Unread offsets up to the ends of this node's partitions, including those behind open transactions.",
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

// Ingest returns the observer for the ingestion of dead letters from Kafka.
func (m *Metrics) Ingest() kafka.IngestObserver {
	in := m.ingest
	return kafka.IngestObserver{
		Stored: func(read, stored int) {
			in.read.Add(float64(read))
			in.stored.Add(float64(stored))
			in.batches.Inc()
		},
		Refused: in.refused.Inc,
		Failed:  in.failures.Inc,
		Paused:  func(paused bool) { set(in.paused, paused) },
		Lag:     func(records int64) { in.lag.Set(float64(records)) },
		Held:    func(records int) { in.held.Add(float64(records)) },
		Topics:  in.showTopics,
		Round:   func() { m.Loop("ingest") },
	}
}

// showTopics records which topics are read, and which are not read only because they differ in
// case.
func (in *ingest) showTopics(read, near []string) {
	in.topics.Reset()
	for _, topic := range read {
		in.topics.WithLabelValues(topic, "read").Set(1)
	}
	for _, topic := range near {
		in.topics.WithLabelValues(topic, "case").Set(1)
	}
}

// Sources returns the observer for the ingestion of Kafka records as events.
func (m *Metrics) Sources() kafka.IngestObserver {
	in := m.sources
	return kafka.IngestObserver{
		Stored: func(read, stored int) {
			in.read.Add(float64(read))
			in.stored.Add(float64(stored))
		},
		NoEvent: in.refused.Inc,
		Failed:  in.failures.Inc,
		Paused:  func(paused bool) { set(in.paused, paused) },
		Lag:     func(records int64) { in.lag.Set(float64(records)) },
		Held:    func(records int) { in.skipped.Add(float64(records)) },
		Round:   func() { m.Loop("kafka_sources") },
	}
}

func set(g prometheus.Gauge, on bool) {
	v := 0.0
	if on {
		v = 1
	}
	g.Set(v)
}
