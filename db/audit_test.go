package db_test

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/test/testdb"
)

// Even a role with every right on the tables, including their owner, can only append.
func TestAuditEventsAndSealsAreOnlyEverAppended(t *testing.T) {
	pool, err := sql.Open("postgres", testdb.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const event = `INSERT INTO saga.audit_events (saga_id, tenant_id, event_type, digest) VALUES (gen_random_uuid(), gen_random_uuid(), 'saga.started', '')`
	const seal = `INSERT INTO saga.audit_seals (tenant_id, seq, from_txid, from_id, to_txid, to_id, events, prev_hash, hash) VALUES (gen_random_uuid(), 1, '1', 1, '1', 1, 1, '', '')`
	const action = `INSERT INTO saga.audit_actions (id, tenant_id, at, kind, subject, verb) VALUES (gen_random_uuid(), gen_random_uuid(), now(), 'redrive', 'x', 'create')`
	const actionSeal = `INSERT INTO saga.audit_action_seals (tenant_id, seq, from_txid, from_id, to_txid, to_id, events, prev_hash, hash) VALUES (gen_random_uuid(), 1, '1', 1, '1', 1, 1, '', '')`
	role := "skald_test_" + strings.ToLower(rand.Text())
	for _, statement := range []string{
		`CREATE ROLE ` + role + ` NOSUPERUSER`, `GRANT ALL ON SCHEMA saga TO ` + role,
		`ALTER TABLE saga.audit_events OWNER TO ` + role, `ALTER TABLE saga.audit_seals OWNER TO ` + role,
		`ALTER TABLE saga.audit_events NO FORCE ROW LEVEL SECURITY`, `ALTER TABLE saga.audit_seals NO FORCE ROW LEVEL SECURITY`, // otherwise row-level security would prevent it
		`ALTER TABLE saga.audit_actions OWNER TO ` + role, `ALTER TABLE saga.audit_action_seals OWNER TO ` + role,
		`ALTER TABLE saga.audit_actions NO FORCE ROW LEVEL SECURITY`, `ALTER TABLE saga.audit_action_seals NO FORCE ROW LEVEL SECURITY`,
		`SET ROLE ` + role, event, seal, action, actionSeal,
	} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	defer func() {
		for _, statement := range []string{`RESET ROLE`, `DROP OWNED BY ` + role + ` CASCADE`, `DROP ROLE ` + role} {
			if _, err := conn.ExecContext(t.Context(), statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
	}()
	for _, table := range []string{"audit_events", "audit_seals", "audit_actions", "audit_action_seals"} {
		for _, statement := range []string{
			`UPDATE saga.` + table + ` SET tenant_id = gen_random_uuid()`, `UPDATE saga.` + table + ` SET tenant_id = tenant_id WHERE false`,
			`DELETE FROM saga.` + table, `TRUNCATE saga.` + table,
		} {
			_, err := conn.ExecContext(t.Context(), statement)
			var refused *pq.Error
			if !errors.As(err, &refused) || refused.Code != "42501" || refused.Message != table+" is append-only" {
				t.Errorf("%s: %v, want a refusal", statement, err)
			}
		}
	}
}
