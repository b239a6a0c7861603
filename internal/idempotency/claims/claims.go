// Package claims tracks the Idempotency-Keys of the requests that a node is processing: the claim
// with which a request's first transaction stores its key, and the keys and IDs that no other
// request may use in the meantime.
package claims

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/idempotency"
)

// Store stores keys and answers.
type Store interface {
	// Find returns what is stored for a key, nil if nothing is.
	Find(ctx context.Context, k idempotency.Key) (*idempotency.Kept, error)
	// Keep stores the answer, and also the key if no transaction of the request did.
	Keep(ctx context.Context, c *Claim, a idempotency.Answer) error
	// Drop deletes the key of a request that was rejected after it was stored.
	Drop(ctx context.Context, c *Claim) error
}

// Claim is the key of the request in progress. The request's first transaction that writes anything
// also stores the key.
type Claim struct {
	idempotency.Key
	ID uuid.UUID // ID of this request, which identifies its row

	mu     sync.Mutex
	stored bool
}

// NewClaim returns the claim of a request. id must be new.
func NewClaim(k idempotency.Key, id uuid.UUID) *Claim { return &Claim{Key: k, ID: id} }

// Stored reports whether a transaction of the request stored the key or may have done so: a commit
// that returned an error may have succeeded.
func (c *Claim) Stored() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stored
}

// SetStored records that the key is stored or may be.
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

// Of returns the claim of the request in progress, nil if the request has no key or its key is not
// stored.
func Of(ctx context.Context) *Claim {
	c, _ := ctx.Value(claimKey{}).(*Claim)
	return c
}
