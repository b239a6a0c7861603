package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Logins is the state of the database login and its renewal.
type Logins struct {
	Renewed, Failed int       // attempts since the start
	LastSuccess     time.Time // time of the last successful attempt; zero: none yet
	ValidUntil      time.Time // when the current login expires; zero: unknown
}

// WatchLogins registers the metrics of a login that can change. Call it at most once.
func (m *Metrics) WatchLogins(now func() Logins) {
	stamp := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return float64(t.UnixMilli()) / 1000
	}
	for _, c := range []struct {
		kind       prometheus.ValueType
		name, help string
		value      func(Logins) float64
	}{
		{prometheus.CounterValue, "skald_database_login_renewed_total", "Times the database login was read or renewed.", func(l Logins) float64 { return float64(l.Renewed) }},
		{prometheus.CounterValue, "skald_database_login_failed_total", "Times the database login could not be read or renewed; the current one stays in use.", func(l Logins) float64 { return float64(l.Failed) }},
		{prometheus.GaugeValue, "skald_database_login_last_success_timestamp_seconds", "When the database login was last read or renewed.", func(l Logins) float64 { return stamp(l.LastSuccess) }},
		{prometheus.GaugeValue, "skald_database_login_valid_until_timestamp_seconds", "When the database login expires unless it is renewed; 0 if unknown.", func(l Logins) float64 { return stamp(l.ValidUntil) }},
	} {
		value := func() float64 { return c.value(now()) }
		if c.kind == prometheus.CounterValue {
			m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help}, value))
		} else {
			m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: c.name, Help: c.help}, value))
		}
	}
}
