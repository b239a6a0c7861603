package redrivedb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/dlq/redrivedb"
	"github.com/skald-saga/skald/internal/test/pgtest"
)

func TestTablesOfRedrivesAreThoseOfTheDatabase(t *testing.T) {
	t.Parallel()
	db := newRedriving(t).DB.SQL()
	pgtest.WantColumns(t, db, "dlq.dlq_redrives", redrivedb.RedriveTable.Nullable(),
		"gathered_at", "gathered_id", "gathered_seq", "allowance", "granted_at")
	pgtest.WantColumns(t, db, "dlq.dlq_redrive_items", redrivedb.ItemTable.Nullable(),
		"redrive_id", "tenant_id", "lease_until", "hands")
}
