package db

import (
	"context"
	"database/sql"
	"embed"
	"slices"
	"strings"
	"sync"
	"time"

	migrate "github.com/rubenv/sql-migrate"
)

var source = orderly{parsed: sync.OnceValues(
	migrate.EmbedFileSystemMigrationSource{FileSystem: files, Root: "migrations"}.FindMigrations,
)}

// lockFirst lists statements to execute before those of a migration that locks tables in a
// different order from writers, which lock saga_states before saga_step_logs. Otherwise, under a
// steady load, every attempt would end in a deadlock. The file itself must not change, because it
// has been applied elsewhere.
var lockFirst = map[string][]string{
	"0180_seed_names.sql": {
		`LOCK TABLE saga.saga_states IN SHARE ROW EXCLUSIVE MODE`,
		`LOCK TABLE saga.saga_step_logs IN ACCESS EXCLUSIVE MODE`,
	},
}

// securing ends a migration that creates tables, views or functions.
const securing = "SELECT saga.secure_tables();"

// orderly contains the migrations of the files, with lockFirst. They are parsed once: parsing takes
// 13 ms, and a starting node needs them four times.
type orderly struct {
	parsed func() ([]*migrate.Migration, error)
	// fresh omits securing, for a database that is not in use yet; run does it once at the end
	// instead. Securing processes all existing tables and functions, and doing so twenty-nine times
	// takes two thirds of the time needed to migrate a new database.
	fresh bool
}

// Version is the version of the schema that this binary expects, as stored in the table
// saga_schema_version.
func Version() int {
	known, _ := source.FindMigrations() // embedded, so this cannot fail
	return int(known[len(known)-1].VersionInt())
}

// FindMigrations implements migrate.MigrationSource.
func (o orderly) FindMigrations() ([]*migrate.Migration, error) {
	all, err := o.parsed()
	out := make([]*migrate.Migration, len(all))
	for i, m := range all {
		own := *m
		own.Up = append(slices.Clone(lockFirst[m.Id]), m.Up...)
		if o.fresh {
			own.Up = slices.DeleteFunc(own.Up, func(s string) bool { return strings.HasSuffix(strings.TrimSpace(s), securing) })
		}
		out[i] = &own
	}
	return out, err
}

//go:embed migrations/*.sql
var files embed.FS

// Applied is a migration and the time when it was applied; the zero time means that it has not been
// applied.
type Applied struct {
	ID      string
	At      time.Time
	Unknown bool // to this binary: a newer one has applied it; the ID says so as well
}

// Reader is a pool, a connection or a transaction.
type Reader interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}
