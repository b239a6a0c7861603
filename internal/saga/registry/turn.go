package registry

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

// CallerKind is the kind of a caller that calls a participant but is not a saga.
type CallerKind string

// Kinds of callers.
const (
	Letter  CallerKind = "letter"  // a dead letter that is retried automatically
	Item    CallerKind = "item"    // a dead letter in a redrive
	Webhook CallerKind = "webhook" // a webhook, with any of its deliveries
)

// Caller is a caller, other than a saga, that may wait at a gate.
type Caller struct {
	TenantID uuid.UUID
	Kind     CallerKind
	ID       uuid.UUID
	Redrive  uuid.UUID // for an Item
}

// Turns is the gate for callers. They call the participant to which their URL belongs.
type Turns interface {
	// Held returns the participant that a URL belongs to if its gate is not open. It returns nil if
	// the gate is open or no participant matches.
	Held(tenant uuid.UUID, url string) *Participant
	// Turn asks to make a call.
	Turn(ctx context.Context, c Caller, url string) Turn
}

// Turn is a gate's answer to a caller. If neither Waits nor Busy is set, the call may be made.
type Turn struct {
	Waits *Participant  // the participant at whose gate it waits; nil if it does not wait
	Busy  time.Duration // the limit of calls in flight is reached: ask again after this time
	Let   bool          // a grant let it through
	// Leave must be called when the call has ended, with nil if it was not made. It is nil if the
	// call does not belong to any participant.
	Leave func(*Heard)
}

// Left ends a turn. h is nil if no call was made.
func (t *Turn) Left(h *Heard) {
	if t.Leave != nil {
		t.Leave(h)
	}
}

// Heard is what a call has learned about its participant.
type Heard struct {
	Status             int // 0 means no answer
	Unreached          bool
	Unsendable         bool // because of its definition or the egress policy, so it says nothing about the participant
	RetryAfter         time.Duration
	StartedAt, EndedAt time.Time
}

// Outcome returns h as the outcome of a step's call, so that one rule counts both.
func (h *Heard) Outcome() saga.Outcome {
	o := saga.Outcome{
		Verdict: saga.Done, RetryAfter: h.RetryAfter, StartedAt: h.StartedAt, EndedAt: h.EndedAt,
	}
	if h.Status != 0 {
		o.Code = fmt.Sprintf("http_%d", h.Status)
	}
	switch {
	case h.Unsendable:
		o.Verdict, o.Class = saga.NotApplied, retry.Refused
	case h.Unreached:
		o.Verdict, o.Class, o.Code = saga.NotApplied, retry.Unavailable, "unreachable"
	case h.Status == 0:
		o.Verdict, o.Class, o.Code = saga.Unknown, retry.Unavailable, "no_answer"
	case h.Status/100 == 2:
		o.Code = ""
	case h.Status == 425, h.Status == 429, h.Status == 503: // counted as for the calls of steps
		o.Verdict, o.Class = saga.NotApplied, retry.Unavailable
	case h.Status/100 == 5:
		o.Verdict, o.Class = saga.Unknown, retry.Unavailable
	default: // a definite answer
		o.Verdict, o.Class = saga.Refused, retry.Refused
	}
	return o
}

// WaitsAt says, in a sentence, what a caller waits for and why.
func (p *Participant) WaitsAt(now time.Time) string {
	return fmt.Sprintf("It waits for the participant %s, which has been %s.", p.Name, p.Gate.Sentence(now))
}
