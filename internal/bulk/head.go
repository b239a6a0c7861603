// Package bulk is the rulebook that operations on many things share: bulk operations on
// sagas and on job runs, and backfills. It says what such an operation is for, how many
// things it may touch, and how it moves from its request to its end. What is done to each
// thing is a matter of its own subject.
//
// Files, each on top of those before it: cover, head.
package bulk

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
)

// State is the state of an operation.
type State string

// States of operations.
const (
	Running   State = "RUNNING"
	Halted    State = "HALTED"    // it would touch more than it may: a person decides
	Completed State = "COMPLETED" // everything was done, and of a backfill has ended
	Canceled  State = "CANCELED"
)

// States is every state.
var States = []State{Running, Halted, Completed, Canceled}

// Ended reports whether a state is final.
func (s State) Ended() bool { return s == Completed || s == Canceled }

// Verb is what people do to an operation.
type Verb string

// Verbs of people.
const (
	Resume Verb = "resume"
	Cancel Verb = "cancel"
)

// Verbs is every verb.
var Verbs = []Verb{Resume, Cancel}

// moves is what each verb makes of each state; what is not there is refused.
var moves = map[State]map[Verb]State{
	Running: {Cancel: Canceled},
	Halted:  {Cancel: Canceled, Resume: Running},
}

// Kind is one kind of operations, in its faults.
type Kind struct {
	Name     string
	Conflict string // the code of a state that forbids a change
}

// Head is what all operations have: each is requested, progresses in steps of the leader
// while RUNNING, and ends once.
type Head struct {
	Cover
	ID        uuid.UUID
	TenantID  uuid.UUID
	Version   int64 // grows with every change that people see
	State     State
	Reason    string
	Actor     string
	CreatedAt time.Time
	EndedAt   *time.Time
	// RequestHash is the hash of the request with its Idempotency-Key; nil: it had none.
	RequestHash []byte
	// Unreadable: the stored filter is damaged. Nothing is done by it; it can be canceled.
	Unreadable bool
}

// Place is where it stands in a list.
func (h *Head) Place() page.TimeID { return page.TimeID{At: h.CreatedAt, ID: h.ID} }

// Repeats reports whether a request with the Idempotency-Key of this operation is the one that
// made it. The hash is of the whole request, whatever its members mean to the operation. One
// that was requested on an earlier version has none, and is taken for it.
func (h *Head) Repeats(hash []byte) bool {
	return h.RequestHash == nil || bytes.Equal(h.RequestHash, hash)
}

// End ends it.
func (h *Head) End(as State, at time.Time) {
	h.State, h.Version, h.EndedAt = as, h.Version+1, &at
}

// Actions lists what can be done to it; never nil.
func (h *Head) Actions() []string {
	can := []string{}
	for _, v := range Verbs {
		if _, may := moves[h.State][v]; may {
			can = append(can, string(v))
		}
	}
	return can
}

// Moved applies a verb. One that is resumed is for all that it found: the person who resumes it
// has seen that number. Completed changes are kept. Fault: Conflict.
func (h *Head) Moved(k Kind, on Verb, at time.Time) error {
	next, may := moves[h.State][on]
	switch {
	case !may:
		return h.refuses(k, past[on])
	case next.Ended():
		h.End(next, at)
		return nil
	}
	h.State, h.Version = next, h.Version+1
	h.HaltsAbove, h.Found, h.HaltReason = h.Found, nil, ""
	return nil
}

var past = map[Verb]string{Resume: "resumed", Cancel: "canceled"}

// MustBe returns a fault unless it is in one of the states in which it can become what the
// words say.
func (h *Head) MustBe(k Kind, become string, in ...State) error {
	if slices.Contains(in, h.State) {
		return nil
	}
	return h.refuses(k, become)
}

func (h *Head) refuses(k Kind, become string) error {
	return fault.New(fault.Conflict, k.Conflict, "the %s is %s and cannot be %s", k.Name, h.State, become).
		Allowing(h.Actions())
}

// Requested completes a new operation with what its store saw. It halts at once when there
// are more things than were meant.
func (h *Head) Requested(s Seen, destroys bool) {
	h.Snapshot, h.Expected = s.Snapshot, &s.Count
	h.HaltsAbove = AtMost(h.HaltsAbove, s.Count, destroys)
	h.Halts(s.Count)
}

// Halts halts it if it found more things than it may touch, before the first that is too
// many. found counts those that it has touched, too.
func (h *Head) Halts(found int64) bool {
	if h.HaltsAbove == nil || found <= *h.HaltsAbove {
		return false
	}
	h.State, h.Version, h.HaltReason, h.Found = Halted, h.Version+1, HaltExpected, &found
	return true
}

// VerbHalt is the verb of the record of a halt.
const VerbHalt = "halt"

// AuditHalt returns the record of an operation that halted; id is the record's id.
func (h *Head) AuditHalt(id uuid.UUID, kind operator.Kind, at time.Time) operator.Action {
	detail := fmt.Appendf(nil, `{"found":%d,"halt_reason":%q,"halts_above":%d}`, *h.Found, h.HaltReason, *h.HaltsAbove)
	return operator.By{}.Did(id, h.TenantID, at, kind, h.ID.String(), VerbHalt, detail)
}

// MustCount reports whether a step has to count what is left before it touches n things:
// before the first step, and before one that would touch too many.
func (h *Head) MustCount(touched, n int64) bool {
	return h.HaltsAbove != nil && (touched == 0 || touched+n > *h.HaltsAbove)
}
