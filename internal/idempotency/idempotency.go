// Package idempotency defines what an Idempotency-Key promises: the request takes effect once, and
// a repetition gets the same answer. A store writes the key in the transaction of the effect. If no
// resource stores the key itself, the edge adds the answer as soon as it is known
// (docs/decisions/0064, package claims).
package idempotency

import (
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

// InUse is the fault for a key whose first request is still in progress.
func InUse() error {
	return fault.New(fault.Conflict, CodeInUse, "a request with this Idempotency-Key is in progress: retry later")
}

// Used is the fault for a key that was used for a different request.
func Used() error {
	return fault.New(fault.Invalid, CodeUsed, "this Idempotency-Key was used for another request: use a new key").
		With(fault.Field{Header: "Idempotency-Key", Code: "reused", Message: "was used for another request"})
}

// Key is an Idempotency-Key with its scope, and the hash of its request. It is stored in the
// transaction of that request (invariant F01) and kept for at least 24 hours.
type Key struct {
	TenantID  uuid.UUID
	Principal string // caller of the request
	Route     string // method and path template
	Key       string // at most 255 characters
	Hash      []byte // SHA-256 of method, path and canonical body
}

// Answer is the answer to the first request.
type Answer struct {
	Status         int
	ETag, Location string // "" none
	Body           []byte // nil: none, or Withheld
	Withheld       bool   // the answer was not kept because it contained a secret or was too large
}

// Kept is what is stored for a key.
type Kept struct {
	Hash   []byte
	Answer *Answer       // nil: the effect is stored, but there is no answer
	Age    time.Duration // of the effect
}
