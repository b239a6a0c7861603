package postgres

import (
	"context"
	"database/sql"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/jobrun"
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

	LetterColumns   = letterColumns
	LockRunning     = lockRunning
	LostRetries     = lostRetries
	Parents         = parents
	MovedColumns    = movedColumns
	AttemptColumns  = attemptColumns
	RevisionColumns = revisionColumns
	GroupColumns    = groupColumns
	PolicyColumns   = policyColumns

	ClaimDeliveries = claimDeliveries
	ReadyWebhooks   = readyWebhooks
	RedeliverFailed = redeliverFailed
	Unpublished     = unpublished
)

var (
	ClaimChosen      = claimChosen
	FreedLetters     = freedLetters
	ClaimDue         = claimDue
	PushLetters      = pushLetters
	PushTold         = pushTold
	ArriveLetters    = arriveLetters
	ArriveAlike      = arriveAlike
	AtPlaces         = atPlaces
	KnownLetters     = knownLetters
	GetLetter        = getLetter
	Lineage          = lineage
	RestoreLetter    = restoreLetter
	LetterAttempts   = letterAttempts
	LetterRevisions  = letterRevisions
	Archivable       = archivable
	ArchiveFailed    = archiveFailed
	CountArchived    = countArchived
	CountFailed      = countFailed
	Expiring         = expiring
	ExpiryParameters = expiryParameters
	ListArchived     = listArchived
	ActionsQuery     = actionsQuery
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
	MarkBounced      = markBouncedLetters
	SealEvents       = ofEvents.seal
)

// InsertedLetters are the columns of a new letter.
func InsertedLetters() (names []string) {
	for _, c := range letterInserts {
		names = append(names, c.name)
	}
	return names
}

// PageOfLetters and CountOfLetters are the queries of a list.
func PageOfLetters(tenant uuid.UUID, q dlq.Query) (string, []any) { return liveLetters.page(tenant, q) }

func CountOfLetters(tenant uuid.UUID, q dlq.Query) (string, []any) {
	return liveLetters.count(tenant, q)
}

// PlacesOfLetters is the query that gathers letters, under the settings ByBitmaps.
func PlacesOfLetters(tenant uuid.UUID, q dlq.Query) (string, []any) {
	return liveLetters.sortKeys(tenant, q)
}

const ByBitmaps = byBitmaps

// GatherLetters reads a page by bitmaps alone, if that is not dearer than cost. total is -1 when it is not known.
func GatherLetters(ctx context.Context, st *Letters, tenant uuid.UUID, q dlq.Query, cost float64) (letters []dlq.Letter, total int64, ok bool, err error) {
	f, err := st.gather(ctx, tenant, &liveLetters, q, try{gather: true, cost: cost, within: 20 * time.Second})
	if f == nil {
		return nil, -1, false, err
	}
	return f.letters, f.total, true, err
}

// FindLetters reads a page as lists do, with one try of each way.
func FindLetters(ctx context.Context, st *Letters, tenant uuid.UUID, q dlq.Query, inOrder, gathered time.Duration) (letters []dlq.Letter, total int64, err error) {
	f, err := st.find(ctx, tenant, &liveLetters, q, []try{{within: inOrder}, {gather: true, cost: math.Inf(1), within: gathered}})
	if err != nil {
		return nil, -1, err
	}
	return f.letters, f.total, nil
}

func PageOfArchive(tenant uuid.UUID, q dlq.Query) (string, []any) {
	return archivedLetters.page(tenant, q)
}

// PushParameters are what PushLetters takes for batch.
func PushParameters(tb testing.TB, batch []dlq.Letter) []any {
	tb.Helper()
	c := newLetters{db: new(DB)}
	for i := range batch {
		if err := c.add(&batch[i]); err != nil {
			tb.Fatal(err)
		}
	}
	return c.parameters()
}

// PushToldParameters are what Push sends for batch, by nobody.
func PushToldParameters(tb testing.TB, batch []dlq.Letter) []any {
	tb.Helper()
	told, err := pushedBy(operator.By{}, batch)
	if err != nil {
		tb.Fatal(err)
	}
	return append(PushParameters(tb, batch), told...)
}

// ArriveParameters are what Arrive sends for batch, with ArriveAlike if alike, else
// with ArriveLetters.
func ArriveParameters(tb testing.TB, batch []dlq.Letter) (args []any, alike bool) {
	tb.Helper()
	c := newLetters{db: new(DB)}
	for i := range batch {
		if err := c.add(&batch[i]); err != nil {
			tb.Fatal(err)
		}
	}
	return c.parametersNew()
}

// TermsOf are what a letter that is not sealed is found by.
func TermsOf(l *dlq.Letter) []int32 { return letterTerms(l, false) }

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
func CommitParameters(tb testing.TB, batch []saga.Change) []any {
	tb.Helper()
	_, args, err := changeColumns(new(DB), batch)
	if err != nil {
		tb.Fatal(err)
	}
	return args
}

// CreateParameters are what Create sends for batch.
func CreateParameters(tb testing.TB, batch []saga.NewSaga) []any {
	tb.Helper()
	args, err := newSagaColumns(new(DB), batch)
	if err != nil {
		tb.Fatal(err)
	}
	return args
}

// AsLeader calls f with a transaction of the leader of a term.
func AsLeader(ctx context.Context, db *DB, t jobrun.Term, f func(*sqlx.Tx) error) error {
	return NewJobDB(db, nil).asLeader(ctx, t, f)
}

// PageOfRuns and CountOfRuns are the queries of a list of job runs.
func PageOfRuns(tenant uuid.UUID, f jobrun.Filter, p jobrun.Paging) (string, []any) {
	return pageOfRuns(tenant, f, p)
}

func CountOfRuns(tenant uuid.UUID, f jobrun.Filter, most int64) (string, []any) {
	return countOfRuns(tenant, f, most)
}

// SlotStates is what backfills ask of slots.
const SlotStates = slotStates

// What the sweeps of job runs look with.
const (
	FindKeys      = findKeys
	KeyCandidates = keyCandidates
	FindReady     = findReady
	CountBacklog  = countBacklog
	DueDefs       = dueDefinitions
	AdvanceDefs   = advanceDefinitions
)

// SweepFinds are what the sweeps that move or end runs look with; $1 is a limit,
// $2, if there is one, a duration.
var SweepFinds = map[string]string{
	"orphan": orphanUnstarted.find, "give up": orphanUnconfirmed.find, "doubt": doubtSilent.find, "lose": endLost.find,
	"time out": endOverdue.find, "end canceled": endStubborn.find, "end unwanted": endUnwanted.find,
}

// HotStatements are what the ways of sagas, letters and runs send to the database,
// by the names of their files in testdata/statements.
var HotStatements = map[string]string{
	"saga_create": createSagas, "saga_commit": commitSagas, "saga_commit_operated": commitOperated, "saga_claim": claimSagas,
	"saga_load": loadSagas, "saga_load_logs": loadLogs, "saga_get": getSaga, "saga_logs": stepLogs, "saga_restored": insertRestored,
	"letter_arrive": arriveLetters, "letter_arrive_alike": arriveAlike, "letter_push": pushLetters, "letter_push_told": pushTold,
	"letter_claim": claimDue, "letter_claim_chosen": claimChosen, "letter_finish": finishLetters, "letter_get": getLetter,
	"run_insert": storeRuns.Text, "run_claim": claimRuns, "run_claim_queue": claimOfQueue, "run_claimed": claimed, "run_start_claimed": startClaimed,
	"run_start": startRuns.Text, "run_finish": finishRuns.Text, "run_lock": lockOneRun, "run_read": readRuns, "run_get": getRun,
	"run_events": storeRunEvents.Text, "run_attempts": storeRunAttempts.Text,
}

// RunParameters are what a batch of new runs is stored with.
func RunParameters(tb testing.TB, batch []jobrun.Run) []any {
	tb.Helper()
	args, err := (&JobDB{DB: new(DB)}).newRuns(batch)
	if err != nil {
		tb.Fatal(err)
	}
	return args
}
