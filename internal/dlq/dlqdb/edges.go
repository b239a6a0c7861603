package dlqdb

import (
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// Statements that move many letters at once ask the transition table as well: what
// they say of statuses is made of it, once, when the program starts.

// Leaves compares a column with the statuses that any of the triggers leads away
// from; no letter is of them when there are none.
func Leaves(column string, on ...dlq.Trigger) string { return IsOneOf(column, dlq.From(on...)) }

// IsOneOf compares a column with words; with none, nothing is one of them.
func IsOneOf[T ~string](column string, words []T) string {
	switch len(words) {
	case 0:
		return "false"
	case 1:
		return column + " = '" + string(words[0]) + "'"
	}
	return column + " IN (" + postgres.QuotedList(words) + ")"
}

// retriedUnasked tells whether letters, alias at, are of a source whose letters may be
// retried unasked.
func retriedUnasked(at string) string { return IsOneOf(at+".source", dlq.Automatic) }

// retryEnds are the triggers of whoever ends a retry.
var retryEnds = []dlq.Trigger{dlq.Acked, dlq.RetryFailed, dlq.RetryWithdraw, dlq.LastFailed}
