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
// different order from writers, who lock saga_states before saga_step_logs. Under a steady load
// each attempt would otherwise end in a deadlock. The file itself must stay as it was applied
// elsewhere.
var lockFirst = map[string][]string{
	"0180_seed_names.sql": {
		`LOCK TABLE saga.saga_states IN SHARE ROW EXCLUSIVE MODE`,
		`LOCK TABLE saga.saga_step_logs IN ACCESS EXCLUSIVE MODE`,
	},
}

// securing ends a migration that creates tables, views or functions.
const securing = "SELECT saga.secure_tables();"

// orderly are the migrations of the files, with lockFirst. They are parsed once: parsing takes 13
// ms, and a starting node needs them four times.
type orderly struct {
	parsed func() ([]*migrate.Migration, error)
	// fresh omits securing, for a database that is not in use yet: run does the same once, at its
	// end. Securing goes through all existing tables and functions, and doing so twenty-nine times
	// takes two thirds of the time in which a new database is migrated.
	fresh bool
}

// Version is the version of the schema that this binary expects, as the table saga_schema_version
// says it.
func Version() int {
	known, _ := source.FindMigrations() // embedded: it cannot fail
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

// Applied is a migration and when it was applied; the zero time: not yet.
type Applied struct {
	ID      string
	At      time.Time
	Unknown bool // to this binary: a newer one has applied it; the ID says so as well
}

// Reader is a pool, a connection or a transaction.
type Reader interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}
