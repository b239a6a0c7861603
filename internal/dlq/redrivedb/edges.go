package redrivedb

import (
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
)

// What statements say of the states of redrives and their items is made of the
// transition tables, once, when the program starts.

var (
	// active compares redrive d with the states in which it has something to do.
	active = dlqdb.IsOneOf("d.state", dlq.RedrivesFrom(dlq.BeginRedrive, dlq.CompleteRedrive))
	// running compares redrive d with the states in which letters are driven.
	running = dlqdb.IsOneOf("d.state", dlq.Running)
	// recounts tells that the stored state, and the one that a change makes of it, are the move
	// after which a redrive counts anew.
	recounts = dlqdb.IsOneOf("state", []dlq.RedriveState{dlq.Recounting.From}) + " AND " +
		dlqdb.IsOneOf("@r.state::varchar", []dlq.RedriveState{dlq.Recounting.To})
)

// waiting compares a column with the states that items are taken or skipped from.
func waiting(column string) string {
	return dlqdb.IsOneOf(column, dlq.ItemsFrom(dlq.ItemChosen, dlq.ItemRefused, dlq.ItemActed))
}

// taken compares a column with the states that the end of a drive leads away from.
func taken(column string) string {
	return dlqdb.IsOneOf(column, dlq.ItemsFrom(dlq.ItemDriven, dlq.ItemSettled))
}
