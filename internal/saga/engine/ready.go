package engine

import (
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// ready holds sagas that are due, to be loaded and driven. Tenants take turns, so that a tenant
// whose sagas all become due at once does not delay the others. The sagas of one tenant are taken
// in the order in which they became due. The zero value is empty.
type ready struct {
	of    map[uuid.UUID][]saga.Ref // by tenant; no list is empty
	turns []uuid.UUID              // the tenants in of, the next one first
	n     int
}

func (r *ready) push(ref saga.Ref) {
	if r.of == nil {
		r.of = map[uuid.UUID][]saga.Ref{}
	}
	if len(r.of[ref.Tenant]) == 0 {
		r.turns = append(r.turns, ref.Tenant)
	}
	r.of[ref.Tenant] = append(r.of[ref.Tenant], ref)
	r.n++
}

// pop takes the next saga. ready must not be empty.
func (r *ready) pop() saga.Ref {
	tenant := r.turns[0]
	r.turns = r.turns[1:]
	ref, rest := r.of[tenant][0], r.of[tenant][1:]
	if len(rest) > 0 {
		r.of[tenant] = rest
		r.turns = append(r.turns, tenant)
	} else {
		delete(r.of, tenant)
	}
	r.n--
	return ref
}

func (r *ready) len() int { return r.n }
