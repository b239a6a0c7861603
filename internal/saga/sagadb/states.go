package sagadb

import (
	"strconv"
	"strings"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// The states in statements are those of the rules. Values rather than parameters, because the
// predicates of the partial indexes have them.

// is is the condition that column has the state.
func is(column string, s saga.State) string { return column + " = " + strconv.Itoa(int(s)) }

// isNot is the condition that column has another state.
func isNot(column string, s saga.State) string { return column + " <> " + strconv.Itoa(int(s)) }

// isForward is the condition that column has a state in which a saga runs forward.
func isForward(column string) string { return among(column, saga.States, saga.State.Forward) }

// among returns the condition that column is one of the states of that kind; "" when
// there is none.
func among(column string, states []saga.State, kind func(saga.State) bool) string {
	list := postgres.NumberList(states, kind)
	switch {
	case list == "":
		return ""
	case !strings.Contains(list, ","):
		return column + " = " + list
	}
	return column + " IN (" + list + ")"
}
