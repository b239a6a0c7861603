package db

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/lib/pq"
	migrate "github.com/rubenv/sql-migrate"
)

// named is how migrations that concern a schema beside saga alone are called.
var named = map[string]string{"dlq": "dlq_", "jobs": "job"}

// of is which migrations concern a schema alone.
func of(schema string, known []*migrate.Migration) (versions []int64, err error) {
	for _, m := range known {
		number, name, _ := strings.Cut(m.Id, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s has no number: %w", m.Id, err)
		}
		if strings.HasPrefix(name, named[schema]) {
			versions = append(versions, version)
		}
	}
	return versions, nil
}

// adopt writes the record of applied migrations anew when there is none though
// the schema is there, as after `pg_dump -n saga` and a restore: the schema
// itself says in saga_schema_version what has been applied. Of the schemas that the
// dump left out it is forgotten, so that they are made anew, empty.
func adopt(ctx context.Context, db *sql.DB) error {
	var bereft bool
	err := db.QueryRowContext(ctx, `SELECT to_regclass('saga.saga_schema_version') IS NOT NULL AND to_regclass('skald.schema_migrations') IS NULL`).Scan(&bereft)
	if err != nil || !bereft {
		return err
	}
	known, err := source.FindMigrations()
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	// As sql-migrate makes it.
	_, err = tx.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS skald; CREATE TABLE skald.schema_migrations (id text NOT NULL PRIMARY KEY, applied_at timestamptz)`)
	if err != nil {
		return fmt.Errorf("record what was restored: %w", err)
	}
	for schema := range named {
		versions, err := of(schema, known)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM saga.saga_schema_version WHERE version = ANY ($1) AND to_regnamespace($2) IS NULL`, pq.Array(versions), schema)
		if err != nil {
			return fmt.Errorf("forget what was not restored: %w", err)
		}
	}
	for _, m := range known {
		number, _, _ := strings.Cut(m.Id, "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("migration %s has no number: %w", m.Id, err)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO skald.schema_migrations (id, applied_at)
			SELECT $1, applied_at FROM saga.saga_schema_version WHERE version = $2`, m.Id, version)
		if err != nil {
			return fmt.Errorf("record what was restored: %w", err)
		}
	}
	return tx.Commit()
}
