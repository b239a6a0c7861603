// Package pgtest contains what the tests of the PostgreSQL stores share: connections (db.go), plans
// (plans.go), test data for sagas, job runs and letters, and all stores together (stores.go).
package pgtest

import (
	"context"
	"database/sql"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// Connect opens a database and closes it when the test ends.
func Connect(t *testing.T, dsn string) *postgres.DB {
	t.Helper()
	return ConnectWith(t, dsn, nil)
}

// RawTables opens the tables without the stores.
func RawTables(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// ConnectWith is Connect with encryption.
func ConnectWith(t *testing.T, dsn string, keys *envelope.Keyring) *postgres.DB {
	t.Helper()
	// Tests fill tables with tens of thousands of rows in one statement.
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, CountFor: 20 * time.Second, Encryption: keys,
		StatementTimeout: patience.Limit, IOTimeout: 2 * patience.Limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// With returns dsn, in either of its two forms, with one parameter added.
func With(t *testing.T, dsn, name, value string) string {
	t.Helper()
	if !strings.Contains(dsn, "://") {
		return dsn + " " + name + "=" + value // the last value wins
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	switch name {
	case "dbname":
		u.Path = "/" + value
	case "host":
		u.Host = net.JoinHostPort(value, u.Port())
	case "port":
		u.Host = net.JoinHostPort(u.Hostname(), value)
	default:
		q := u.Query()
		q.Set(name, value)
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// PlainLogin returns dsn with a login that is a member of the roles that Skald acts as and has no
// privileges of its own, like a production login.
func PlainLogin(t *testing.T, dsn string) string {
	t.Helper()
	return testdb.Login(t, dsn, "NOINHERIT IN ROLE saga_app_role, saga_engine_role")
}

// Settle returns once every transaction that is open now, in any database of the server, has ended.
func Settle(t *testing.T, db *sql.DB) {
	t.Helper()
	var until int64
	if err := db.QueryRowContext(t.Context(), `SELECT pg_current_xact_id()::text`).Scan(&until); err != nil {
		t.Fatal(err)
	}
	for xmin := int64(0); xmin <= until; {
		if err := db.QueryRowContext(t.Context(), `SELECT pg_snapshot_xmin(pg_current_snapshot())::text FROM pg_sleep(0.001)`).Scan(&xmin); err != nil {
			t.Fatal(err)
		}
	}
}

// Execute runs a statement that must succeed; it also works during a cleanup.
func Execute(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement, args...); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}

// Observer is a single connection, separate from the stores.
func Observer(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

// Ask returns the single value that a query selects.
func Ask[T any](t *testing.T, db *sql.DB, query string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// Quiet waits until the observer's session is the only one in its database: a session's statistics
// are complete only after it has ended.
func Quiet(t *testing.T, db *sql.DB) {
	t.Helper()
	patience.Until(t, "other sessions end", func() bool {
		return Ask[int](t, db, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`) == 0
	})
}

// Connection reserves one connection for the whole test, so that its session settings stay in
// effect.
func Connection(t *testing.T, db *sql.DB) *sql.Conn {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = conn.ExecContext(context.Background(), `RESET ALL`)
		conn.Close()
	})
	return conn
}

// InTenant begins a transaction for a tenant, as the API's lists do.
func InTenant(t *testing.T, db *postgres.DB, tenant uuid.UUID) *sql.Tx {
	t.Helper()
	tx, err := db.Lists().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := tx.ExecContext(t.Context(), `SELECT set_config('skald.tenant_id', $1::text, true)`, tenant.String()); err != nil {
		t.Fatal(err)
	}
	return tx
}
