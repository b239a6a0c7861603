package webhook

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
)

// Policy determines how often deliveries are attempted. Its zero value is unusable; see
// DefaultPolicy.
type Policy struct {
	Retry retry.Policy
	// DisableAfter is the number of consecutive given-up deliveries after which the subscription is
	// disabled.
	DisableAfter int
}

// DefaultPolicy tries for about ten hours, with 16 attempts that are 5 s to 1 h apart.
var DefaultPolicy = Policy{
	Retry: retry.Policy{
		MaxAttempts: 16, InitialIntervalMS: 5000, MaxIntervalMS: 3_600_000, Multiplier: 3,
		Jitter: func() *float64 { j := 0.2; return &j }(), RetryOn: retry.Classes,
	},
	DisableAfter: 10,
}

// gone is the status with which an endpoint unsubscribes.
const gone = 410

// Outcome is the result of one attempt.
type Outcome struct {
	Status     int           // of the response; 0: none
	Error      string        // why there is no response, as shown to the tenant; "" with a Status
	RetryAfter time.Duration // requested by the response; 0: not requested
	// Unsendable means that Skald did not even try, because there was no secret or the egress rules
	// forbade it.
	Unsendable bool
	// Abandoned means that this node ended the attempt for its own reasons. The attempt is repeated
	// immediately and does not count against the endpoint or the delivery.
	Abandoned bool
}

// Moment contains the time, jitter and ids that a rule needs.
type Moment struct {
	Now    time.Time
	Jitter float64          // [0,1)
	NewID  func() uuid.UUID // UUIDv7
}

// Result is the consequence of an outcome.
type Result struct {
	Subscription Subscription
	Delivery     Delivery
	Changed      bool // the subscription has changed
	Disabled     bool // the change was that it was disabled
	// Recovered means that the endpoint works again after failures. Deliveries that wait for a
	// later attempt are now due.
	Recovered bool
}

// Settle applies an attempt's outcome to its delivery, which must be Pending, and to the
// subscription.
//
// 2xx is a success. Everything else is a failure and is retried according to the policy. This
// includes redirects, which are not followed: a receiver that is being deployed or is misconfigured
// may respond with anything. 410 disables the subscription immediately.
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
			failed := fmt.Sprintf("%d consecutive deliveries", r.Subscription.Health.GivenUp)
			if r.Subscription.Health.GivenUp == 1 {
				failed = "a delivery"
			}
			r.disable(fmt.Sprintf("%s failed permanently; the last error: %s", failed, r.Delivery.Error), m)
		}
	}
	return r
}

func (r *Result) end(s Status, m Moment) {
	r.Delivery.Status, r.Delivery.EndedAt = s, &m.Now
}

func (r *Result) disable(reason string, m Moment) {
	if !r.Subscription.Enabled { // it was disabled in the meantime for another reason
		return
	}
	r.Subscription.disable(reason, m.Now)
	r.Disabled = true
}

// Redeliver returns the delivery prepared to be sent again: due immediately, with a full round of
// attempts. A delivery in flight stays in flight, and a delivery that is already due is not
// postponed.
func Redeliver(d Delivery, now time.Time) Delivery {
	switch {
	case d.Status != Pending:
		d.Status, d.RoundStart, d.EndedAt, d.DueAt = Pending, d.Attempt, nil, now
	case d.DueAt.After(now):
		d.DueAt = now
	}
	return d
}
