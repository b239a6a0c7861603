package postgres_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/postgres"
)

func TestHotSagaStatementsAreThoseThatWereMeasured(t *testing.T) {
	t.Parallel()
	wantStatements(t, "testdata/sagas", postgres.HotSagaStatements)
}
