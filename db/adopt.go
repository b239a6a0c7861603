package db

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
)

// adopt writes the record of applied migrations anew when there is none though
// the schema is there, as after `pg_dump -n saga` and a restore: the schema
// itself says in saga_schema_version what has been applied.
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
