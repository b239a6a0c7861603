// Package ledger is what a participant without a database writes to disk, and the judge of an
// orchestrator. A participant writes one [Entry] for every call it receives
// into a [Book], an append-only file that is on disk before the call is
// answered. A [Checker] reads the entries afterwards and says where the
// orchestrator broke a promise: a step applied twice, an undo in the wrong
// order, a retry under a new key.
//
// The ledger is the witness of the other side. Nothing in it comes from the
// orchestrator's own database, so it cannot be wrong in the same way.
package ledger

import (
	"encoding/json"
	"net/http"
	"time"
)

// Action says which direction of a step was called.
type Action string

// The two directions of a step, as the header X-Saga-Action names them.
const (
	Execute    Action = "execute"
	Compensate Action = "compensate"
)

// Effect says what a call changed at the participant.
type Effect string

const (
	// Applied means that this very call changed something: an execute did its
	// work, a compensate undid work that had been done.
	Applied Effect = "applied"
	// Dup means that the key was known: nothing changed, the first answer was
	// given again.
	Dup Effect = "dup"
	// RefusedLate means a call that others had overtaken: an execute that came after its
	// compensate, or a call of an owner of the saga that was no longer the newest.
	RefusedLate Effect = "refused_late"
	// RefusedBusiness means that a business rule forbade the execute.
	RefusedBusiness Effect = "refused_business"
	// None means that nothing changed: a compensate with nothing to undo, a
	// failure before any work was done, or a call that broke the contract.
	None Effect = "none"
)

// Reply says what happened to the answer.
type Reply string

const (
	// Sent means written to the connection at once. Whether the caller was
	// still there to read it, the participant cannot know.
	Sent Reply = "sent"
	// Delayed means written after a pause that the caller may not have waited for.
	Delayed Reply = "delayed"
	// Dropped means that the connection was closed without an answer.
	Dropped Reply = "dropped"
	// Garbage means a 2xx answer whose body is not the JSON it claims to be.
	Garbage Reply = "garbage"
)

// Entry is one call that a participant received. It is on disk before the call
// is answered.
type Entry struct {
	// Seq numbers the calls of one ledger from 1 in the order of their arrival.
	// Lines stand in the order of their effects: a call that hung for a while
	// before it was looked at has a lower Seq than the lines before it.
	Seq int64 `json:"seq"`
	// Time is the moment of arrival, UTC, on the participant's clock.
	Time time.Time `json:"time"`
	// Participant is the service that was called: inventory, payments, orders
	// or steps.
	Participant string `json:"participant"`
	Tenant      string `json:"tenant,omitempty"`
	Saga        string `json:"saga"`
	Step        string `json:"step"`
	Action      Action `json:"action"`
	// Attempt counts from 1 within (saga, step, action); 0 when the caller did
	// not say.
	Attempt int `json:"attempt"`
	// Key is the caller's Idempotency-Key.
	Key string `json:"key"`
	// Fence is the caller's lease epoch, 0 when it did not say.
	Fence int64 `json:"fence"`
	// BodySHA256 is the lower-case hex digest of the request body.
	BodySHA256 string `json:"body_sha256"`
	Effect     Effect `json:"effect"`
	Reply      Reply  `json:"reply"`
	// Status is the HTTP status of the answer, also when the answer was then
	// dropped; 0 when the request was dropped before it was looked at.
	Status int `json:"status"`
	// Answer is the body of the answer, kept with the decision it answers, so
	// that a repeated key gets the same bytes after a restart. Empty elsewhere.
	Answer json.RawMessage `json:"answer,omitempty"`
	// Request is the body of a call that the participant took in, so that it can be asked again
	// after a restart.
	Request string `json:"request,omitempty"`
}

// Decided reports whether e settled its key: from then on the participant
// gives the same answer to it.
func (e Entry) Decided() bool {
	return e.Status == http.StatusOK || e.Status == http.StatusConflict
}

// Done reports whether e told its caller that the call succeeded.
func (e Entry) Done() bool {
	return e.answered() && e.Status >= 200 && e.Status < 300
}

// Patient reports whether e told its caller that nothing was done and to come
// back later: 425 or 429.
func (e Entry) Patient() bool {
	return e.answered() && (e.Status == http.StatusTooEarly || e.Status == http.StatusTooManyRequests)
}

// Refused reports whether e told its caller that the call is refused permanently. 408, 425 and 429
// ask for patience and are not refusals.
func (e Entry) Refused() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.answered() && e.Status >= 400 && e.Status < 500
}

func (e Entry) answered() bool { return e.Reply == Sent || e.Reply == Delayed }
