package dlqdb

import (
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// The conditions of statements that change many letters at once are also derived from the
// transition table and the status lists in the rules. These statements are built once, when the
// program starts.

// Leaves returns the condition that a column contains a status from which one of the triggers
// leads. It is false if there is no such status.
func Leaves(column string, on ...dlq.Trigger) string { return column + postgres.Among(dlq.From(on...)) }

// notDiscarded is the condition that an ended letter m was not discarded.
var notDiscarded = "m.resolution <> '" + string(dlq.Discarded) + "'"

// retriedAutomatically returns the condition that letters with the alias at come from a source
// whose letters may be retried automatically.
func retriedAutomatically(at string) string { return at + ".source" + postgres.Among(dlq.Automatic) }

// CollectedBy selects the running redrives, alias d, that hold letter m. Use it in a scalar
// subquery: as a join, it would read all items of all redrives.
var CollectedBy = `FROM dlq.dlq_redrives d JOIN dlq.dlq_redrive_items i ON i.redrive_id = d.id AND i.message_id = m.id
	  WHERE d.tenant_id = m.tenant_id
	    AND d.started_at IS NOT NULL
	    AND d.ended_at IS NULL
	    AND i.state` + postgres.Among(dlq.Holding)

// collected is the condition that a redrive holds letter m.
var collected = `coalesce((SELECT true ` + CollectedBy + ` LIMIT 1), false)`

// retryEnds are the triggers that end a retry.
var retryEnds = []dlq.Trigger{dlq.Acked, dlq.RetryFailed, dlq.RetryWithdraw, dlq.LastFailed}
