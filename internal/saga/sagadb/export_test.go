package sagadb

import (
	"testing"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// The exact statements that the stores send, for the tests of query plans.
const (
	CountLive    = countLive
	DueSagas     = dueSagas
	ExpireKeys   = expireKeys
	ReleaseSagas = releaseSagas
	CallsTo      = callsTo
)

var (
	OverdueSagas     = overdueSagas
	CountCompleted   = countCompleted
	ArchiveCompleted = archiveCompleted
	ClaimSagas       = claimSagas
	ArchivedLogs     = archivedLogs
	GetArchived      = getArchived
	LoadLogs         = loadLogs
	LoadSagas        = loadSagas
	SagaColumns      = sagaColumns
	LogColumns       = logColumns
	SagaTable        = sagaTable
	LogTable         = logTable
	Archivable       = archivable
	ArchiveFailed    = archiveFailed
	CountArchived    = countArchived
	CountFailed      = countFailed
	Expiring         = expiring
	ExpiryParameters = expiryParameters
	ListArchived     = listArchived
	ActiveKey        = activeKey
	CommitSagas      = commitSagas.Text
	CountSagas       = countSagas
	CreateSagas      = createSagas.Text
	EventsQuery      = eventsQuery
	GroupErrors      = groupErrors
	FeedQuery        = feedQuery
	ListSagas        = listSagas
	GetKey           = getKey
	GetSaga          = getSaga
	StepLogs         = stepLogs
	CommitOperated   = commitOperated.Text
	CommitOnward     = commitOnward.Text
	CommitDriven     = commitDriven.Text
)

// CommitParameters returns the parameters that Commit sends for batch.
func CommitParameters(tb testing.TB, batch []saga.Change) []any {
	tb.Helper()
	_, args, err := changeColumns(new(postgres.DB), batch)
	if err != nil {
		tb.Fatal(err)
	}
	return args
}

// CommitText returns the statement that Commit sends for batch.
func CommitText(tb testing.TB, batch []saga.Change) string {
	tb.Helper()
	text, _, err := changeColumns(new(postgres.DB), batch)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// CreateParameters returns the parameters that Create sends for batch.
func CreateParameters(tb testing.TB, batch []saga.NewSaga) []any {
	tb.Helper()
	_, args, err := newSagaColumns(new(postgres.DB), batch)
	if err != nil {
		tb.Fatal(err)
	}
	return args
}

// HotSagaStatements are the statements on the hot path of sagas, by the names of their
// files in testdata.
var HotSagaStatements = map[string]string{
	"saga_create": createSagas.Text, "saga_commit": commitSagas.Text, "saga_commit_operated": commitOperated.Text,
	"saga_commit_onward": commitOnward.Text, "saga_commit_driven": commitDriven.Text,
	"saga_claim": claimSagas,
	"saga_load":  loadSagas, "saga_load_logs": loadLogs, "saga_get": getSaga, "saga_logs": stepLogs,
	"saga_restored": insertBatch.Text,
}

// ReadEachThatWaits makes lists look up each waiting saga, even if few wait for a participant.
func ReadEachThatWaits() { fewWait = 0 }
