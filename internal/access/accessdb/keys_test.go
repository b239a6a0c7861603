package accessdb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/access/accessdb"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// TestIdentityOfAnAPIKeyIsImmutable bypasses the store, because the permissions of a key are fixed
// when it is created.
func TestIdentityOfAnAPIKeyIsImmutable(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	k := access.Key{ID: uuid.New(), Name: "a", Prefix: "aaaaaaaa", Hash: make([]byte, 32), Role: principal.Admin,
		CreatedBy: "x", CreatedAt: time.Now()}
	keys := accessdb.NewKeys(db)
	if err := keys.Create(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Revoke(t.Context(), nil, k.ID, "x", time.Now()); err != nil {
		t.Fatal(err)
	}
	for change, refused := range map[string]string{
		"role = 'auditor'":                      "only gets used and revoked",
		"bound_tenant_id = gen_random_uuid()":   "only gets used and revoked",
		"tenant_region = 'eu'":                  "only gets used and revoked",
		"queues = '{a}'":                        "only gets used and revoked",
		"hash = sha256('')":                     "only gets used and revoked",
		"expires_at = now() + interval '1 y'":   "only gets used and revoked",
		"revoked_at = NULL":                     "only gets used and revoked",
		"name = 'b', last_used_at = now()":      "only gets used and revoked",
		"last_used_at = now()":                  "",
		"revoked_by = 'somebody who saw to it'": "",
	} {
		_, err := db.SQL().ExecContext(t.Context(), `UPDATE saga.api_keys SET `+change)
		if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
			t.Errorf("%s: %v, want %q", change, err, refused)
		}
	}
	for what, values := range map[string]string{
		"a worker of any tenant":    `gen_random_uuid(), 'a', 'bbbbbbbb', sha256(''), 'worker', 'x'`,
		"an operator of any tenant": `gen_random_uuid(), 'a', 'bbbbbbbb', sha256(''), 'operator', 'x'`,
		"a role that is none":       `gen_random_uuid(), 'a', 'bbbbbbbb', sha256(''), 'root', 'x'`,
		"a hash that is none":       `gen_random_uuid(), 'a', 'bbbbbbbb', 'secret', 'admin', 'x'`,
	} {
		if _, err := db.SQL().ExecContext(t.Context(), `INSERT INTO saga.api_keys (id, name, prefix, hash, role, created_by) VALUES (`+values+`)`); err == nil {
			t.Errorf("%s was stored", what)
		}
	}
}

// TestKeysOfOlderNodesAreForAllQueues inserts a row as a node does that does not know the column.
func TestKeysOfOlderNodesAreForAllQueues(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	const insert = `INSERT INTO saga.api_keys (id, name, prefix, hash, role, created_by, bound_tenant_id`
	const values = `) VALUES (gen_random_uuid(), 'a', 'aaaaaaaa', sha256(''), 'worker', 'x', gen_random_uuid()`
	if _, err := db.SQL().ExecContext(t.Context(), insert+values+`)`); err != nil {
		t.Fatal(err)
	}
	k, err := accessdb.NewKeys(db).Find(t.Context(), "aaaaaaaa")
	if err != nil || k.Queues != nil {
		t.Errorf("its queues are %v, %v", k.Queues, err)
	}
	for what, sql := range map[string]string{
		"a worker of unknown queues": insert + `, queues` + strings.Replace(values, "aaaaaaaa", "bbbbbbbb", 1) + `, NULL)`,
		"an operator with queues": insert + `, queues` +
			strings.NewReplacer("aaaaaaaa", "cccccccc", "worker", "operator").Replace(values) + `, '{a}')`,
	} {
		if _, err := db.SQL().ExecContext(t.Context(), sql); err == nil {
			t.Errorf("%s was stored", what)
		}
	}
}

func TestColumnsOfKeysMatchTheDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t)).SQL()
	pgtest.WantColumns(t, db, "saga.api_keys", accessdb.KeyTable.Without("hash").Nullable(), "hash")
	pgtest.WantColumns(t, db, "saga.session_secrets", accessdb.SessionTable.Without("hash").Nullable(), "hash")
}
