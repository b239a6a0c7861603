// Package ledger is the durable log of a participant without a database, and the checker of an
// orchestrator. A participant writes one [Entry] for every call it receives into a [Book], an
// append-only file that is on disk before the call is answered. A [Checker] reads the entries
// afterwards and reports where the orchestrator broke a promise: a step applied twice, an undo in
// the wrong order, a retry under a new key.
//
// The ledger is independent evidence: nothing in it comes from the orchestrator's own database, so
// it cannot contain the same errors.
package ledger

import (
	"encoding/json"
	"net/http"
	"time"
)

// Action is the direction in which a step was called.
type Action string

// The two directions of a step, with their values in the X-Saga-Action header.
const (
	Execute    Action = "execute"
	Compensate Action = "compensate"
)

// Effect is what a call changed at the participant.
type Effect string

const (
	// Applied means that this call changed something: an execute did its work, or a compensate
	// undid it.
	Applied Effect = "applied"
	// Dup means that the key was known: nothing changed, and the first answer was repeated.
	Dup Effect = "dup"
	// RefusedLate means that the call was overtaken by others: an execute that arrived after its
	// compensate, or a call from a node that no longer owned the saga.
	RefusedLate Effect = "refused_late"
	// RefusedBusiness means that a business rule forbade the execute.
	RefusedBusiness Effect = "refused_business"
	// None means that nothing changed: a compensate with nothing to undo, a
	// failure before any work was done, or a call that broke the contract.
	None Effect = "none"
)

// Reply is what happened to the answer.
type Reply string

const (
	// Sent means that the answer was written to the connection at once. The participant cannot know
	// whether the caller was still there to read it.
	Sent Reply = "sent"
	// Delayed means that the answer was written after a pause for which the caller may not have
	// waited.
	Delayed Reply = "delayed"
	// Dropped means that the connection was closed without an answer.
	Dropped Reply = "dropped"
	// Garbage means a 2xx answer whose body claims to be JSON but is not.
	Garbage Reply = "garbage"
)

// Entry is one call that a participant received. It is on disk before the call
// is answered.
type Entry struct {
	// Seq numbers the calls of one ledger from 1 in the order of their arrival. Lines are in the
	// order of their effects: a call that was delayed before it was processed has a lower Seq than
	// the lines before it.
	Seq int64 `json:"seq"`
	// Time is the time of arrival, in UTC, by the participant's clock.
	Time time.Time `json:"time"`
	// Participant is the service that was called: inventory, payments, orders
	// or steps.
	Participant string `json:"participant"`
	Tenant      string `json:"tenant,omitempty"`
	Saga        string `json:"saga"`
	Step        string `json:"step"`
	Action      Action `json:"action"`
	// Attempt counts from 1 within (saga, step, action); 0 if the caller did not send it.
	Attempt int `json:"attempt"`
	// Key is the caller's Idempotency-Key.
	Key string `json:"key"`
	// Fence is the caller's lease epoch, 0 if the caller did not send it.
	Fence int64 `json:"fence"`
	// BodySHA256 is the lower-case hex digest of the request body.
	BodySHA256 string `json:"body_sha256"`
	Effect     Effect `json:"effect"`
	Reply      Reply  `json:"reply"`
	// Status is the HTTP status of the answer, even if the answer was then dropped; 0 if the
	// request was dropped before it was processed.
	Status int `json:"status"`
	// Answer is the body of the answer. It is stored with the decision, so that a repeated key gets
	// the same bytes after a restart. Otherwise empty.
	Answer json.RawMessage `json:"answer,omitempty"`
	// Request is the body of a call that the participant accepted, so that the call can be replayed
	// after a restart.
	Request string `json:"request,omitempty"`
}

// Decided reports whether e settled its key: from then on the participant repeats the same answer.
func (e Entry) Decided() bool {
	return e.Status == http.StatusOK || e.Status == http.StatusConflict
}

// Done reports whether e told its caller that the call succeeded.
func (e Entry) Done() bool {
	return e.answered() && e.Status >= 200 && e.Status < 300
}

// Patient reports whether e told its caller that nothing was done and to retry later: 425 or 429.
func (e Entry) Patient() bool {
	return e.answered() && (e.Status == http.StatusTooEarly || e.Status == http.StatusTooManyRequests)
}

// Refused reports whether e told its caller that the call is refused permanently. 408, 425 and 429
// ask for a retry and are not refusals.
func (e Entry) Refused() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.answered() && e.Status >= 400 && e.Status < 500
}

func (e Entry) answered() bool { return e.Reply == Sent || e.Reply == Delayed }
