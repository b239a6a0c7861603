package registrydb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/saga/registrydb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/storetest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestParticipantsKeepTheContract(t *testing.T) { storetest.Participants(t, pgtest.OpenEnv) }

func TestTablesOfParticipantsAreThoseOfTheDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t)).SQL()
	pgtest.WantColumns(t, db, "saga.participants", registrydb.ParticipantTable.Nullable(), "base_url")
}
