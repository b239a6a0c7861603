package saga

import "time"

// parked makes the saga wait at the gate of a participant. A flag or an order takes precedence over
// the gate, and is handled first.
func (d *decision) parked(e Parked) bool {
	r := &d.After
	if d.s.State.Terminal() || d.s.Attempt == 0 || r.recorded || r.job() != nil || r.Flagged() || r.ordered() ||
		d.s.SuspendedAt != nil {
		return false
	}
	until := e.Until.Truncate(time.Microsecond)
	d.s.NextRunAt = &until
	d.Park = e.Participant
	return true
}

// CallID identifies the call that a saga makes next.
type CallID struct {
	State   State
	Step    int
	Attempt int
}

// NextCall identifies the call that a saga makes next.
func (s *Saga) NextCall() CallID { return CallID{s.State, s.CurrentStep, s.Attempt} }

// AtGate describes a saga's wait at the gate of a participant.
type AtGate struct {
	Participant string
	Call        CallID // the call that waits
	Since       time.Time
	Gate        string // the state of the gate, since when and why, as a phrase
	Waiting     int64  // how many sagas wait for the participant, including this one
	NextAt      *time.Time
}
