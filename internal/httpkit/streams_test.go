package httpkit

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/tenant"
)

func TestStreamsAreLimitedInTotalAndPerTenant(t *testing.T) {
	as := func(n byte) context.Context {
		return WithRequest(t.Context(), &Request{Tenant: tenant.Tenant{ID: uuid.UUID{n}}})
	}
	var open int
	s := Streams{Max: 3, MaxOfTenant: 2, Changed: func(n int) { open = n }}
	var leave []func()
	for _, step := range []struct {
		tenant byte
		leaves int // which earlier one ends before; -1: none
		fits   bool
		open   int
	}{
		{1, -1, true, 1}, {1, -1, true, 2}, {1, -1, false, 2}, // the tenant's limit
		{2, -1, true, 3}, {3, -1, false, 3}, // the node's
		{3, 0, true, 3}, {2, -1, false, 3}, {1, 1, true, 3},
	} {
		if step.leaves >= 0 {
			leave[step.leaves]()
		}
		l, err := s.Enter(as(step.tenant))
		if leave = append(leave, l); err == nil != step.fits || open != step.open {
			t.Errorf("%+v: %v, %d open", step, err, open)
		}
		if err != nil && (fault.KindOf(err) != fault.TooMany || StatusOf(fault.KindOf(err)) != 429) {
			t.Errorf("%+v: %v", step, err)
		}
	}
}
