package dlqdb

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// The statements, exported for the tests of plans.
var Parents = parents.Text

var (
	MovedColumns     = movedColumns
	RevisionColumns  = revisionColumns
	PolicyColumns    = policyColumns
	LostRetries      = lostRetries
	FreedLetters     = freedLetters
	ClaimDue         = claimDue
	ColumnsOfLetters = LetterColumns
	AttemptColumns   = attemptTable.Selected("a")
	GroupColumns     = groupColumns
	InsertedLetters  = messageTable.Inserted()
	PushLetters      = pushLetters.Text
	PushAudited      = pushAudited.Text
	ArriveLetters    = arriveLetters.Text
	ArriveAlike      = arriveAlike.Text
	AtPlaces         = atPlaces.Text
	KnownLetters     = knownLetters
	GetLetter        = getLetter
	Lineage          = lineage
	RestoreLetter    = restoreLetter
	LetterAttempts   = letterAttempts
	LetterRevisions  = letterRevisions
	MarkBounced      = markBouncedLetters.Text
)

// PageOfLetters and CountOfLetters are the queries of a list.
func PageOfLetters(tenant uuid.UUID, q dlq.Query) (string, []any) { return LiveLetters.page(tenant, q) }

func CountOfLetters(tenant uuid.UUID, q dlq.Query) (string, []any) {
	return LiveLetters.count(tenant, q)
}

// PlacesOfLetters is the query that gathers sort keys, under the settings ByBitmaps.
func PlacesOfLetters(tenant uuid.UUID, q dlq.Query) (string, []any) {
	return LiveLetters.sortKeys(tenant, q)
}

const ByBitmaps = byBitmaps

// GatherLetters reads a page only by bitmaps, if that costs no more than cost. total is -1 if it is
// not known.
func GatherLetters(ctx context.Context, st *Letters, tenant uuid.UUID, q dlq.Query,
	cost float64) (letters []dlq.Letter, total int64, ok bool, err error) {
	f, err := st.gather(ctx, tenant, &LiveLetters, q, try{gather: true, cost: cost, within: 20 * time.Second})
	if f == nil {
		return nil, -1, false, err
	}
	return f.letters, f.total, true, err
}

// FindLetters reads a page as lists do, trying each method once.
func FindLetters(ctx context.Context, st *Letters, tenant uuid.UUID, q dlq.Query, inOrder,
	gathered time.Duration) (letters []dlq.Letter, total int64, err error) {
	f, err := st.find(ctx, tenant, &LiveLetters, q,
		[]try{{within: inOrder}, {gather: true, cost: math.Inf(1), within: gathered}})
	if err != nil {
		return nil, -1, err
	}
	return f.letters, f.total, nil
}

func PageOfArchive(tenant uuid.UUID, q dlq.Query) (string, []any) {
	return archivedLetters.page(tenant, q)
}

func batchFrom(tb testing.TB, batch []dlq.Letter) *newLetters {
	tb.Helper()
	c := batchOf(&postgres.DB{NewID: uuid.New}, len(batch))
	for i := range batch {
		if err := c.add(context.Background(), &batch[i]); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// PushParameters are the arguments of PushLetters for a batch.
func PushParameters(tb testing.TB, batch []dlq.Letter) []any {
	tb.Helper()
	return pushLetters.Args(batchFrom(tb, batch).bound()...)
}

// PushAuditedParameters are the arguments that Push sends for a batch, without an actor.
func PushAuditedParameters(tb testing.TB, batch []dlq.Letter) []any {
	tb.Helper()
	return pushAudited.Args(batchFrom(tb, batch).bound(pushedBy(operator.By{}, uuid.New, batch))...)
}

// ArriveParameters are the arguments that Arrive sends for a batch, and to which
// statement.
func ArriveParameters(tb testing.TB, batch []dlq.Letter) (statement string, args []any) {
	tb.Helper()
	insert, args := batchFrom(tb, batch).new()
	return insert.Text, args
}

// TermsOf are the terms of a letter that is not sealed.
func TermsOf(l *dlq.Letter) []int32 { return letterTerms(nil, l, false) }

// HotLetterStatements are the statements of the hot path of letters, by the names of
// their files in testdata.
var HotLetterStatements = map[string]string{
	"letter_arrive": arriveLetters.Text, "letter_arrive_alike": arriveAlike.Text,
	"letter_push": pushLetters.Text, "letter_push_told": pushAudited.Text,
	"letter_claim": claimDue, "letter_finish": finishLetters.Text, "letter_get": getLetter,
}
