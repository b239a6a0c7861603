package engine

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

func TestTenantsTakeTurns(t *testing.T) {
	var r ready
	ref := func(home, n byte) saga.Ref { return saga.Ref{Tenant: uuid.UUID{home}, ID: uuid.UUID{n}} }
	for n := range byte(100) {
		r.push(ref(1, n))
	}
	r.push(ref(2, 0))
	r.push(ref(3, 0))
	r.push(ref(2, 1))
	if r.len() != 103 {
		t.Errorf("%d are ready", r.len())
	}
	var got []saga.Ref
	for range 5 {
		got = append(got, r.pop())
	}
	r.push(ref(4, 0)) // its turn comes after the tenants that are already waiting
	for range 4 {
		got = append(got, r.pop())
	}
	want := []saga.Ref{ref(1, 0), ref(2, 0), ref(3, 0), ref(1, 1), ref(2, 1), ref(1, 2), ref(4, 0), ref(1, 3), ref(1, 4)}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for n := byte(5); r.len() > 0; n++ {
		if got := r.pop(); got != ref(1, n) {
			t.Fatalf("%v comes as number %d", got, n)
		}
	}
}
