package claims

import (
	"sync"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/idempotency"
)

// Requests holds the Idempotency-Keys and client-supplied saga IDs of the requests that this node
// is storing at the moment. The store never accepts a second saga with the same key or ID; Requests
// keeps a second request out of the batch of the first. The zero value is ready to use.
type Requests struct {
	mu    sync.Mutex
	names map[name]struct{}
}

type name struct {
	tenant                uuid.UUID
	principal, route, key string
}

// Hold reserves the key and the ID of a request until release is called. key may be nil and id may
// be uuid.Nil. Fault: Conflict if another request holds either of them.
func (r *Requests) Hold(tenant, id uuid.UUID, key *idempotency.Key) (release func(), err error) {
	var names []name
	if key != nil {
		names = append(names, name{tenant, key.Principal, key.Route, key.Key})
	}
	if id != uuid.Nil {
		names = append(names, name{tenant: tenant, key: id.String()})
	}
	if names == nil {
		return func() {}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range names {
		if _, held := r.names[n]; held {
			return nil, fault.New(fault.Conflict, idempotency.CodeInUse, "a request with this Idempotency-Key or saga_id is in progress: retry later")
		}
	}
	if r.names == nil {
		r.names = map[name]struct{}{}
	}
	for _, n := range names {
		r.names[n] = struct{}{}
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, n := range names {
			delete(r.names, n)
		}
	}, nil
}
