// Package metrics provides Skald's metrics to Prometheus, and the observers through which the loops
// report to them.
//
// Files, each on top of those before it: ingest, job_logs, jobs, letters, notices, zeros, secrets,
// engine, logins, loops, metrics.
package metrics

import (
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/skald-saga/skald/internal/ops/storage"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// Metrics holds Skald's Prometheus metrics. Their names are part of the public interface.
type Metrics struct {
	registry *prometheus.Registry

	created  prometheus.Counter
	ended    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	calls    *prometheus.CounterVec
	reports  *prometheus.CounterVec
	callTime *prometheus.HistogramVec
	claimed  prometheus.Counter
	batch    *prometheus.HistogramVec
	live     *prometheus.GaugeVec
	stuck    prometheus.Gauge
	gates    *prometheus.GaugeVec
	archived prometheus.Counter
	bytes    *prometheus.GaugeVec
	tuples   *prometheus.GaugeVec
	snapshot *prometheus.GaugeVec
	stalled  *prometheus.CounterVec
	loops    *prometheus.GaugeVec
	done     func(loop string) // nil: there are no watchers
	notices  *notices
	secrets  *secretMetrics
	letters  *letters
	ingest   *ingest
	sources  *sources
	emitted  *emitted
	upkeep   *jobUpkeep
	jobs     *jobs
	refused  prometheus.Counter
	limited  *prometheus.CounterVec
	writable *prometheus.GaugeVec // has no series until the database has been checked
	risks    *prometheus.GaugeVec
	requests *prometheus.CounterVec
	reqTime  *prometheus.HistogramVec
	written  prometheus.Counter
	sealed   prometheus.Counter
	actions  prometheus.Counter
	feedLag  prometheus.Gauge
	streams  prometheus.Gauge
	waiting  prometheus.Gauge
	limit    prometheus.Gauge
}

// New registers all metrics. load returns how many sagas of this node have a
// call in flight, and how many it holds for a short wait.
func New(load func() (running, waiting int)) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(g)
		return g
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}
	seconds := prometheus.ExponentialBuckets(0.0005, 2.5, 14) // 0.5 ms to 75 s
	m.created = counter("skald_sagas_created_total", "Sagas accepted by this node.").WithLabelValues()
	m.ended = counter("skald_sagas_ended_total", "Sagas that ended on this node, by final state.", "state")
	m.duration = histogram("skald_saga_duration_seconds", "From acceptance to the end of a saga.", seconds, "state")
	m.calls = counter(
		"skald_step_calls_total",
		"Calls to participants, by action and result (done, or the class of the failure).",
		"action",
		"result",
	)
	m.reports = counter(
		"skald_step_callbacks_total",
		"Reports of participants that answer later, by the outcome that they decided, or otherwise by "+
			"what happened to them: heartbeat, repeated, early, late or invalid.",
		"result",
	)
	m.callTime = histogram("skald_step_call_seconds", "Duration of calls to participants.", seconds, "action")
	m.claimed = counter(
		"skald_sagas_claimed_total",
		"Sagas claimed: unowned sagas that were due, and sagas of dead nodes.",
	).WithLabelValues()
	m.batch = histogram(
		"skald_commit_batch_size",
		"Writes per group commit.",
		prometheus.ExponentialBuckets(1, 2, 11),
		"kind",
	)
	m.live = gauge("skald_sagas_live", "Unfinished sagas in the database, by state.", "state")
	m.gates = gauge(
		"skald_participants",
		"Named participants, by the state of their gate as known to this node.",
		"state",
	)
	m.Gates(nil) // so that the series exist before the first round
	m.stuck = gauge(
		"skald_sagas_stuck",
		"Sagas that are neither owned nor due; any value but 0 indicates a bug.",
	).WithLabelValues()
	m.archived = counter(
		"skald_sagas_archived_total",
		"Ended sagas that this node moved to the archive.",
	).WithLabelValues()
	m.bytes = gauge("skald_table_bytes", "Disk space of a table, by part: heap, toast or index.", "table", "part")
	m.tuples = gauge(
		"skald_table_tuples",
		"Rows of a table as PostgreSQL estimates them, by kind: live or dead.",
		"table",
		"kind",
	)
	m.snapshot = gauge(
		"skald_postgres_oldest_snapshot",
		"Age of the oldest snapshot for which PostgreSQL keeps dead rows, by unit: seconds since its transaction began, or transactions since then.",
		"unit",
	)
	m.stalled = counter(
		"skald_sagas_stalled_total",
		"Sagas for which this node raised attention because they made no progress, by reason.",
		"reason",
	)
	m.loops = gauge("skald_loop_last_success_timestamp_seconds", "When a background loop last finished a round.", "loop")
	m.notices = newNotices(counter, gauge)
	m.secrets = newSecretMetrics(counter)
	m.letters = newLetters(counter, gauge)
	m.ingest = newIngest(counter, gauge)
	m.sources = newSources(counter, gauge)
	m.emitted = newEmitted(counter, gauge)
	m.upkeep = newJobUpkeep(counter)
	m.jobs = newJobs(counter, gauge, histogram)
	m.writable = gauge("skald_database_writable", "1 if the last test write of the readiness check succeeded, else 0.")
	m.risks = gauge(
		"skald_database_risk",
		"1 if the database may lose confirmed writes or does not separate tenants, by risk: a setting that is off, or superuser.",
		"risk",
	)
	m.limited = counter("skald_http_requests_limited_total", "API requests answered with 429, by limit: key, tenant or creates.", "limit")
	m.refused = counter(
		"skald_http_connections_refused_total",
		"Connections closed because their client address had the maximum open (server.max_connections_per_address).",
	).WithLabelValues()
	m.requests = counter("skald_http_requests_total", "API requests.", "method", "code")
	m.reqTime = histogram(
		"skald_http_request_seconds",
		"Duration of API requests, including any wait they requested.",
		seconds,
		"method",
		"code",
	)
	m.written = counter(
		"skald_audit_events_written_total",
		"Audit events that this node has committed with changes of sagas.",
	).WithLabelValues()
	m.sealed = counter("skald_audit_events_sealed_total", "Audit events that this node has sealed.").WithLabelValues()
	m.actions = counter(
		"skald_audit_actions_sealed_total",
		"Operator actions that this node has sealed.",
	).WithLabelValues()
	m.feedLag = gauge(
		"skald_audit_feed_lag_seconds",
		"Age of the oldest audit event that the feed holds back because an earlier transaction is still open anywhere in the PostgreSQL cluster.",
	).WithLabelValues()
	m.waiting = gauge("skald_waiting_requests", "Requests that wait on this node for the end of a saga, a job run or a redrive.").WithLabelValues()
	m.streams = gauge("skald_event_streams", "Live streams of audit events that are open on this node.").WithLabelValues()
	m.limit = gauge("skald_engine_max_running", "engine.max_running of this node: the maximum number of sagas with a call in flight.").WithLabelValues()
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "skald_engine_running", Help: "Sagas with a call in flight on this node."},
			func() float64 { n, _ := load(); return float64(n) },
		),
		prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "skald_engine_waiting", Help: "Sagas this node holds for a short wait."},
			func() float64 { _, n := load(); return float64(n) },
		),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.zeros()
	return m
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Instrument counts and times the requests to h.
func (m *Metrics) Instrument(h http.Handler) http.Handler {
	return promhttp.InstrumentHandlerDuration(m.reqTime, promhttp.InstrumentHandlerCounter(m.requests, h))
}

// Created counts a saga that this node accepted.
func (m *Metrics) Created() { m.created.Inc() }

// Reported counts a deferred answer that a participant has reported.
func (m *Metrics) Reported(result string) { m.reports.WithLabelValues(result).Inc() }

// Batch returns the observer of batch sizes for one group commit.
func (m *Metrics) Batch(kind string) func(int) {
	h := m.batch.WithLabelValues(kind)
	return func(n int) { h.Observe(float64(n)) }
}

// EventsWritten counts audit events that this node has committed.
func (m *Metrics) EventsWritten(n int) { m.written.Add(float64(n)) }

// Sealed records a round of sealing the audit events.
func (m *Metrics) Sealed(events int, lag time.Duration) {
	m.sealed.Add(float64(events))
	m.feedLag.Set(lag.Seconds())
	m.Loop("seal")
}

// ActionsSealed records a round of sealing the record of actions.
func (m *Metrics) ActionsSealed(actions int, _ time.Duration) {
	m.actions.Add(float64(actions))
	m.Loop("seal_actions")
}

// Database records the condition of the database: whether it accepts writes, whether its login
// is a superuser, and which durability settings are off.
func (m *Metrics) Database(writable, superuser bool, off, settings []string) {
	value := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	m.writable.WithLabelValues().Set(value(writable))
	if !writable {
		return // the remaining values are unknown
	}
	m.risks.WithLabelValues("superuser").Set(value(superuser))
	for _, name := range settings {
		m.risks.WithLabelValues(name).Set(value(slices.Contains(off, name)))
	}
}

// RateLimited counts a request that a rate limit rejected.
func (m *Metrics) RateLimited(limit string) { m.limited.WithLabelValues(limit).Inc() }

// ConnRefused counts a connection that was closed because its client had too many.
func (m *Metrics) ConnRefused() { m.refused.Inc() }

// Waiting records how many requests are waiting for a saga, a job run or a redrive to end.
func (m *Metrics) Waiting(requests int) { m.waiting.Set(float64(requests)) }

// Streams records how many live streams are open.
func (m *Metrics) Streams(open int) { m.streams.Set(float64(open)) }

// Counted records what the janitor found.
func (m *Metrics) Counted(stuck int, live map[saga.State]int) {
	m.stuck.Set(float64(stuck))
	for _, s := range saga.States {
		if !s.Terminal() {
			m.live.WithLabelValues(s.String()).Set(float64(live[s]))
		}
	}
}

// Gates records the states of the participants' gates.
func (m *Metrics) Gates(by map[registry.State]int) {
	for _, s := range registry.States {
		m.gates.WithLabelValues(string(s)).Set(float64(by[s]))
	}
}

// Archived counts sagas that were archived.
func (m *Metrics) Archived(n int) { m.archived.Add(float64(n)) }

// Measured records the sizes of the tables and removes the series of dropped tables.
func (m *Metrics) Measured(s storage.Storage) {
	m.bytes.Reset()
	m.tuples.Reset()
	for _, t := range s.Tables {
		m.bytes.WithLabelValues(t.Name, "heap").Set(float64(t.HeapBytes))
		m.bytes.WithLabelValues(t.Name, "toast").Set(float64(t.ToastBytes))
		m.bytes.WithLabelValues(t.Name, "index").Set(float64(t.IndexBytes))
		m.tuples.WithLabelValues(t.Name, "live").Set(float64(t.LiveTuples))
		m.tuples.WithLabelValues(t.Name, "dead").Set(float64(t.DeadTuples))
	}
	m.snapshot.Reset()
	if s.Snapshot != nil {
		m.snapshot.WithLabelValues("seconds").Set(s.Snapshot.Age.Seconds())
		m.snapshot.WithLabelValues("transactions").Set(float64(s.Snapshot.Transactions))
	}
}

// Stalled counts a saga that makes no progress.
func (m *Metrics) Stalled(reason string) { m.stalled.WithLabelValues(reason).Inc() }

// Clock registers the metric of the difference between this node's clock and the database's. It may
// be called only once.
func (m *Metrics) Clock(ahead func() time.Duration) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "skald_clock_offset_seconds", Help: "Seconds by which this node's clock is certain to be ahead of the database's; negative if it is behind. A node that is off by more than 60 is not ready."},
		func() float64 { return ahead().Seconds() },
	))
}
