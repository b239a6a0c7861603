package postgres_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/postgres"
)

func TestHotRunStatementsAreThoseThatWereMeasured(t *testing.T) {
	t.Parallel()
	wantStatements(t, "testdata/runs", postgres.HotRunStatements)
}
