package access

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/rest/page"
)

// Store keeps API keys. Its implementations are tested by storetest.Keys.
// Safe for concurrent use. Errors that are no faults are outages.
//
// scope limits a call to the keys of one tenant; those of others, and those
// for any tenant, then do not exist. nil: every key.
type Store interface {
	// Create stores a key, durably on return. ErrPrefixTaken when there is a key
	// of this prefix, whosoever it is.
	Create(ctx context.Context, k Key) error
	// Find returns the key of a token's prefix, whosoever it is and whether or
	// not it counts: it is asked before anybody is known. Fault: NotFound.
	Find(ctx context.Context, prefix string) (Key, error)
	// Get returns a key. Fault: NotFound.
	Get(ctx context.Context, scope *uuid.UUID, id uuid.UUID) (Key, error)
	// List returns a page of keys, newest first by id.
	List(ctx context.Context, scope *uuid.UUID, f Filter) (page.Of[Key], error)
	// Revoke ends a key for good, durably on return, and returns it as it then
	// is. A revoked key stays as it was revoked first. Fault: NotFound.
	Revoke(ctx context.Context, scope *uuid.UUID, id uuid.UUID, by string, at time.Time) (Key, error)
	// Used records that keys were used at these times. A time less than a minute
	// after the recorded one is left out, and ids that do not exist are too.
	Used(ctx context.Context, at map[uuid.UUID]time.Time) error
}

// ErrPrefixTaken tells that chance gave one prefix twice, or that a key is
// stored again.
var ErrPrefixTaken = errors.New("an API key with this prefix already exists")

// UsedEvery is how precisely a key's last use is known, at best.
const UsedEvery = time.Minute

// Filter says which keys a list holds. Now is required when Active is set.
type Filter struct {
	Active                  *bool // only keys that count at Now, or only those that do not
	Now                     time.Time
	page.Request[uuid.UUID] // after an id
}
