package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// jobUpkeep holds the metrics of moving logs and of lease hints in Redis.
type jobUpkeep struct {
	logs     *prometheus.CounterVec
	bytes    prometheus.Counter
	purged   prometheus.Counter
	hints    *prometheus.CounterVec
	hintTime prometheus.Counter
}

func newJobUpkeep(counter func(name, help string, labels ...string) *prometheus.CounterVec) *jobUpkeep {
	return &jobUpkeep{
		logs: counter(
			"skald_job_logs_offloaded_total",
			"Job run logs that this node tried to move to the log store, by outcome: moved or failed.",
			"outcome",
		),
		bytes: counter(
			"skald_job_log_bytes_offloaded_total",
			"Bytes of job run logs moved out of the database.",
		).WithLabelValues(),
		purged: counter(
			"skald_job_runs_purged_total",
			"Ended job runs that this node deleted because their retention had expired.",
		).WithLabelValues(),
		hints: counter(
			"skald_job_lease_hints_total",
			"Commands about leases of job runs for Redis, by outcome: answered, or lost.",
			"outcome",
		),
		hintTime: counter(
			"skald_job_lease_hint_seconds_total",
			"Duration of round trips to Redis, including failed ones.",
		).WithLabelValues(),
	}
}

// LogsMoved counts a round of moving logs.
func (m *Metrics) LogsMoved(moved, failed, purged int, bytes int64) {
	m.upkeep.logs.WithLabelValues("moved").Add(float64(moved))
	m.upkeep.logs.WithLabelValues("failed").Add(float64(failed))
	m.upkeep.bytes.Add(float64(bytes))
	m.upkeep.purged.Add(float64(purged))
}

// Hinted counts the commands of one round trip to Redis; lost means that Redis did not answer.
func (m *Metrics) Hinted(commands int, lost bool, took time.Duration) {
	outcome := "answered"
	if lost {
		outcome = "lost"
	}
	m.upkeep.hints.WithLabelValues(outcome).Add(float64(commands))
	m.upkeep.hintTime.Add(took.Seconds())
}
