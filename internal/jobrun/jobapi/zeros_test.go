package jobapi_test

import "testing"

func TestZeroIsNotTakenForAbsent(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	e.RefusesZeros(60)
}
