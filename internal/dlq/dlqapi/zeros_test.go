package dlqapi_test

import "testing"

func TestZeroIsNotTakenForAbsent(t *testing.T) {
	t.Parallel()
	newQueueEdge(t).RefusesZeros(60)
}
