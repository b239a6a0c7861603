package sagadb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/saga/statistics"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/storetest"
)

var (
	_ saga.Store         = (*sagadb.Sagas)(nil)
	_ saga.Ownership     = (*sagadb.Sagas)(nil)
	_ saga.Archive       = (*sagadb.Sagas)(nil)
	_ statistics.Reports = (*sagadb.Sagas)(nil)
	_ workflow.Store     = (*sagadb.Workflows)(nil)
	_ trail.Trail        = (*sagadb.Trail)(nil)
	_ trail.Chain        = (*sagadb.Trail)(nil)
)

func TestSagasKeepTheContract(t *testing.T)       { storetest.Sagas(t, pgtest.OpenEnv) }
func TestOwnershipKeepsTheContract(t *testing.T)  { storetest.Ownership(t, pgtest.Emptied(t, nil)) }
func TestCallbacksKeepTheContract(t *testing.T)   { storetest.Callbacks(t, pgtest.Emptied(t, nil)) }
func TestWorkflowsKeepTheContract(t *testing.T)   { storetest.Workflows(t, pgtest.OpenEnv) }
func TestTrailKeepsTheContract(t *testing.T)      { storetest.Trail(t, pgtest.OpenEnv) }
func TestTheArchiveKeepsTheContract(t *testing.T) { storetest.Archive(t, pgtest.OpenEnv) }

// The contract of gates lists waiting sagas; here it only counts them.
func TestManyThatWaitAreListedAsFewAre(t *testing.T) {
	sagadb.ReadEachThatWaits()
	storetest.Participants(t, pgtest.OpenEnv)
}
