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

// named lists the name prefixes of migrations that concern only one schema other than saga.
var named = map[string]string{"dlq": "dlq_", "jobs": "job"}

// of returns the versions of the migrations that concern only one schema.
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

// adopt recreates the record of applied migrations if it is missing although the schema exists, for
// example after restoring a `pg_dump -n saga`: saga_schema_version in the schema lists what was
// applied. Migrations of schemas that the dump omitted are not recorded, so that these schemas are
// created again, empty.
func adopt(ctx context.Context, db *sql.DB) error {
	var bereft bool
	err := db.QueryRowContext(ctx, `SELECT to_regclass('saga.saga_schema_version') IS NOT NULL
	  AND to_regclass('skald.schema_migrations') IS NULL`).Scan(&bereft)
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
	// The same table that sql-migrate creates.
	_, err = tx.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS skald;
	  CREATE TABLE skald.schema_migrations (id text NOT NULL PRIMARY KEY, applied_at timestamptz)`)
	if err != nil {
		return fmt.Errorf("record the restored migrations: %w", err)
	}
	for schema := range named {
		versions, err := of(schema, known)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM saga.saga_schema_version
		 WHERE version = ANY ($1) AND to_regnamespace($2) IS NULL`, pq.Array(versions), schema)
		if err != nil {
			return fmt.Errorf("delete the records of migrations that were not restored: %w", err)
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
			return fmt.Errorf("record the restored migrations: %w", err)
		}
	}
	return tx.Commit()
}
