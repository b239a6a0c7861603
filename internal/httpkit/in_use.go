package httpkit

import (
	"sync"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
)

// InUse are the Idempotency-Keys and client-given saga ids of requests that
// this node is storing right now. The store never accepts a second saga with one of
// them; this keeps the second out of the batch of the first.
type InUse struct {
	mu    sync.Mutex
	names map[inUseName]struct{}
}

type inUseName struct {
	tenant                uuid.UUID
	principal, route, key string
}

// Hold marks what a request names until release is called. key may be nil, id
// uuid.Nil. Fault: Conflict when another request holds either.
func (u *InUse) Hold(tenant, id uuid.UUID, key *saga.IdempotencyKey) (release func(), err error) {
	var names []inUseName
	if key != nil {
		names = append(names, inUseName{tenant, key.Principal, key.Route, key.Key})
	}
	if id != uuid.Nil {
		names = append(names, inUseName{tenant: tenant, key: id.String()})
	}
	if names == nil {
		return func() {}, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range names {
		if _, held := u.names[name]; held {
			return nil, fault.New(fault.Conflict, CodeKeyInUse, "a request with this Idempotency-Key or saga_id is in progress: retry later")
		}
	}
	if u.names == nil {
		u.names = map[inUseName]struct{}{}
	}
	for _, name := range names {
		u.names[name] = struct{}{}
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		for _, name := range names {
			delete(u.names, name)
		}
	}, nil
}
