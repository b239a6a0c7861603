package dlqdb_test

import (
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Threat T12 for dead letters: even without the WHERE clauses of our queries, a tenant sees only
// its own rows, a session without a tenant sees none, and the engine sees all.
func TestATenantSeesItsOwnDeadLettersOnly(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	root := pgtest.Observer(t, dsn)
	one := pgtest.LetterStore{DB: pgtest.Connect(t, pgtest.PlainLogin(t, dsn)), Tenant: pgtest.NewID()}
	one.Letters = dlqdb.NewLetters(one.DB, dlq.DefaultPolicy)
	two := one
	two.Tenant = pgtest.NewID()
	for _, b := range []pgtest.LetterStore{one, two} {
		b.FillLetterTables(t, func(statement string, args ...any) { pgtest.Execute(t, root, statement, args...) })
	}
	tables := strings.Fields(pgtest.Ask[string](t, root, `
		SELECT string_agg(c.oid::regclass::text, ' ') FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
		 WHERE c.relnamespace = 'dlq'::regnamespace AND c.relkind IN ('r', 'p', 'v') OR c.oid = 'saga.audit_actions'::regclass`))
	if len(tables) < 12 {
		t.Fatalf("only %v", tables)
	}
	for _, table := range tables {
		for _, me := range []pgtest.LetterStore{one, two} {
			var seen, own int
			tx := pgtest.InTenant(t, me.DB, me.Tenant)
			err := tx.QueryRowContext(t.Context(), `SELECT count(*), count(*) FILTER (WHERE tenant_id = $1) FROM `+table, me.Tenant).Scan(&seen, &own)
			if err := tx.Rollback(); err != nil { // the other subtests need its connection
				t.Fatal(err)
			}
			if err != nil || own == 0 || seen != own {
				t.Errorf("%s: a tenant sees %d rows, %d of them its own, %v", table, seen, own, err)
			}
		}
		if n := pgtest.Ask[int](t, one.DB.Lists(), `SELECT count(*) FROM `+table); n != 0 {
			t.Errorf("%s: without a tenant %d rows are seen", table, n)
		}
		if strings.HasPrefix(table, "dlq.tenant_") {
			continue // these views show the tenant of the transaction to every role
		}
		if n, all := pgtest.Ask[int](t, one.DB.SQL(), `SELECT count(*) FROM `+table),
			pgtest.Ask[int](t, root, `SELECT count(*) FROM `+table); n != all {
			t.Errorf("%s: the engine sees %d of %d rows", table, n, all)
		}
	}
	// The same applies to the stores.
	for _, l := range []dlq.Letter{one.NewLetter(), two.NewLetter()} {
		if _, err := one.Push(t.Context(), []dlq.Letter{l}); err != nil {
			t.Fatal(err)
		}
	}
	for _, me := range []pgtest.LetterStore{one, two} {
		for _, f := range []dlq.Filter{{}, {Topic: "orders"}, {Statuses: dlq.Statuses}, {Sources: dlq.Sources},
			{ErrorType: "IOException"}} {
			p, err := me.List(t.Context(), me.Tenant, dlq.Query{Filter: f, ByTime: page.ByTime{Limit: 10, Total: true}})
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Items) != 2 || p.Total != 2 {
				t.Fatalf("%+v: %d letters of %d", f, len(p.Items), p.Total)
			}
			for _, l := range p.Items {
				if l.TenantID != me.Tenant {
					t.Errorf("%+v: a letter of %s", f, l.TenantID)
				}
			}
		}
	}
}
