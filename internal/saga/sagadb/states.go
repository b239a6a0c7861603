package sagadb

import (
	"strconv"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// The states in statements are those of the rules. Values rather than parameters, because the
// predicates of the partial indexes have them.

// is returns the condition that column has the state.
func is(column string, s saga.State) string { return column + " = " + strconv.Itoa(int(s)) }

// isNot returns the condition that column has another state.
func isNot(column string, s saga.State) string { return column + " <> " + strconv.Itoa(int(s)) }

// isForward returns the condition that column has a state in which a saga runs forward.
func isForward(column string) string {
	return column + postgres.Among(only(saga.States, saga.State.Forward))
}

// only returns the states for which the condition holds.
func only(states []saga.State, kind func(saga.State) bool) (of []saga.State) {
	for _, s := range states {
		if kind(s) {
			of = append(of, s)
		}
	}
	return of
}

// isLive reports whether sagas in a state have not ended.
func isLive(s saga.State) bool { return !s.Terminal() }
