package sagadb

import (
	"strconv"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// The states in statements are those of the domain rules. They are written as values rather than
// parameters, because the predicates of the partial indexes contain them.

// is returns the condition that the column holds the state.
func is(column string, s saga.State) string { return column + " = " + strconv.Itoa(int(s)) }

// isNot returns the condition that the column holds another state.
func isNot(column string, s saga.State) string { return column + " <> " + strconv.Itoa(int(s)) }

// isForward returns the condition that the column holds a state in which a saga runs forward.
func isForward(column string) string {
	return column + postgres.Among(only(saga.States, saga.State.Forward))
}

// only returns the states that meet the condition.
func only(states []saga.State, kind func(saga.State) bool) (of []saga.State) {
	for _, s := range states {
		if kind(s) {
			of = append(of, s)
		}
	}
	return of
}

// isLive reports whether sagas in a state have not ended yet.
func isLive(s saga.State) bool { return !s.Terminal() }
