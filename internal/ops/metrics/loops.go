package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Loop records that a background loop has finished a round.
func (m *Metrics) Loop(name string) {
	m.loops.WithLabelValues(name).Set(float64(time.Now().UnixMilli()) / 1000)
	if m.done != nil {
		m.done(name)
	}
}

// Expect creates the series of the loops that this node runs before their first round, so that a
// loop that never finishes a round is visible as well.
func (m *Metrics) Expect(loops ...string) {
	for _, name := range loops {
		m.loops.WithLabelValues(name).Set(float64(time.Now().UnixMilli()) / 1000)
	}
}

// Watch registers the metric of late loops; done is called with each loop that finishes a round. It
// may be called only once, before any loop runs.
func (m *Metrics) Watch(done func(loop string), late func() []string) {
	m.done = done
	m.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "skald_loops_late", Help: "Background loops that have not finished a round within their limit; /readyz names them."},
		func() float64 { return float64(len(late())) },
	))
}
