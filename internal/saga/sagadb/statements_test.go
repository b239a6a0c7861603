package sagadb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestHotSagaStatementsAreThoseThatWereMeasured(t *testing.T) {
	t.Parallel()
	pgtest.WantStatements(t, "testdata/statements", sagadb.HotSagaStatements)
}
