package postgres_test

import (
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Threat T12 for dead letters: with our own WHERE forgotten, a tenant still sees
// its rows only, and nobody sees nothing; the engine sees all.
func TestATenantSeesItsOwnDeadLettersOnly(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	root := observer(t, dsn)
	one := letterStore{db: connect(t, plainLogin(t, dsn)), tenant: newID()}
	one.Letters = postgres.NewLetters(one.db, dlq.DefaultPolicy)
	two := one
	two.tenant = newID()
	for _, b := range []letterStore{one, two} {
		b.fillLetterTables(t, func(statement string, args ...any) { execute(t, root, statement, args...) })
	}
	tables := strings.Fields(ask[string](t, root, `
		SELECT string_agg(c.oid::regclass::text, ' ') FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
		 WHERE c.relnamespace = 'dlq'::regnamespace AND c.relkind IN ('r', 'p', 'v') OR c.oid = 'saga.audit_actions'::regclass`))
	if len(tables) < 12 {
		t.Fatalf("only %v", tables)
	}
	for _, table := range tables {
		for _, me := range []letterStore{one, two} {
			var seen, own int
			tx := inTenant(t, me.db, me.tenant)
			err := tx.QueryRowContext(t.Context(), `SELECT count(*), count(*) FILTER (WHERE tenant_id = $1) FROM `+table, me.tenant).Scan(&seen, &own)
			if err := tx.Rollback(); err != nil { // others need its connection
				t.Fatal(err)
			}
			if err != nil || own == 0 || seen != own {
				t.Errorf("%s: a tenant sees %d rows, %d of them its own, %v", table, seen, own, err)
			}
		}
		if n := ask[int](t, one.db.Lists(), `SELECT count(*) FROM `+table); n != 0 {
			t.Errorf("%s: without a tenant %d rows are seen", table, n)
		}
		if strings.HasPrefix(table, "dlq.tenant_") {
			continue // these show the tenant of the transaction, whoever asks
		}
		if n, all := ask[int](t, one.db.SQL(), `SELECT count(*) FROM `+table), ask[int](t, root, `SELECT count(*) FROM `+table); n != all {
			t.Errorf("%s: the engine sees %d of %d rows", table, n, all)
		}
	}
	// The stores, too.
	for _, l := range []dlq.Letter{one.letter(), two.letter()} {
		if _, err := one.Push(t.Context(), []dlq.Letter{l}); err != nil {
			t.Fatal(err)
		}
	}
	for _, me := range []letterStore{one, two} {
		for _, f := range []dlq.Filter{{}, {Topic: "orders"}, {Statuses: dlq.Statuses}, {Sources: dlq.Sources}, {ErrorType: "IOException"}} {
			p, err := me.List(t.Context(), me.tenant, dlq.Query{Filter: f, Limit: 10, Total: true})
			if err != nil || len(p.Letters) != 2 || p.Total != 2 || p.Letters[0].TenantID != me.tenant || p.Letters[1].TenantID != me.tenant {
				t.Errorf("%+v: %d letters of %d, %v", f, len(p.Letters), p.Total, err)
			}
		}
	}
}
