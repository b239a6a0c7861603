package sweepdb

import (
	"context"

	"github.com/skald-saga/skald/internal/jobrun"
)

// AskToStop is what the sweep of keys does with runs that are replaced.
func (st *Sweeps) AskToStop(ctx context.Context, t jobrun.Term, asked []jobrun.Admission) (int, error) {
	return st.askToStop(ctx, t, asked)
}

// SlotStates is what backfills ask of slots.
const SlotStates = slotStates

// What the sweeps of job runs look with.
const (
	FindKeys      = findKeys
	KeyCandidates = keyCandidates
	FindReady     = findReady
	CountBacklog  = countBacklog
)

var (
	DueDefs     = dueDefinitions
	AdvanceDefs = advanceDefinitions.Text
)

// SweepFinds are what the sweeps that move or end runs look with; $1 is a limit,
// $2, if there is one, a duration.
var SweepFinds = map[string]string{
	"orphan": orphanUnstarted.find.Text, "give up": orphanUnconfirmed.find.Text, "doubt": doubtSilent.find.Text,
	"lose":     endLost.find.Text,
	"time out": endOverdue.find.Text, "end canceled": endStubborn.find.Text, "end unwanted": endUnwanted.find.Text,
}
