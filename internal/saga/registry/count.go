package registry

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

// Sum is what one node counted for one participant in one second.
type Sum struct {
	TenantID    uuid.UUID `json:"tenant_id"`
	Participant string    `json:"participant"`
	Bucket      time.Time `json:"bucket"` // start of the second by the database's clock

	Calls     int64              `json:"calls"`
	Failed    int64              `json:"failed"`
	Let       int64              `json:"let"`
	LetFailed int64              `json:"let_failed"`
	LetOKAt   *time.Time         `json:"let_ok_at"`
	Pause     *time.Time         `json:"pause"`
	Codes     map[string]int64   `json:"codes,omitempty"` // outcome codes of calls that did not succeed
	Latencies [Slowest + 1]int64 `json:"latencies"`
}

// Slowest is the index of the last latency class. Class i contains calls that took less than 2^i
// ms; the last class contains the rest.
const Slowest = 16

// classOf returns the class of a latency.
func classOf(d time.Duration) int {
	class := 0
	for ms := d.Milliseconds(); ms > 0 && class < Slowest; ms >>= 1 {
		class++
	}
	return class
}

// Counts reports whether the outcome of a call says anything about its participant. It does not if
// nothing could be sent because of the definition or a missing secret, or if this node abandoned
// the call.
func Counts(o *saga.Outcome) bool {
	return o.Code != "aborted" && o.Code != CodeSecretUnavailable &&
		!(o.Verdict == saga.NotApplied && o.Class == retry.Refused)
}

// Count adds the outcome of a call for which Counts is true. let means that a grant let the call
// through. now is the database's time.
func (s *Sum) Count(o *saga.Outcome, let bool, now time.Time) {
	failed := o.Verdict == saga.Unknown || o.Verdict == saga.NotApplied
	one := func(is bool) int64 {
		if is {
			return 1
		}
		return 0
	}
	s.Calls, s.Failed = s.Calls+1, s.Failed+one(failed)
	s.Let, s.LetFailed = s.Let+one(let), s.LetFailed+one(let && failed)
	if let && !failed {
		s.LetOKAt = &now
	}
	if o.Code != "" {
		if s.Codes == nil {
			s.Codes = map[string]int64{}
		}
		s.Codes[o.Code]++
	}
	s.Latencies[classOf(o.EndedAt.Sub(o.StartedAt))]++
	if until := now.Add(min(o.RetryAfter, retry.MaxAfter)); o.RetryAfter > 0 && o.Class == retry.Unavailable &&
		(s.Pause == nil || until.After(*s.Pause)) {
		s.Pause = &until
	}
}

// Flight is the number of calls to a participant that a node has in flight.
type Flight struct {
	TenantID    uuid.UUID
	Participant string
	InFlight    int
}

// Nodes report their calls in flight when the number changes, and otherwise every FlightTold. A
// report is valid for FlightKept.
const (
	FlightTold = 5 * time.Second
	FlightKept = 15 * time.Second
)

// Figures are statistics about a participant's calls within the last hour.
type Figures struct {
	Calls, Failed int64
	Codes         map[string]int64
	Latencies     [Slowest + 1]int64
	Waiting       int64 // sagas waiting for it
	Letters       int64 // dead letters waiting for it
	Webhooks      int64 // webhooks waiting for it
	InFlight      int64 // calls in flight on all nodes
}

// Percentile returns the latency below which the given share of the calls stayed, as the upper
// bound of its class. It returns 0 if there were no calls.
func (f *Figures) Percentile(share float64) time.Duration {
	var all, seen int64
	for _, n := range f.Latencies {
		all += n
	}
	for class, n := range f.Latencies {
		if seen += n; n > 0 && float64(seen) >= share*float64(all) {
			return time.Duration(1<<class) * time.Millisecond
		}
	}
	return 0
}
