// Package testdb gives each test its own PostgreSQL database, migrated or empty, within tens of
// milliseconds, so that tests can't disturb each other and can run in parallel.
//
// The first call in a test process starts a private server without fsync (package devpg), which
// stops when the process ends. Its directory is skald-testdb-<uid> in TMPDIR; if TMPDIR is not set,
// it is in /dev/shm (memory) if there is enough room, and in /tmp otherwise. The next process
// reuses the server's directory and the migrated template in it. There are as many of these
// directories as there were test processes running at once, of 0.1 to 0.4 GB each; they can be
// deleted while no test is running. If TEST_DATABASE_URL is set, it is the DSN of a superuser of an
// existing server to use instead.
//
// Without PostgreSQL, tests fail with advice; they are never skipped.
//
// Two goroutines watch the server for the life of the process. A package that looks for leaked
// goroutines must call DSN or Empty before goleak.IgnoreCurrent.
package testdb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strings"
	"testing"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/test/patience"
)

const (
	testPrefix     = "skald_test_"
	templatePrefix = "skald_template_"
)

// DSN returns the URL of a new database with all migrations applied. It is dropped when the
// test and its subtests end, even with open connections.
func DSN(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
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
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
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
		ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
		defer cancel()
		if err := run(ctx, address, "DROP DATABASE "+pq.QuoteIdentifier(name)+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return address.dsn(name)
}

// copyDatabase creates a database by copying the template's files. The other strategy writes every
// page to the WAL, which is slower without fsync.
func copyDatabase(ctx context.Context, a address, name, template string) error {
	return run(ctx, a, "CREATE DATABASE "+pq.QuoteIdentifier(name)+
		" TEMPLATE "+pq.QuoteIdentifier(template)+" STRATEGY file_copy")
}

// run executes statements one by one on a connection that it closes afterwards: a pool would leave
// goroutines running for the life of the process.
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
