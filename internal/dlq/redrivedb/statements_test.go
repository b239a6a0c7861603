package redrivedb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/dlq/redrivedb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestHotRedriveStatementsAreThoseThatWereMeasured(t *testing.T) {
	t.Parallel()
	pgtest.WantStatements(t, "testdata/statements", redrivedb.HotRedriveStatements)
}
