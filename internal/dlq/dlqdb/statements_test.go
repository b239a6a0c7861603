package dlqdb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestHotLetterStatementsAreThoseThatWereMeasured(t *testing.T) {
	t.Parallel()
	pgtest.WantStatements(t, "testdata/statements", dlqdb.HotLetterStatements)
}
