package registry

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

// CallerKind is what makes a call of a participant that no saga makes.
type CallerKind string

// Kinds of callers.
const (
	Letter  CallerKind = "letter"  // a dead letter that is retried automatically
	Item    CallerKind = "item"    // a dead letter of a redrive
	Webhook CallerKind = "webhook" // a webhook, with any of its deliveries
)

// Caller is what waits at a gate, if it is not a saga.
type Caller struct {
	TenantID uuid.UUID
	Kind     CallerKind
	ID       uuid.UUID
	Redrive  uuid.UUID // of an Item
}

// Turns is the gate of the participants that callers call, which are those of their URLs.
type Turns interface {
	// Held returns the participant that a URL belongs to if its gate is not open; nil: it is open, or there is none.
	Held(tenant uuid.UUID, url string) *Participant
	// Turn asks for a call.
	Turn(ctx context.Context, c Caller, url string) Turn
}

// Turn is the answer of a gate to a caller. Without Waits and Busy the call may be made.
type Turn struct {
	Waits *Participant  // at whose gate it waits; nil: it does not
	Busy  time.Duration // as many calls are in flight as may be: ask again after this
	Let   bool          // a grant let it through
	// Leave must be called when the call has ended, with nil if it was not made. Nil: the call belongs to no
	// participant.
	Leave func(*Heard)
}

// Left ends a turn; h is nil if no call was made.
func (t *Turn) Left(h *Heard) {
	if t.Leave != nil {
		t.Leave(h)
	}
}

// Heard is what a call has heard of its participant.
type Heard struct {
	Status             int // 0: no answer
	Unreached          bool
	Unsendable         bool // by its own definition or the rules for egress: it says nothing
	RetryAfter         time.Duration
	StartedAt, EndedAt time.Time
}

// Outcome returns what was heard as that of a step's call, so that one rule counts both.
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
	case h.Status == 425, h.Status == 429, h.Status == 503: // as for steps
		o.Verdict, o.Class = saga.NotApplied, retry.Unavailable
	case h.Status/100 == 5:
		o.Verdict, o.Class = saga.Unknown, retry.Unavailable
	default: // an answer
		o.Verdict, o.Class = saga.Refused, retry.Refused
	}
	return o
}

// WaitsAt says what a caller waits for and why, as a sentence.
func (p *Participant) WaitsAt(now time.Time) string {
	return fmt.Sprintf("It waits for the participant %s, which has been %s.", p.Name, p.Gate.Sentence(now))
}
