package access

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
)

// Store stores API keys. storetest.Keys tests its implementations. It is safe for concurrent use.
// Errors that are not faults are outages.
//
// scope limits a call to the keys of one tenant and hides all others, including keys for any
// tenant; nil means every key.
type Store interface {
	// Create stores a key durably. It returns ErrPrefixTaken if there is a key with this prefix in
	// any tenant.
	Create(ctx context.Context, k Key) error
	// Find returns the key with a token's prefix, in any tenant and whether valid or not, because
	// it is called before the caller is known. Fault: NotFound.
	Find(ctx context.Context, prefix string) (Key, error)
	// Get returns a key. Fault: NotFound.
	Get(ctx context.Context, scope *uuid.UUID, id uuid.UUID) (Key, error)
	// List returns a page of keys, newest first by id.
	List(ctx context.Context, scope *uuid.UUID, f Filter) (page.Of[Key], error)
	// Revoke revokes a key durably and returns it. A key that was already revoked keeps its first
	// revocation. Fault: NotFound.
	Revoke(ctx context.Context, scope *uuid.UUID, id uuid.UUID, by string, at time.Time) (Key, error)
	// Used stores when keys were used. It ignores unknown ids, and times that are less than a
	// minute after the stored time.
	Used(ctx context.Context, at map[uuid.UUID]time.Time) error
}

// ErrPrefixTaken means that a random prefix occurred twice or that a key was stored twice.
var ErrPrefixTaken = errors.New("an API key with this prefix already exists")

// UsedEvery is the precision of the time of a key's last use.
const UsedEvery = time.Minute

// Filter selects the keys of a list. Now is required if Active is set.
type Filter struct {
	Active                  *bool // only keys that are valid at Now, or only those that are not
	Now                     time.Time
	page.Request[uuid.UUID] // after an id
}
