package sagadb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestTablesMatchTheDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t)).SQL()
	pgtest.WantColumns(t, db, "saga.saga_states", sagadb.SagaTable.Nullable(),
		"status", "error_message", "lifecycle", "ended_state", "parent_saga_id", "reverses_saga_id", "restored_at",
		"turned_at_step", "error_step", "error_action", "error_code", "attention_since", "txid")
	pgtest.WantColumns(t, db, "saga.saga_step_logs", sagadb.LogTable.Nullable(), "error_message")
}
