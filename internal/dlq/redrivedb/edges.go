package redrivedb

import (
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// The conditions on states of redrives and their items are made from the transition
// tables, once, when the program starts.

var (
	// active is the condition that redrive d has work to do.
	active = "d.state" + postgres.Among(dlq.RedrivesFrom(dlq.BeginRedrive, dlq.CompleteRedrive))
	// running is the condition that redrive d is in a state in which letters are driven.
	running = "d.state" + postgres.Among(dlq.Running)
	// recounts is the condition that the stored and the new state are the transition after which a
	// redrive's counters start again at zero.
	recounts = "state" + postgres.Among([]dlq.RedriveState{dlq.Recounting.From}) + " AND " +
		"@r.state::varchar" + postgres.Among([]dlq.RedriveState{dlq.Recounting.To})
)

// waiting is the condition that an item's state, in column, allows it to be taken or
// skipped.
func waiting(column string) string {
	return column + postgres.Among(dlq.ItemsFrom(dlq.ItemChosen, dlq.ItemRefused, dlq.ItemActed))
}

// taken is the condition that an item's state, in column, has a transition at the end of a
// drive.
func taken(column string) string {
	return column + postgres.Among(dlq.ItemsFrom(dlq.ItemDriven, dlq.ItemSettled))
}
