package postgres_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/internal/test/testnet"
)

func TestOpenSaysWhyItCannot(t *testing.T) {
	t.Parallel()
	deaf := testnet.ClosedAddress(t)
	for _, tt := range []struct{ name, dsn, want string }{
		{"an address that is none", "postgres://u:secret@h:port/x", "database address"},
		{"nobody listens", "postgres://u:secret@" + deaf + "/x?sslmode=disable", "connect to the database"},
		{"no such database", pgtest.With(t, testdb.Empty(t), "dbname", "nowhere"), "connect to the database"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db, err := postgres.Open(t.Context(), postgres.Config{DSN: tt.dsn})
			if err == nil {
				db.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error = %v; want %q and no password", err, tt.want)
			}
		})
	}
}

func TestTimeoutsMayBeLeftToTheServer(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	pgtest.Execute(t, pgtest.Observer(t, dsn), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET statement_timeout = 12345', current_database()); END $$`)
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, StatementTimeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if got := pgtest.Ask[string](t, db.Write.DB, `SHOW statement_timeout`); got != "12345ms" {
		t.Errorf("statement_timeout = %s, want the server's 12345ms", got)
	}
}

// The planner's settings and the statement timeout are set on every connection, and again when
// it is replaced.
func TestPoolsHaveTheirOwnSettings(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: testdb.DSN(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	settings := map[string]pgtest.Querier{
		"tenants' reads by key": db.Points(), "tenants' lists": db.Lists(),
		"upkeep": db.SQL(), "writers": db.Write.DB, "leases": db.Lease.DB,
	}
	got := map[string]string{}
	for name, q := range settings {
		var s string
		if err := q.QueryRowContext(t.Context(), `SELECT concat_ws(' ', current_setting('application_name'), current_user,
			current_setting('enable_seqscan'), current_setting('enable_hashjoin'), current_setting('enable_mergejoin'), current_setting('plan_cache_mode'),
			current_setting('statement_timeout'), current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'))`).Scan(&s); err != nil {
			t.Fatal(err)
		}
		got[name] = s
	}
	want := map[string]string{
		"tenants' reads by key": "skald reader saga_app_role on on on auto 30s 15s 30s",
		"tenants' lists":        "skald api saga_app_role on on on auto 30s 15s 30s",
		"upkeep":                "skald upkeep saga_engine_role on on on auto 30s 15s 30s",
		"writers":               "skald writer saga_engine_role off off off force_generic_plan 30s 15s 30s",
		"leases":                "skald lease saga_engine_role on on on auto 2s 1s 30s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}
