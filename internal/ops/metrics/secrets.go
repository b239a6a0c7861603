package metrics

import "github.com/prometheus/client_golang/prometheus"

// secretMetrics holds the metrics of participants' secrets.
type secretMetrics struct{ failures, hidden *prometheus.CounterVec }

func newSecretMetrics(counter func(name, help string, labels ...string) *prometheus.CounterVec) *secretMetrics {
	return &secretMetrics{
		failures: counter(
			"skald_participant_secret_read_failures_total",
			"Times a secret of a participant could not be read from its file or from Vault; the last value stays in use for "+
				"participants.secret_max_age.",
			"participant",
		),
		hidden: counter(
			"skald_participant_secret_echoes_total",
			"Answers of a participant that repeated a secret, which was replaced before anything was stored.",
			"participant",
		),
	}
}

// WatchSecrets registers the metrics of participants' secrets. Call it at most once.
func (m *Metrics) WatchSecrets(participants []string, unreadable func() int) {
	each(m.secrets.failures, participants)
	each(m.secrets.hidden, participants)
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "skald_participant_secrets_unreadable",
		Help: "Secrets of participants that this node could not read the last time.",
	}, func() float64 { return float64(unreadable()) }))
}

// SecretRead counts a failed attempt to read a participant's secret.
func (m *Metrics) SecretRead(participant string, err error) {
	if err != nil {
		m.secrets.failures.WithLabelValues(participant).Inc()
	}
}

// SecretHidden counts an answer in which a participant repeated a secret.
func (m *Metrics) SecretHidden(participant string) {
	m.secrets.hidden.WithLabelValues(participant).Inc()
}
