package db

import (
	"context"

	migrate "github.com/rubenv/sql-migrate"
)

// UpBy applies the next n migrations.
func UpBy(ctx context.Context, dsn string, n int) (int, error) {
	return run(ctx, dsn, migrate.Up, n, "")
}
