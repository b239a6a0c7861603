package testdb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/db"
)

// templateLock is the advisory lock of the process that creates the template.
const templateLock = 0x74657374 // "test"

var template struct {
	sync.Mutex
	name string
}

// AfterMigrationsEnv names a variable with a statement to execute in every migrated test database
// after the migrations: it breaks the schema, so that the tests of what it breaks must fail
// (internal/test/mutants).
const AfterMigrationsEnv = "TEST_AFTER_MIGRATIONS"

// templateName returns the name of the template for these migrations and the statement that follows
// them.
func templateName() string {
	name := templatePrefix + db.Hash()
	if statement := os.Getenv(AfterMigrationsEnv); statement != "" {
		digest := sha256.Sum256([]byte(statement))
		name += "_" + hex.EncodeToString(digest[:4])
	}
	return name
}

// migrated returns the name of a database with all migrations applied, which callers copy. It is
// created once per server and set of migrations.
func migrated(ctx context.Context) (string, error) {
	a, err := server(ctx)
	if err != nil {
		return "", err
	}
	template.Lock()
	defer template.Unlock()
	if template.name != "" {
		return template.name, nil
	}
	name := templateName()
	err = connected(ctx, a, func(conn *sql.Conn) error {
		// Processes may share an external server. This one polls, because a session that waits for
		// the lock inside PostgreSQL holds a snapshot.
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for {
			var ours bool
			if err := conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, templateLock).Scan(&ours); err != nil {
				return err
			}
			if ours { // the lock is held until the connection is closed
				return makeTemplate(ctx, a, conn, name)
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	if err != nil {
		return "", fmt.Errorf("make the migrated template database: %w", err)
	}
	template.name = name
	return name, nil
}

// makeTemplate creates the template if it doesn't exist. Only a complete template is marked as one;
// an incomplete one is dropped and created again.
func makeTemplate(ctx context.Context, a address, conn *sql.Conn, name string) error {
	var finished bool
	err := conn.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)`, name).Scan(&finished)
	if err != nil || finished {
		return err
	}
	quoted := pq.QuoteIdentifier(name)
	if _, err := conn.ExecContext(ctx, "DROP DATABASE IF EXISTS "+quoted+" WITH (FORCE)"); err != nil {
		return err
	}
	if err := copyDatabase(ctx, a, name, "template0"); err != nil {
		return err
	}
	if err := db.Migrate(ctx, a.dsn(name)); err != nil {
		return err
	}
	if statement := os.Getenv(AfterMigrationsEnv); statement != "" {
		if err := run(ctx, address{maintenance: a.dsn(name), dsn: a.dsn}, statement); err != nil {
			return fmt.Errorf("%s: %w", AfterMigrationsEnv, err)
		}
	}
	// A template with open connections cannot be copied.
	_, err = conn.ExecContext(ctx, "ALTER DATABASE "+quoted+" WITH IS_TEMPLATE true ALLOW_CONNECTIONS false")
	return err
}

// removeLeftovers drops, on a private server, the databases of killed tests and the templates of
// other migrations.
func removeLeftovers(ctx context.Context, a address) error {
	return connected(ctx, a, func(conn *sql.Conn) error {
		var names []string
		err := conn.QueryRowContext(ctx, `SELECT coalesce(array_agg(datname::text), '{}') FROM pg_database
			WHERE starts_with(datname, $1) OR starts_with(datname, $2) AND datname <> $3`,
			testPrefix, templatePrefix, templateName()).Scan((*pq.StringArray)(&names))
		if err != nil {
			return err
		}
		for _, name := range names {
			quoted := pq.QuoteIdentifier(name)
			if strings.HasPrefix(name, templatePrefix) {
				if _, err := conn.ExecContext(ctx, "ALTER DATABASE "+quoted+" WITH IS_TEMPLATE false"); err != nil {
					return err
				}
			}
			if _, err := conn.ExecContext(ctx, "DROP DATABASE "+quoted+" WITH (FORCE)"); err != nil {
				return err
			}
		}
		return nil
	})
}
