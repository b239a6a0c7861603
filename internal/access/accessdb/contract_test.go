package accessdb_test

import (
	"testing"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/access/accessdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/storetest"
)

var _ access.Store = (*accessdb.Keys)(nil)

func TestKeysKeepTheContract(t *testing.T) { storetest.Keys(t, pgtest.OpenEnv) }
