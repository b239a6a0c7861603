package accessdb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/access/accessdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/storetest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

var (
	_ access.Store    = (*accessdb.Keys)(nil)
	_ access.Sessions = (*accessdb.Sessions)(nil)
)

func TestSessionsKeepTheContract(t *testing.T) {
	storetest.Sessions(t, accessdb.NewSessions(pgtest.Connect(t, pgtest.PlainLogin(t, testdb.DSN(t)))))
}

func TestKeysKeepTheContract(t *testing.T) { storetest.Keys(t, pgtest.OpenEnv) }
