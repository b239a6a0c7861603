package sagadb_test

import (
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/saga/statistics"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Sagas that were archived before migration 0263 have no error columns when they are restored.
func TestSagasWithoutColumnsOfErrorsAreGrouped(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	fill := pgtest.Observer(t, dsn)
	pgtest.Execute(t, fill, `SET session_replication_role = replica`) // no foreign key checks and no triggers
	if _, err := fill.ExecContext(t.Context(), fillLargeTable, time.Now().Add(-24*time.Hour), 8000); err != nil {
		t.Fatal(err)
	}
	got, err := sagadb.NewSagas(pgtest.Connect(t, dsn)).Errors(t.Context(), pgtest.Big, statistics.ErrorFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range got.Groups {
		undone := len(g.States) == 1 && g.States[0] == saga.Failed
		if g.Step != "" || g.Code != "" || (g.Action == saga.Compensate) != undone {
			t.Errorf("%+v", g)
		}
	}
	if len(got.Groups) == 0 || got.Examined == 0 {
		t.Errorf("%+v", got)
	}
}
