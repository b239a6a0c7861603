package registry

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

// Sum is what one node counted of one participant in one second.
type Sum struct {
	TenantID    uuid.UUID `json:"tenant_id"`
	Participant string    `json:"participant"`
	Bucket      time.Time `json:"bucket"` // the second, by the database's clock

	Calls     int64              `json:"calls"`
	Failed    int64              `json:"failed"`
	Let       int64              `json:"let"`
	LetFailed int64              `json:"let_failed"`
	LetOKAt   *time.Time         `json:"let_ok_at"`
	Pause     *time.Time         `json:"pause"`
	Codes     map[string]int64   `json:"codes,omitempty"` // of calls that did not succeed
	Latencies [Slowest + 1]int64 `json:"latencies"`
}

// Slowest is the last class of latencies: class i has calls of less than 2^i ms, the last one the rest.
const Slowest = 16

// classOf is the class of a latency.
func classOf(d time.Duration) int {
	class := 0
	for ms := d.Milliseconds(); ms > 0 && class < Slowest; ms >>= 1 {
		class++
	}
	return class
}

// Counts reports whether the outcome of a call says anything about its participant: not if nothing
// could be sent by its definition or for want of a secret, or if this node gave it up.
func Counts(o *saga.Outcome) bool {
	return o.Code != "aborted" && o.Code != CodeSecretUnavailable &&
		!(o.Verdict == saga.NotApplied && o.Class == retry.Refused)
}

// Count adds the outcome of a call, which Counts. let: a grant let it through. now is the database's
// time.
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

// Flight is how many calls of a participant a node has in flight.
type Flight struct {
	TenantID    uuid.UUID
	Participant string
	InFlight    int
}

// Nodes tell what they have in flight when it changes, and again after FlightTold; what they told is
// believed for FlightKept.
const (
	FlightTold = 5 * time.Second
	FlightKept = 15 * time.Second
)

// Figures are the calls of a participant within the last hour.
type Figures struct {
	Calls, Failed int64
	Codes         map[string]int64
	Latencies     [Slowest + 1]int64
	Waiting       int64 // sagas that wait for it
	Letters       int64 // dead letters that wait
	Webhooks      int64 // that wait
	InFlight      int64 // calls, over all nodes
}

// Percentile returns the latency below which a share of the calls stayed, as the end of its class; 0:
// there were none.
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
