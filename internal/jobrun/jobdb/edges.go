package jobdb

import (
	"slices"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// Statements that move many runs at once derive their conditions from the transition table
// (jobrun.Edges) when the process starts, so they cannot make an illegal transition. Other
// statements take their lists of states from the rules as well.

// movableTo is the condition that the mover by may move a run from its current state to another.
func movableTo(to jobrun.State, by jobrun.Mover) string {
	return postgres.Among(jobrun.From(to, by))
}

// phaseMovableTo is movableTo for the column phase, which the indexes contain. A phase that stands
// for several states is included only if the transition is legal from each of them.
func phaseMovableTo(to jobrun.State, by jobrun.Mover) string {
	from := jobrun.From(to, by)
	phases := slices.DeleteFunc(jobrun.Phases(from), func(p jobrun.Phase) bool {
		return slices.ContainsFunc(jobrun.States,
			func(s jobrun.State) bool { return s.Phase() == p && !slices.Contains(from, s) })
	})
	return postgres.Among(phases)
}

// Is is the condition that a column has one of the values in words. If words is empty, the
// condition is false.
func Is[W ~string](words ...W) string { return postgres.Among(words) }

// Conditions on the column phase, which the indexes contain.
var (
	// Unfinished is the condition that a run has not ended.
	Unfinished = postgres.Among(jobrun.Phases(jobrun.ActiveStates))
	// Finished is the condition that a run has ended.
	Finished = postgres.Among(jobrun.Phases(jobrun.TerminalStates))
	// HoldsKey is the condition that a run holds its concurrency key, whether or not it has been
	// admitted.
	HoldsKey = postgres.Among(jobrun.Phases(jobrun.HoldingStates))
	// Claimable is the condition that a run, once admitted, may be claimed.
	Claimable = phaseMovableTo(jobrun.Assigned, jobrun.Worker)
	// Waits, WithWorker and WaitsAgain are the conditions that a run has never been assigned, that
	// a worker holds it, and that it has lost its worker.
	Waits      = postgres.Among(jobrun.Phases([]jobrun.State{jobrun.Pending}))
	WithWorker = postgres.Among([]jobrun.Phase{jobrun.Held})
	WaitsAgain = postgres.Among(jobrun.Phases([]jobrun.State{jobrun.Orphaned}))
)

// Movable is the condition that a state equals from if the mover by may move a run from there to
// another state; otherwise it is false.
func Movable(from, to jobrun.State, by jobrun.Mover) string {
	return postgres.Among(slices.DeleteFunc(jobrun.From(to, by), func(s jobrun.State) bool { return s != from }))
}
