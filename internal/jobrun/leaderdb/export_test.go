package leaderdb

import (
	"context"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
)

// AskToStop does what the sweep of keys does with replaced runs.
func (st *Sweeps) AskToStop(ctx context.Context, t jobrun.Term, asked []jobrun.Admission) (int, error) {
	return st.askToStop(ctx, t, asked)
}

// AdmitFound admits runs like a sweep that found them a while ago.
func (st *Sweeps) AdmitFound(ctx context.Context, t jobrun.Term, ids ...uuid.UUID) (int, error) {
	return st.carryOut(ctx, t, &decisions{admit: ids})
}

// These are the conditions with which the sweeps of job runs find rows.
var (
	FindKeys      = findKeys
	KeyCandidates = keyCandidates
	FindReady     = findReady
	CountBacklog  = countBacklog
)

var (
	DueDefs     = dueDefinitions
	AdvanceDefs = advanceDefinitions.Text
)

// SweepFinds are the queries of the sweeps that change or end runs. $1 is a limit, and $2, if there
// is one, is a duration.
var SweepFinds = map[string]string{
	"orphan": orphanUnstarted.find.Text, "give up": orphanUnconfirmed.find.Text, "doubt": doubtSilent.find.Text,
	"lose":     endLost.find.Text,
	"time out": endOverdue.find.Text, "end canceled": endStubborn.find.Text, "end unwanted": endUnwanted.find.Text,
}
