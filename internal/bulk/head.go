// Package bulk contains the rules that bulk operations on sagas and on job runs share with
// backfills. It decides which items an operation covers, how many it may change, and through which
// states it passes from the request to the end. The packages of the items decide how each item
// changes.
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
	Halted    State = "HALTED"    // it would change more items than it may; a person must decide
	Completed State = "COMPLETED" // all work was done; for a backfill, all runs have ended
	Canceled  State = "CANCELED"
)

// States lists all states.
var States = []State{Running, Halted, Completed, Canceled}

// Ended reports whether a state is final.
func (s State) Ended() bool { return s == Completed || s == Canceled }

// Verb is an action that people perform on an operation.
type Verb string

// These are the verbs.
const (
	Resume Verb = "resume"
	Cancel Verb = "cancel"
)

// Verbs lists all verbs.
var Verbs = []Verb{Resume, Cancel}

// moves maps each verb and state to the next state. Missing combinations are conflicts.
var moves = map[State]map[Verb]State{
	Running: {Cancel: Canceled},
	Halted:  {Cancel: Canceled, Resume: Running},
}

// Kind describes one kind of operation in its faults.
type Kind struct {
	Name     string
	Conflict string // the code of the fault for a state that does not allow a change
}

// Head contains the fields that all operations share. Each operation is requested once, progresses
// in the leader's steps while it is RUNNING, and ends once.
type Head struct {
	Cover
	ID        uuid.UUID
	TenantID  uuid.UUID
	Version   int64 // grows with every change that is visible to people
	State     State
	Reason    string
	Actor     string
	ActorName string // the actor's name at the time of the request
	CreatedAt time.Time
	EndedAt   *time.Time
	// RequestHash is the hash of the request with its Idempotency-Key; nil means that the request
	// had no key.
	RequestHash []byte
	// Unreadable means that the stored filter is damaged. Such an operation does nothing, but can
	// be canceled.
	Unreadable bool
}

// Place returns the operation's position in a list.
func (h *Head) Place() page.TimeID { return page.TimeID{At: h.CreatedAt, ID: h.ID} }

// Repeats reports whether a request with the Idempotency-Key of this operation is the request that
// created it. The hash covers the whole request, whatever its members mean to the operation. An
// operation that was requested on an earlier version has no hash, and any request with its key
// counts as the same.
func (h *Head) Repeats(hash []byte) bool {
	return h.RequestHash == nil || bytes.Equal(h.RequestHash, hash)
}

// End ends the operation.
func (h *Head) End(as State, at time.Time) {
	h.State, h.Version, h.EndedAt = as, h.Version+1, &at
}

// Actions lists the possible verbs; it is never nil.
func (h *Head) Actions() []string {
	can := []string{}
	for _, v := range Verbs {
		if _, may := moves[h.State][v]; may {
			can = append(can, string(v))
		}
	}
	return can
}

// Moved applies a verb. A resumed operation covers all items that it has found, because the person
// who resumes it has seen that number. Completed changes are kept. Fault: Conflict.
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

// MustBe returns a fault unless the operation is in one of the given states.
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

// Requested completes a new operation with the observations of its store. The operation halts
// immediately if there are more items than allowed.
func (h *Head) Requested(s Seen, destroys bool) {
	h.Snapshot, h.Expected = s.Snapshot, &s.Count
	h.HaltsAbove = AtMost(h.HaltsAbove, s.Count, destroys)
	h.Halts(s.Count)
}

// Halts halts the operation if it has found more items than it may change, before it changes the
// first excess item. found includes the items already changed.
func (h *Head) Halts(found int64) bool {
	if h.HaltsAbove == nil || found <= *h.HaltsAbove {
		return false
	}
	h.State, h.Version, h.HaltReason, h.Found = Halted, h.Version+1, HaltExpected, &found
	return true
}

// VerbHalt is the verb of the audit record of a halt.
const VerbHalt = "halt"

// AuditHalt returns the audit record of an operation that has halted; id is the record's id.
func (h *Head) AuditHalt(id uuid.UUID, kind operator.Kind, at time.Time) operator.Action {
	detail := fmt.Appendf(nil, `{"found":%d,"halt_reason":%q,"halts_above":%d}`, *h.Found, h.HaltReason, *h.HaltsAbove)
	return operator.By{}.Did(id, h.TenantID, at, kind, h.ID.String(), VerbHalt, detail)
}

// MustCount reports whether a step must count the remaining items before it changes n of them. It
// must do so in the first step, and in one that would exceed the limit.
func (h *Head) MustCount(touched, n int64) bool {
	return h.HaltsAbove != nil && (touched == 0 || touched+n > *h.HaltsAbove)
}
