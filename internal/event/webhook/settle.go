package webhook

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
)

// Policy says how hard deliveries are tried. Its zero value is unusable; see DefaultPolicy.
type Policy struct {
	Retry retry.Policy
	// DisableAfter is how many deliveries in a row may be given up before the
	// subscription is disabled.
	DisableAfter int
}

// DefaultPolicy tries for about ten hours: 16 attempts, 5 s to 1 h apart.
var DefaultPolicy = Policy{
	Retry: retry.Policy{
		MaxAttempts: 16, InitialIntervalMS: 5000, MaxIntervalMS: 3_600_000, Multiplier: 3,
		Jitter: func() *float64 { j := 0.2; return &j }(), RetryOn: retry.Classes,
	},
	DisableAfter: 10,
}

// gone is the answer of an endpoint that wants no more.
const gone = 410

// Outcome is what became of one attempt.
type Outcome struct {
	Status     int           // of the answer; 0: none
	Error      string        // why there is no answer, in words fit for the tenant; "" with a Status
	RetryAfter time.Duration // what the answer asked for; 0: nothing
	// Abandoned: this node gave the attempt up for reasons of its own. It is
	// made again at once, blames nobody and does not count.
	Abandoned bool
}

// Moment is what a rule needs of the world.
type Moment struct {
	Now    time.Time
	Jitter float64          // [0,1)
	NewID  func() uuid.UUID // UUIDv7
}

// Result is what an outcome leads to.
type Result struct {
	Subscription Subscription
	Delivery     Delivery
	Changed      bool // the subscription is another than before
	Disabled     bool // ... because it was disabled
	// Recovered: the endpoint works again after failures. What waits for a
	// later attempt is due now.
	Recovered bool
}

// Settle decides what an attempt's outcome means for its delivery, which must
// be Pending, and for the subscription.
//
// 2xx is success. Everything else is a failure and tried again as the policy
// says, redirects too, which are not followed: receivers that are deployed or
// misconfigured answer with anything. 410 disables the subscription at once.
func Settle(s Subscription, d Delivery, o Outcome, p Policy, m Moment) Result {
	if o.Abandoned {
		d.DueAt, d.RoundStart = m.Now, d.RoundStart+1
		return Result{Subscription: s, Delivery: d}
	}
	r := Result{Subscription: s, Delivery: d}
	r.Delivery.ResponseStatus, r.Delivery.Error = o.Status, o.Error
	switch {
	case o.Status/100 == 2:
		r.end(Delivered, m)
		if s.Health != (Health{}) {
			r.Subscription.Health, r.Changed, r.Recovered = Health{}, true, true
		}
		return r
	case o.Error == "":
		r.Delivery.Error = fmt.Sprintf("the endpoint answered %d", o.Status)
	}
	if d.IsTest() {
		r.end(Failed, m)
		return r
	}
	r.Changed = true
	if s.Health.FailingSince == nil {
		r.Subscription.Health.FailingSince = &m.Now
	}
	failures := d.Attempt - d.RoundStart
	switch {
	case o.Status == gone:
		r.end(Failed, m)
		r.disable("the endpoint answered 410 Gone", m)
	case failures < p.Retry.MaxAttempts:
		r.Delivery.DueAt = m.Now.Add(p.Retry.Delay(failures, m.Jitter, o.RetryAfter))
	default:
		r.end(Failed, m)
		if r.Subscription.Health.GivenUp++; r.Subscription.Health.GivenUp >= p.DisableAfter {
			r.disable(
				fmt.Sprintf(
					"%d deliveries in a row failed permanently; the last error: %s",
					r.Subscription.Health.GivenUp,
					r.Delivery.Error,
				),
				m,
			)
		}
	}
	return r
}

func (r *Result) end(s Status, m Moment) {
	r.Delivery.Status, r.Delivery.EndedAt = s, &m.Now
}

func (r *Result) disable(reason string, m Moment) {
	if !r.Subscription.Enabled { // somebody was faster, with a reason of their own
		return
	}
	r.Subscription.disable(reason, m.Now)
	r.Disabled = true
}

// Redeliver returns the delivery as it is when it is to be sent again: due at
// once, with a full round of attempts. One in flight stays in flight.
func Redeliver(d Delivery, now time.Time) Delivery {
	if d.Status != Pending {
		d.Status, d.RoundStart, d.EndedAt = Pending, d.Attempt, nil
	}
	d.DueAt = now
	return d
}
