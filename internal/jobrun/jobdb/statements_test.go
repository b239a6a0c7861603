package jobdb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestHotRunStatementsAreThoseThatWereMeasured(t *testing.T) {
	t.Parallel()
	pgtest.WantStatements(t, "testdata/statements", jobdb.HotRunStatements)
}
