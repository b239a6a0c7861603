// Package idempotency is what an Idempotency-Key promises where no resource carries the key
// itself: the request takes effect once, and the same request later gets the same
// answer. A store writes the key in the transaction of the effect; the edge adds the
// answer once it has one (docs/decisions/0064).
package idempotency

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

// CodeInUse is the code of InUse.
const CodeInUse = "REQ_IDEMPOTENCY_KEY_IN_USE"

// InUse is the fault of a key whose first request is still being worked on.
func InUse() error {
	return fault.New(fault.Conflict, CodeInUse, "a request with this Idempotency-Key is in progress: retry later")
}

// Key is an Idempotency-Key with what makes it unique, and the request it stands for.
type Key struct {
	Tenant    uuid.UUID
	Principal string // who asked
	Route     string // method and path template
	Key       string // at most 255 characters
	Hash      []byte // SHA-256 of the request
}

// Answer is what the first request was answered.
type Answer struct {
	Status         int
	ETag, Location string // "" none
	Body           []byte // nil: none, or Withheld
	Withheld       bool   // the answer held a secret or was too large: it is not kept
}

// Kept is what is known of a key.
type Kept struct {
	Hash   []byte
	Answer *Answer       // nil: the effect is stored, an answer is not
	Age    time.Duration // of the effect
}

// Store keeps keys and answers.
type Store interface {
	// Find returns what a key stands for; nil: nothing.
	Find(ctx context.Context, k Key) (*Kept, error)
	// Keep stores the answer, and the key with it if no transaction of the request did.
	Keep(ctx context.Context, c *Claim, a Answer) error
	// Drop forgets the key of a request that was refused after all.
	Drop(ctx context.Context, c *Claim) error
}

// Claim is the key of the request in work. Its first transaction that writes
// anything stores the key too.
type Claim struct {
	Key
	ID uuid.UUID // of this request, by which it knows its own row

	mu     sync.Mutex
	stored bool
}

// NewClaim returns the claim of a request. id is new.
func NewClaim(k Key, id uuid.UUID) *Claim { return &Claim{Key: k, ID: id} }

// Stored tells whether a transaction of the request stored the key, or may have:
// one whose commit failed can have been stored.
func (c *Claim) Stored() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stored
}

// SetStored records that the key is or may be stored.
func (c *Claim) SetStored() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored = true
}

type claimKey struct{}

// With returns ctx for the work on a request with a key.
func With(ctx context.Context, c *Claim) context.Context {
	return context.WithValue(ctx, claimKey{}, c)
}

// Of returns the claim of the request in work; nil: it has no key, or none to be kept.
func Of(ctx context.Context) *Claim {
	c, _ := ctx.Value(claimKey{}).(*Claim)
	return c
}
