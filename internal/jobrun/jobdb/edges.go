package jobdb

import (
	"slices"
	"strings"

	"github.com/skald-saga/skald/internal/jobrun"
)

// Statements that move many runs at once take their conditions from the table of
// transitions (jobrun.Edges), once, when the process starts: a move that is not in
// the table is in no statement either.

// stateIn compares a column with words of ours: with one, with several, with none.
func stateIn[W ~string](words []W) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + string(w) + "'"
	}
	switch len(quoted) {
	case 0:
		return ` IN (NULL)` // nothing is
	case 1:
		return ` = ` + quoted[0]
	}
	return ` IN (` + strings.Join(quoted, ", ") + `)`
}

// movableTo compares a state with those from which by may move a run to another.
func movableTo(to jobrun.State, by jobrun.Mover) string {
	return stateIn(jobrun.From(to, by))
}

// phaseMovableTo is movableTo for column phase, which indexes are by. Where a phase
// is several states, a run may be moved from each of them, or the phase is left out.
func phaseMovableTo(to jobrun.State, by jobrun.Mover) string {
	from := jobrun.From(to, by)
	phases := slices.DeleteFunc(jobrun.Phases(from), func(p jobrun.Phase) bool {
		return slices.ContainsFunc(jobrun.States,
			func(s jobrun.State) bool { return s.Phase() == p && !slices.Contains(from, s) })
	})
	return stateIn(phases)
}

// Movable compares a state with one of them, if by may move a run from it to another.
func Movable(from, to jobrun.State, by jobrun.Mover) string {
	return stateIn(slices.DeleteFunc(jobrun.From(to, by), func(s jobrun.State) bool { return s != from }))
}
