package jobdb

import (
	"slices"
	"strings"

	"github.com/skald-saga/skald/internal/jobrun"
)

// Statements that move many runs at once take their conditions from the table of
// transitions (jobrun.Edges), once, when the process starts: no statement can make a
// transition that is not in the table. Other statements take their lists of states from
// the rules as well.

// stateIn is the condition that a column holds one of words, which need no quoting;
// false without words.
func stateIn[W ~string](words []W) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + string(w) + "'"
	}
	switch len(quoted) {
	case 0:
		return ` IN (NULL)` // matches nothing
	case 1:
		return ` = ` + quoted[0]
	}
	return ` IN (` + strings.Join(quoted, ", ") + `)`
}

// movableTo is the condition that a state is one from which by may move a run to
// another.
func movableTo(to jobrun.State, by jobrun.Mover) string {
	return stateIn(jobrun.From(to, by))
}

// phaseMovableTo is movableTo for column phase, which the indexes contain. A phase that
// stands for several states is included only if the run may be moved from each of them.
func phaseMovableTo(to jobrun.State, by jobrun.Mover) string {
	from := jobrun.From(to, by)
	phases := slices.DeleteFunc(jobrun.Phases(from), func(p jobrun.Phase) bool {
		return slices.ContainsFunc(jobrun.States,
			func(s jobrun.State) bool { return s.Phase() == p && !slices.Contains(from, s) })
	})
	return stateIn(phases)
}

// Is is the condition that a column holds one of words; false without words.
func Is[W ~string](words ...W) string { return stateIn(words) }

// Conditions on column phase, which the indexes contain.
var (
	// Unfinished is the condition that a run has not ended.
	Unfinished = stateIn(jobrun.Phases(jobrun.ActiveStates))
	// Finished is the condition that a run has ended.
	Finished = stateIn(jobrun.Phases(jobrun.TerminalStates))
	// HoldsKey is the condition that a run holds its concurrency key even if it was not
	// admitted.
	HoldsKey = stateIn(jobrun.Phases(jobrun.HoldingStates))
	// Claimable is the condition that workers may claim a run once it was admitted.
	Claimable = phaseMovableTo(jobrun.Assigned, jobrun.Worker)
	// Waits, WithWorker and WaitsAgain are the conditions that a run was never assigned,
	// that a worker has it, and that its worker is gone.
	Waits      = stateIn(jobrun.Phases([]jobrun.State{jobrun.Pending}))
	WithWorker = stateIn([]jobrun.Phase{jobrun.Held})
	WaitsAgain = stateIn(jobrun.Phases([]jobrun.State{jobrun.Orphaned}))
)

// Movable is the condition that a state is from, if by may move a run from there to
// another; else false.
func Movable(from, to jobrun.State, by jobrun.Mover) string {
	return stateIn(slices.DeleteFunc(jobrun.From(to, by), func(s jobrun.State) bool { return s != from }))
}
