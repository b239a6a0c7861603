package jobrun_test

import (
	"slices"
	"testing"

	"github.com/skald-saga/skald/internal/jobrun"
)

func TestTheTableHasTheMovesOfTheSeed(t *testing.T) {
	for _, m := range []struct {
		from, to jobrun.State
		by       jobrun.Mover
	}{
		{jobrun.Pending, jobrun.Assigned, jobrun.Worker},  // J-06
		{jobrun.Assigned, jobrun.Running, jobrun.Worker},  // J-07
		{jobrun.Running, jobrun.Succeeded, jobrun.Worker}, // J-08
		{jobrun.Running, jobrun.Failed, jobrun.Worker},    // J-09
		{jobrun.Running, jobrun.TimedOut, jobrun.Worker},  // J-10
		{jobrun.Assigned, jobrun.Canceled, jobrun.Operator},
		{jobrun.Running, jobrun.Canceled, jobrun.Worker},
		{jobrun.Assigned, jobrun.Orphaned, jobrun.Leader},  // J-13
		{jobrun.Orphaned, jobrun.Assigned, jobrun.Worker},  // J-14
		{jobrun.Pending, jobrun.Canceled, jobrun.Operator}, // missing in the seed: trap X42
	} {
		if !jobrun.CanMove(m.from, m.to, m.by) {
			t.Errorf("%s → %s by %s is not in the table", m.from, m.to, m.by)
		}
	}
}

func TestNothingGoesBack(t *testing.T) {
	for _, e := range jobrun.Edges {
		if e.From.Terminal() {
			t.Errorf("%s → %s: a terminal run moves (J-15)", e.From, e.To)
		}
		if e.To == jobrun.Pending {
			t.Errorf("%s → %s goes back", e.From, e.To)
		}
	}
	if jobrun.CanMove(jobrun.Running, jobrun.Assigned, jobrun.Leader) {
		t.Error("a running run is assigned again without having been given up")
	}
}

// TestEachStateIsInOneListOfStates ensures that each new state is added to one of these lists, from
// which statements take their states.
func TestEachStateIsInOneListOfStates(t *testing.T) {
	for _, s := range jobrun.States {
		in := 0
		for _, list := range [][]jobrun.State{
			{jobrun.Pending, jobrun.Succeeded, jobrun.Skipped}, jobrun.HoldingStates, jobrun.UnsuccessfulStates,
		} {
			if slices.Contains(list, s) {
				in++
			}
		}
		if in != 1 {
			t.Errorf("%s is in %d lists, want one", s, in)
		}
		if active := s == jobrun.Pending || slices.Contains(jobrun.HoldingStates, s); active == s.Terminal() {
			t.Errorf("%s is pending or holding: %t, terminal: %t", s, active, s.Terminal())
		}
	}
}
