package db

import (
	"context"
	"database/sql"
	"embed"
	"time"

	migrate "github.com/rubenv/sql-migrate"
)

var source = migrate.EmbedFileSystemMigrationSource{FileSystem: files, Root: "migrations"}

//go:embed migrations/*.sql
var files embed.FS

// Applied is one migration and when it was applied; the zero time: not yet.
type Applied struct {
	ID string
	At time.Time
}

// Reader is a pool, a connection or a transaction.
type Reader interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}
