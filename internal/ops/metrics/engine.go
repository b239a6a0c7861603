package metrics

import (
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/engine"
)

// Engine returns the observer for the engine.
func (m *Metrics) Engine() engine.Observer {
	return engine.Observer{
		CallDone: m.callDone,
		Ended:    m.sagaEnded,
		Claimed:  func(n int) { m.claimed.Add(float64(n)) },
		Loop:     m.Loop,
	}
}

// sagaEnded counts a saga that ended on this node.
func (m *Metrics) sagaEnded(s *saga.Saga) {
	m.ended.WithLabelValues(s.State.String()).Inc()
	if s.CompletedAt != nil {
		m.duration.WithLabelValues(s.State.String()).Observe(s.CompletedAt.Sub(s.CreatedAt).Seconds())
	}
}

// callDone counts a call to a participant.
func (m *Metrics) callDone(a saga.Action, o *saga.Outcome) {
	result := string(o.Class)
	switch o.Verdict {
	case saga.Done:
		result = "done"
	case saga.Later:
		result = "later"
	}
	m.calls.WithLabelValues(string(a), result).Inc()
	m.callTime.WithLabelValues(string(a)).Observe(o.EndedAt.Sub(o.StartedAt).Seconds())
}
