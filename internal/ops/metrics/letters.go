package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/redrive"
)

// letters holds the metrics of the dead-letter queue.
type letters struct {
	live      *prometheus.GaugeVec
	age       prometheus.Gauge
	leaving   prometheus.Gauge
	drives    *prometheus.CounterVec
	reclaimed prometheus.Counter
	archived  prometheus.Counter
	purged    prometheus.Counter
}

func newLetters(
	counter func(name, help string, labels ...string) *prometheus.CounterVec,
	gauge func(name, help string, labels ...string) *prometheus.GaugeVec,
) *letters {
	return &letters{
		live: gauge("skald_dead_letters", "Unresolved dead letters in the database, by status.", "status"),
		age: gauge(
			"skald_dead_letters_pending_age_seconds",
			"Age of the oldest PENDING dead letter; 0 if there is none.",
		).WithLabelValues(),
		leaving: gauge(
			"skald_dead_letters_archived_within_week",
			"DEAD letters without a decision that will be archived within seven days.",
		).WithLabelValues(),
		drives: counter(
			"skald_dead_letter_drives_total",
			"Retries of dead letters that this node made, by kind of target and outcome.",
			"kind",
			"outcome",
		),
		reclaimed: counter(
			"skald_dead_letters_reclaimed_total",
			"Retries that this node ended because the node that was making them was lost.",
		).WithLabelValues(),
		archived: counter(
			"skald_dead_letters_archived_total",
			"Dead letters that this node moved to the archive.",
		).WithLabelValues(),
		purged: counter(
			"skald_dead_letters_purged_total",
			"Archived dead letters that this node deleted because their retention had expired.",
		).WithLabelValues(),
	}
}

// Letters returns the observer for the loops of the dead-letter queue; now measures the age of
// letters.
func (m *Metrics) Letters(now func() time.Time) redrive.Observer {
	l := m.letters
	return redrive.Observer{
		Drove: func(kind dlq.TargetKind, outcome dlq.AttemptOutcome) {
			l.drives.WithLabelValues(string(kind), string(outcome)).Inc()
		},
		Loop:      func(name string) { m.Loop("dlq_" + name) },
		Reclaimed: func(letters int) { l.reclaimed.Add(float64(letters)) },
		Archived:  func(letters int) { l.archived.Add(float64(letters)) },
		Purged:    func(letters int) { l.purged.Add(float64(letters)) },
		Backlog:   func(b dlq.Backlog) { l.backlog(b, now()) },
	}
}

// backlog records how many dead letters there are, and the age of the oldest one.
func (l *letters) backlog(b dlq.Backlog, now time.Time) {
	for _, s := range dlq.Statuses {
		if s != dlq.Resolved {
			l.live.WithLabelValues(string(s)).Set(float64(b.ByStatus[s]))
		}
	}
	age := time.Duration(0)
	if !b.Oldest.IsZero() {
		age = max(0, now.Sub(b.Oldest))
	}
	l.age.Set(age.Seconds())
	l.leaving.Set(float64(b.Leaving))
}
