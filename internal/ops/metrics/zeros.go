package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

// zeros creates the series for all label values that are known in advance. A counter that first
// appears when something fails appears with the value 1, which is not an increase, so no alert
// would ever see that failure.
func (m *Metrics) zeros() {
	for _, s := range saga.States {
		if s.Terminal() {
			m.ended.WithLabelValues(s.String())
			m.duration.WithLabelValues(s.String())
		} else {
			m.live.WithLabelValues(s.String())
		}
	}
	results := []string{"done", "later", string(retry.Refused)}
	for _, class := range retry.Classes {
		results = append(results, string(class))
	}
	for _, action := range []saga.Action{saga.Execute, saga.Compensate} {
		m.callTime.WithLabelValues(string(action))
		each(m.calls, []string{string(action)}, results)
	}
	each(m.reports, reported.Counted)
	each(m.stalled, saga.StuckReasons)
	each(m.limited, []string{"key", "tenant", "creates"})
	codes := []string{"500", "502", "503"} // other codes are the clients' fault
	each(m.requests, []string{"get", "head", "post", "put", "patch", "delete"}, codes)
	each(m.notices.attempts, []string{"delivered", "retried", "failed", "abandoned"})
	each(m.letters.drives,
		texts(dlq.ToKafka, dlq.ToHTTP, dlq.ToSaga, dlq.ToJobRun, dlq.ToWebhook),
		texts(dlq.Acknowledged, dlq.FailedDrive, dlq.Uncertain, dlq.Abandoned, dlq.Withdrawn, "ACCEPTED"))
	for _, s := range dlq.Statuses {
		if s != dlq.Resolved {
			m.letters.live.WithLabelValues(string(s))
		}
	}
	m.jobs.backlog(jobrun.Backlog{}, time.Time{})
	each(m.upkeep.logs, []string{"moved", "failed"})
	each(m.upkeep.hints, []string{"answered", "lost"})
}

func texts[T ~string](values ...T) (all []string) {
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}

// each creates the series for all combinations of labels.
func each(of *prometheus.CounterVec, labels ...[]string) {
	sets := [][]string{nil}
	for _, values := range labels {
		var longer [][]string
		for _, set := range sets {
			for _, v := range values {
				longer = append(longer, append(slices.Clone(set), v))
			}
		}
		sets = longer
	}
	for _, set := range sets {
		of.WithLabelValues(set...)
	}
}

// JobSweeps creates the series for the leader's sweeps.
func (m *Metrics) JobSweeps(names []string) {
	for _, name := range names {
		m.jobs.moved.WithLabelValues(name)
		m.jobs.failed.WithLabelValues(name)
		m.jobs.took.WithLabelValues(name)
	}
}

// EngineLimit records how many calls this node may have in flight.
func (m *Metrics) EngineLimit(calls int) { m.limit.Set(float64(calls)) }

// Risks creates the series for the database settings that may be off.
func (m *Metrics) Risks(settings []string) {
	for _, name := range append([]string{"superuser"}, settings...) {
		m.risks.WithLabelValues(name)
	}
}
