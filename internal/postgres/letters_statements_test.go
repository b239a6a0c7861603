package postgres_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/postgres"
)

func TestHotLetterStatementsAreThoseThatWereMeasured(t *testing.T) {
	t.Parallel()
	wantStatements(t, "testdata/letters", postgres.HotLetterStatements)
}
