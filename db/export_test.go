package db

import (
	"context"
	"database/sql"

	migrate "github.com/rubenv/sql-migrate"
)

// UpBy applies the next n migrations.
func UpBy(ctx context.Context, dsn string, n int) (int, error) {
	return run(ctx, dsn, migrate.Up, n, "")
}

// BrokenOff applies the first n migrations to a new database like Up, but stops before the rest of
// Up.
func BrokenOff(ctx context.Context, dsn string, n int) (done int, err error) {
	missing := source
	missing.fresh = true
	err = locked(ctx, dsn, func(db *sql.DB) error {
		done, err = set.ExecMaxContext(ctx, db, "postgres", missing, migrate.Up, n)
		return err
	})
	return done, err
}
