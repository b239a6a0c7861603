package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/scheduler"
)

// jobs holds the metrics of the leader of job runs.
type jobs struct {
	leads  prometheus.Gauge
	epoch  prometheus.Gauge
	moved  *prometheus.CounterVec
	took   *prometheus.HistogramVec
	failed *prometheus.CounterVec
	runs   *prometheus.GaugeVec
	age    prometheus.Gauge
	broken prometheus.Counter
}

func newJobs(
	counter func(name, help string, labels ...string) *prometheus.CounterVec,
	gauge func(name, help string, labels ...string) *prometheus.GaugeVec,
	histogram func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec,
) *jobs {
	return &jobs{
		leads: gauge("skald_job_leader", "1 while this node leads the scheduler of job runs, else 0.").WithLabelValues(),
		epoch: gauge(
			"skald_job_leader_epoch",
			"Epoch of this node's last term as leader; 0 if it has never been leader.",
		).WithLabelValues(),
		moved: counter(
			"skald_job_sweep_rows_total",
			"Rows that sweeps created or changed while this node was leader, by sweep.",
			"sweep",
		),
		took: histogram(
			"skald_job_sweep_seconds",
			"Duration of a sweep in one round, by sweep.",
			prometheus.ExponentialBuckets(0.0005, 4, 9),
			"sweep",
		),
		failed: counter("skald_job_sweep_failures_total", "Sweeps that failed, by sweep.", "sweep"),
		runs: gauge(
			"skald_job_runs",
			"Job runs that have not ended, as counted by the leader (at most "+strconv.Itoa(
				jobrun.BacklogCap,
			)+" of the waiting ones); 0 on other nodes.",
			"state",
		),
		age: gauge(
			"skald_job_runs_claimable_age_seconds",
			"How long the oldest claimable run has been due; 0 if there is none.",
		).WithLabelValues(),
		broken: counter(
			"skald_job_invariants_broken_total",
			"Invariants of job runs that a run of system.invariants on this node found violated.",
		).WithLabelValues(),
	}
}

// Scheduler returns the observer for the scheduler of job runs; now measures the age of runs.
func (m *Metrics) Scheduler(now func() time.Time) scheduler.Observer {
	j := m.jobs
	return scheduler.Observer{
		Leads:   j.lead,
		Swept:   j.swept,
		Round:   func() { m.Loop("job_scheduler") },
		Backlog: func(b jobrun.Backlog) { j.backlog(b, now()) },
	}
}

// lead records that this node has started (in the given epoch) or stopped leading the job runs.
func (j *jobs) lead(leads bool, epoch int64) {
	j.epoch.Set(float64(epoch))
	set(j.leads, leads)
	if !leads {
		j.backlog(jobrun.Backlog{}, time.Time{})
	}
}

// swept records a sweep of the leader.
func (j *jobs) swept(sweep string, moved int, took time.Duration, err error) {
	j.moved.WithLabelValues(sweep).Add(float64(moved))
	j.took.WithLabelValues(sweep).Observe(took.Seconds())
	if err != nil {
		j.failed.WithLabelValues(sweep).Inc()
	}
}

// backlog records how many runs have not ended, and the age of the oldest one.
func (j *jobs) backlog(b jobrun.Backlog, now time.Time) {
	for state, n := range map[string]int{"waiting": b.Waiting, "claimable": b.Claimable, "held": b.Held,
		"assigned": b.Assigned, "running": b.Running - b.Doubted, "confirming": b.Doubted} {
		j.runs.WithLabelValues(state).Set(float64(n))
	}
	age := time.Duration(0)
	if !b.Oldest.IsZero() {
		age = max(0, now.Sub(b.Oldest))
	}
	j.age.Set(age.Seconds())
}

// InvariantsBroken counts invariants of job runs that do not hold.
func (m *Metrics) InvariantsBroken(n int) { m.jobs.broken.Add(float64(n)) }
