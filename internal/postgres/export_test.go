package postgres

import (
	"context"
	"database/sql"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/saga"
)

// What the tests of plans need: the very statements that the stores send, and
// the connections they send them on.
const (
	ClaimSagas       = claimSagas
	CountLive        = countLive
	DueSagas         = dueSagas
	ArchiveCompleted = archiveCompleted
	ArchivedLogs     = archivedLogs
	CountCompleted   = countCompleted
	GetArchived      = getArchived
	ExpireKeys       = expireKeys
	LoadLogs         = loadLogs
	LoadSagas        = loadSagas
	OverdueSagas     = overdueSagas
	ReleaseSagas     = releaseSagas
	SagaColumns      = sagaColumns
	LogColumns       = logColumns

	ClaimDeliveries = claimDeliveries
	ReadyWebhooks   = readyWebhooks
	RedeliverFailed = redeliverFailed
	Unpublished     = unpublished
)

var (
	Archivable       = archivable
	ArchiveFailed    = archiveFailed
	CountArchived    = countArchived
	CountFailed      = countFailed
	Expiring         = expiring
	ExpiryParameters = expiryParameters
	ListArchived     = listArchived
	ActiveKey        = activeKey
	CommitSagas      = commitSagas
	CountSagas       = countSagas
	CreateSagas      = createSagas
	EventsQuery      = eventsQuery
	FeedQuery        = feedQuery
	ListSagas        = listSagas
	GetKey           = getKey
	GetSaga          = getSaga
	StepLogs         = stepLogs
	CommitOperated   = commitOperated
	SealEvents       = sealEvents
)

func Lists(db *DB) *sql.DB { return db.list.DB }

var OfTenant = ofTenant

func ReadTenant(ctx context.Context, db *DB, tenant uuid.UUID, query string, row func(*sql.Rows) error, args ...any) error {
	return db.readTenant(ctx, tenant, query, row, args...)
}

func InTenant(ctx context.Context, db *DB, tenant uuid.UUID, f func(*sqlx.Tx) error) error {
	return db.inTenant(ctx, tenant, f)
}

func Pooled(db *DB) bool { return db.pooled }

// Points returns the connections of prepared reads by key.
func Points(db *DB) *sql.DB { return db.point.DB }

// Writers returns the connections that write sagas.
func Writers(db *DB) *sql.DB { return db.write.DB }

// Leases returns the connection of the leases.
func Leases(db *DB) *sql.DB { return db.lease.DB }

// CommitParameters are what Commit sends for batch.
func CommitParameters(t *testing.T, batch []saga.Change) []any {
	t.Helper()
	_, args, err := new(DB).changeColumns(batch)
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// CreateParameters are what Create sends for batch.
func CreateParameters(t *testing.T, batch []saga.NewSaga) []any {
	t.Helper()
	args, err := new(DB).newSagaColumns(batch)
	if err != nil {
		t.Fatal(err)
	}
	return args
}
