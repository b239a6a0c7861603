package redrivedb

import (
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// The conditions on states of redrives and their items are derived from the transition tables once,
// when the program starts.

var (
	// active is the condition that redrive d has work to do.
	active = "d.state" + postgres.Among(dlq.RedrivesFrom(dlq.BeginRedrive, dlq.CompleteRedrive))
	// running is the condition that redrive d is in a state in which letters are driven.
	running = "d.state" + postgres.Among(dlq.Running)
	// recounts is the condition that the change from the stored to the new state is the transition
	// after which a redrive's counters restart at zero.
	recounts = "state" + postgres.Among([]dlq.RedriveState{dlq.Recounting.From}) + " AND " +
		"@r.state::varchar" + postgres.Among([]dlq.RedriveState{dlq.Recounting.To})
)

// waiting returns the condition that an item's state, in column, allows it to be taken or skipped.
func waiting(column string) string {
	return column + postgres.Among(dlq.ItemsFrom(dlq.ItemChosen, dlq.ItemRefused, dlq.ItemActed))
}

// taken returns the condition that an item's state, in column, has a transition at the end of a
// drive.
func taken(column string) string {
	return column + postgres.Among(dlq.ItemsFrom(dlq.ItemDriven, dlq.ItemSettled))
}
