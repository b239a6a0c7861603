package postgres_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/postgres"
)

func TestHotRedriveStatementsAreThoseThatWereMeasured(t *testing.T) {
	t.Parallel()
	wantStatements(t, "testdata/redrives", postgres.HotRedriveStatements)
}
