// Package claims is the Idempotency-Keys of the requests that a node is working on: the claim
// with which a request's first transaction stores its key, and the names that no second
// request may use meanwhile.
package claims

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
)

// Store keeps keys and answers.
type Store interface {
	// Find returns what a key stands for; nil: nothing.
	Find(ctx context.Context, k idempotency.Key) (*idempotency.Kept, error)
	// Keep stores the answer, and the key with it if no transaction of the request did.
	Keep(ctx context.Context, c *Claim, a idempotency.Answer) error
	// Drop forgets the key of a request that was refused after all.
	Drop(ctx context.Context, c *Claim) error
}

// Claim is the key of the request in work. Its first transaction that writes
// anything stores the key too.
type Claim struct {
	idempotency.Key
	ID uuid.UUID // of this request, by which it knows its own row

	mu     sync.Mutex
	stored bool
}

// NewClaim returns the claim of a request. id is new.
func NewClaim(k idempotency.Key, id uuid.UUID) *Claim { return &Claim{Key: k, ID: id} }

// Stored reports whether a transaction of the request stored the key, or may have: one whose commit
// failed can have been stored.
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
