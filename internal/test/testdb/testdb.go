// Package testdb gives each test a PostgreSQL database of its own, migrated or
// empty, in some tens of milliseconds, so that tests cannot disturb each other
// and may run in parallel.
//
// The first call in a test process starts a private server without fsync
// (package devpg), which ends with the process. Its directory, skald-testdb-<uid>
// in TMPDIR, or where that is not set in memory (/dev/shm) if there is plenty, else
// in /tmp, is used again by the next process, and with it the migrated template; as
// many directories exist as processes ever ran at once, of 0.1 to 0.4 GB each; while
// no test runs they may be deleted. SKALD_TEST_DATABASE_URL, when set, names an
// existing server to use instead, by the DSN of a superuser.
//
// Without PostgreSQL tests fail, with advice; they are never skipped.
//
// The server is watched by two goroutines that last as long as the process; a
// package that looks for leaked goroutines calls DSN or Empty before it takes
// goleak.IgnoreCurrent.
package testdb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"
)

// patience bounds everything done for one test: a first start on a busy machine
// takes seconds.
const patience = 2 * time.Minute

const (
	testPrefix     = "skald_test_"
	templatePrefix = "skald_template_"
)

// DSN returns the URL of a new database with all migrations applied. It is
// dropped, whoever is still connected, when the test and its subtests end.
func DSN(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	template, err := migrated(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return create(ctx, t, template)
}

// Empty is DSN without the migrations.
func Empty(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return create(ctx, t, "template0")
}

func create(ctx context.Context, t testing.TB, template string) string {
	t.Helper()
	address, err := server(ctx)
	if err != nil {
		t.Fatal(err)
	}
	name := testPrefix + strings.ToLower(rand.Text())
	if err := copyDatabase(ctx, address, name, template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := run(ctx, address, "DROP DATABASE "+pq.QuoteIdentifier(name)+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return address.dsn(name)
}

// copyDatabase copies files. The other strategy writes every page to the WAL,
// which without fsync is the slower way.
func copyDatabase(ctx context.Context, a address, name, template string) error {
	return run(ctx, a, "CREATE DATABASE "+pq.QuoteIdentifier(name)+
		" TEMPLATE "+pq.QuoteIdentifier(template)+" STRATEGY file_copy")
}

// run executes statements one by one, on a connection that is closed again:
// a pool would leave goroutines for the life of the process.
func run(ctx context.Context, a address, statements ...string) error {
	return connected(ctx, a, func(conn *sql.Conn) error {
		for _, statement := range statements {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// connected calls f with a connection to the server's maintenance database.
func connected(ctx context.Context, a address, f func(*sql.Conn) error) error {
	connector, err := pq.NewConnector(a.maintenance)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn)
}
