package jobdb

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// AsLeader calls f with a transaction of the leader of a term.
func AsLeader(ctx context.Context, db *postgres.DB, t jobrun.Term, f func(*sqlx.Tx) error) error {
	return NewDB(db, jobrun.Chance{}, nil).AsLeader(ctx, t, f)
}

// PageOfRuns and CountOfRuns are the queries of a list of job runs.
func PageOfRuns(tenant uuid.UUID, f jobrun.Filter, p page.ByTime) (string, []any) {
	return pageOfRuns(tenant, f, p)
}

func CountOfRuns(tenant uuid.UUID, f jobrun.Filter, most int64) (string, []any) {
	return countOfRuns(tenant, f, page.ByTime{TotalCap: most})
}

// SlotsOf is the query of the calendar. RecentEnds is the query for how the last runs of
// definitions ended.
var SlotsOf, RecentEnds = slotsOf, recentEnds

// LockUnclaimed is the query for the runs that follow a change of their definition.
var LockUnclaimed = lockUnclaimed.Text

// HotRunStatements are the statements of the hot path of job runs, by the names of
// their files in testdata.
var HotRunStatements = map[string]string{
	"run_insert": storeRuns.Text, "run_claim": claimRuns.Text, "run_claim_queue": claimOfQueue.Text,
	"run_claimed": claimed,
	"run_start":   startRuns.Text, "run_finish": finishRuns.Text, "run_lock": lockOneRun, "run_read": readRuns,
	"run_get":    getRun,
	"run_events": storeRunEvents.Text, "run_attempts": storeRunAttempts.Text,
}

// RunParameters are the arguments that store a batch of new runs.
func RunParameters(tb testing.TB, batch []jobrun.Run) []any {
	tb.Helper()
	_, args, err := (&DB{DB: new(postgres.DB)}).newRuns(batch)
	if err != nil {
		tb.Fatal(err)
	}
	return args
}
