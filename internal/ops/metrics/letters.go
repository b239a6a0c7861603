package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skald-saga/skald/internal/dlq"
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
			"DEAD letters without a decision, to be archived within seven days.",
		).WithLabelValues(),
		drives: counter(
			"skald_dead_letter_drives_total",
			"Retries of dead letters that this node made, by kind of target and outcome.",
			"kind",
			"outcome",
		),
		reclaimed: counter(
			"skald_dead_letters_reclaimed_total",
			"Retries that this node ended because the node making them was lost.",
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

// LettersWaiting records how many dead letters there are, and the age of the oldest one.
func (m *Metrics) LettersWaiting(b dlq.Backlog, now time.Time) {
	for _, s := range dlq.Statuses {
		if s != dlq.Resolved {
			m.letters.live.WithLabelValues(string(s)).Set(float64(b.ByStatus[s]))
		}
	}
	age := time.Duration(0)
	if !b.Oldest.IsZero() {
		age = max(0, now.Sub(b.Oldest))
	}
	m.letters.age.Set(age.Seconds())
	m.letters.leaving.Set(float64(b.Leaving))
}

// LetterRetried counts a retry.
func (m *Metrics) LetterRetried(kind dlq.TargetKind, outcome dlq.AttemptOutcome) {
	m.letters.drives.WithLabelValues(string(kind), string(outcome)).Inc()
}

// LettersReclaimed counts retries that were ended because their node was lost.
func (m *Metrics) LettersReclaimed(n int) { m.letters.reclaimed.Add(float64(n)) }

// LettersArchived counts letters moved to the archive.
func (m *Metrics) LettersArchived(n int) { m.letters.archived.Add(float64(n)) }

// LettersPurged counts archived letters that were deleted.
func (m *Metrics) LettersPurged(n int) { m.letters.purged.Add(float64(n)) }
