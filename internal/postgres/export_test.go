package postgres

import (
	"database/sql"
	"testing"

	"github.com/skald-saga/skald/internal/saga"
)

// What the tests of plans need: the very statements that the stores send, and
// the connections they send them on.
const (
	ClaimSagas   = claimSagas
	CountLive    = countLive
	DueSagas     = dueSagas
	ExpireKeys   = expireKeys
	GetKey       = getKey
	GetSaga      = getSaga
	LoadLogs     = loadLogs
	LoadSagas    = loadSagas
	OverdueSagas = overdueSagas
	ReleaseSagas = releaseSagas
	SagaColumns  = sagaColumns
	LogColumns   = logColumns
	StepLogs     = stepLogs
)

var (
	ActiveKey   = activeKey
	CommitSagas = commitSagas
	CountSagas  = countSagas
	CreateSagas = createSagas
	ListSagas   = listSagas
)

// Points returns the connections of prepared reads by key.
func Points(db *DB) *sql.DB { return db.point.DB }

// Writers returns the connections that write sagas.
func Writers(db *DB) *sql.DB { return db.write.DB }

// Leases returns the connection of the leases.
func Leases(db *DB) *sql.DB { return db.lease.DB }

// CommitParameters are what Commit sends for batch.
func CommitParameters(t *testing.T, batch []saga.Change) []any {
	t.Helper()
	args, err := changeColumns(batch)
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// CreateParameters are what Create sends for batch.
func CreateParameters(t *testing.T, batch []saga.NewSaga) []any {
	t.Helper()
	args, err := newSagaColumns(batch)
	if err != nil {
		t.Fatal(err)
	}
	return args
}
