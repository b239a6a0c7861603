// Package retry is Skald's retry policy for steps and compensations, dead letters, job runs and
// webhooks. It is pure: jitter is an argument.
package retry

import (
	"math"
	"slices"
	"time"
)

// Class is the kind of failure of an attempt, in the terms of seed 2's retry_on (section
// saga_instances, retry_policy).
type Class string

// Classes of failed attempts. Refused is definite and never retried; every
// other class is retried when the policy's RetryOn allows it.
const (
	Timeout     Class = "timeout"          // no answer in time
	Network     Class = "network"          // dial, reset, broken connection
	Unavailable Class = "unavailable"      // 408, 425, 429, 502, 503, 504
	ServerError Class = "server_error"     // any other 5xx
	BadResponse Class = "invalid_response" // redirect, garbage, too large
	Refused     Class = "refused"          // definite refusal: other 4xx
)

// Classes lists the values that RetryOn may contain.
var Classes = []Class{Timeout, Network, Unavailable, ServerError, BadResponse}

// Transient reports whether a failure of this class usually passes without a change to the
// request or to the service that was called.
func (c Class) Transient() bool { return c == Timeout || c == Network || c == Unavailable }

// Policy defines how many attempts are made and how far apart they are. The JSON names are seed
// 2's. Zero fields mean "inherit": see Or.
type Policy struct {
	MaxAttempts       int      `json:"max_attempts,omitempty"`        // calls in total, including the first
	InitialIntervalMS int64    `json:"initial_interval_ms,omitempty"` // wait before the second attempt
	MaxIntervalMS     int64    `json:"max_interval_ms,omitempty"`     // cap of every wait; a larger initial interval counts instead
	Multiplier        float64  `json:"multiplier,omitempty"`          // 1 or more
	Jitter            *float64 `json:"jitter,omitempty"`
	// RetryOn: nil inherits, empty retries nothing; omitzero distinguishes the two in JSON.
	RetryOn []Class `json:"retry_on,omitzero"`
}

func share(f float64) *float64 { return &f }

// MaxAfter limits the wait that a participant or a target may request, so that a wrong
// Retry-After cannot delay a saga for years.
const MaxAfter = time.Hour

// Default is the policy of an action without a policy of its own: three attempts.
var Default = Policy{
	MaxAttempts: 3, InitialIntervalMS: 200, MaxIntervalMS: 10_000,
	Multiplier: 2, Jitter: share(0.2), RetryOn: Classes,
}

// Patient is the policy of a compensation without a policy of its own. A compensation that gives up
// leaves effects behind and needs an operator, so it is retried for about 15 minutes.
var Patient = Policy{
	MaxAttempts: 20, InitialIntervalMS: 500, MaxIntervalMS: 60_000,
	Multiplier: 2, Jitter: share(0.2), RetryOn: Classes,
}

// Or returns p with its zero fields filled from base.
func (p Policy) Or(base Policy) Policy {
	if p.MaxAttempts == 0 {
		p.MaxAttempts = base.MaxAttempts
	}
	if p.InitialIntervalMS == 0 {
		p.InitialIntervalMS = base.InitialIntervalMS
	}
	if p.MaxIntervalMS == 0 {
		p.MaxIntervalMS = base.MaxIntervalMS
	}
	if p.Multiplier == 0 {
		p.Multiplier = base.Multiplier
	}
	if p.Jitter == nil {
		p.Jitter = base.Jitter
	}
	if p.RetryOn == nil {
		p.RetryOn = base.RetryOn
	}
	return p
}

// Allows reports whether another attempt may follow the given number of failed ones,
// the last of which was of class c.
func (p Policy) Allows(c Class, failures int) bool {
	return c != Refused && failures < p.MaxAttempts && slices.Contains(p.RetryOn, c)
}

// Delay returns the backoff before the attempt that follows the given number of failed ones (1 or
// more). jitter is in [0,1) and spreads the wait by ±Policy.Jitter. A participant's Retry-After (0
// if none) is a lower bound. The result is never negative, and at most the larger of cap·(1+Jitter)
// and min(retryAfter, 1 h), where cap is the larger of MaxInterval and InitialInterval; no number
// of failures overflows it (trap X23).
func (p Policy) Delay(failures int, jitter float64, retryAfter time.Duration) time.Duration {
	base := float64(p.InitialIntervalMS) * math.Pow(p.Multiplier, float64(max(failures, 1)-1))
	base = min(base, float64(max(p.MaxIntervalMS, p.InitialIntervalMS)))
	if p.Jitter != nil {
		base *= 1 + *p.Jitter*(2*jitter-1)
	}
	return max(time.Duration(base*float64(time.Millisecond)), min(retryAfter, MaxAfter), 0)
}
