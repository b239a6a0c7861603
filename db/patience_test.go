package db_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// While a migration waits for a lock, every later statement on that table queues behind it. It must
// leave the queue and try again.
func TestAMigrationGivesWayToATransactionThatHoldsALock(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	pool := open(t, dsn)
	tx, err := pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if _, err := tx.ExecContext(t.Context(), `LOCK TABLE saga.saga_schema_version`); err != nil {
		t.Fatal(err)
	}
	reverted := make(chan error, 1)
	go func() {
		_, err := db.Down(context.WithoutCancel(t.Context()), dsn, 1)
		reverted <- err
	}()
	const waiting = `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'saga.saga_schema_version'::regclass)`
	until := func(want bool) {
		t.Helper()
		patience.Until(t, fmt.Sprint("the migration waits for the lock: ", want), func() bool { return ask[bool](t, pool, waiting) == want })
	}
	until(true)
	until(false) // it has left the queue
	until(true)  // and tries again
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-reverted; err != nil {
		t.Errorf("after the lock was released: %v", err)
	}
}

// Writers lock saga_states before saga_step_logs, and 0180 names them in the opposite order: under
// load, it would deadlock every time.
func TestAMigrationLocksTablesInTheOrderOfWriters(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	pool := open(t, dsn)
	all, err := db.Status(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	n := slices.IndexFunc(all, func(a db.Applied) bool { return a.ID >= "0180" })
	if _, err := db.Down(t.Context(), dsn, len(all)-n); err != nil {
		t.Fatal(err)
	}
	writer, err := pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Rollback() //nolint:errcheck // after Commit it does nothing
	if _, err := writer.ExecContext(t.Context(), `LOCK TABLE saga.saga_states IN ROW EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() {
		_, err := db.Up(context.WithoutCancel(t.Context()), dsn)
		migrated <- err
	}()
	const waiting = `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'saga.saga_states'::regclass)`
	patience.Until(t, "the migration waits for the writer", func() bool { return ask[bool](t, pool, waiting) })
	if _, err := writer.ExecContext(t.Context(), `LOCK TABLE saga.saga_step_logs IN ROW EXCLUSIVE MODE NOWAIT`); err != nil {
		t.Errorf("the migration that waits for the writer makes it wait: %v", err)
	}
	if err := writer.Rollback(); err != nil {
		t.Error(err)
	}
	if err := <-migrated; err != nil {
		t.Errorf("the migration did not come back: %v", err)
	}
}

func TestAMigrationThatWasChangedAfterwardsIsReported(t *testing.T) {
	t.Parallel()
	dsn := testdb.Empty(t)
	if _, err := db.Up(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	if err := db.Current(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	pool := open(t, dsn)
	execute(t, pool, `UPDATE skald.schema_checksums SET sha256 = 'another' WHERE id LIKE '0122%'`)
	var changed *db.Changed
	err := db.Current(t.Context(), dsn)
	if !errors.As(err, &changed) || !strings.Contains(err.Error(), "0122_dlq_terms.sql") {
		t.Errorf("a changed file is answered with %v", err)
	}
	last := ask[string](t, pool, `SELECT max(id) FROM skald.schema_checksums`)
	execute(t, pool, `UPDATE skald.schema_checksums SET sha256 = 'another' WHERE id = $1`, last)
	for _, move := range []func() (int, error){
		func() (int, error) { return db.Down(t.Context(), dsn, 1) },
		func() (int, error) { return db.Up(t.Context(), dsn) },
	} {
		if _, err := move(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Current(t.Context(), dsn); !errors.As(err, &changed) || strings.Contains(err.Error(), last) {
		t.Errorf("a migration that was reverted and applied anew is still taken for changed: %v", err)
	}
}

// bigTables grow with the load: no statement may have to wait while one of them is rewritten or
// indexed.
const bigTables = `(saga\.(?:saga_states|saga_step_logs|audit_events|idempotency_keys|idempotency_answers|audit_actions)(?:_archive)?|` +
	`dlq\.dlq_messages(?:_archive)?|jobs\.(?:job_runs|job_events|events))`

var longLocks = map[string]*regexp.Regexp{
	"creates an index without CONCURRENTLY": regexp.MustCompile(`(?is)CREATE\s+(?:UNIQUE\s+)?INDEX\s+(?:IF\s+NOT\s+EXISTS\s+)?\w+\s+ON\s+` + bigTables + `\b`),
	"changes the type of a column":          regexp.MustCompile(`(?is)ALTER\s+TABLE\s+` + bigTables + `[^;]*\bALTER\s+(?:COLUMN\s+)?\w+\s+(?:SET\s+DATA\s+)?TYPE\b`),
	"adds a computed column":                regexp.MustCompile(`(?is)ALTER\s+TABLE\s+` + bigTables + `[^;]*\bADD\s+(COLUMN\s+)?[^;]*(GENERATED\s+ALWAYS|DEFAULT\s+(gen_random_uuid|clock_timestamp|random)\s*\()`),
	"checks every row at once":              regexp.MustCompile(`(?is)ALTER\s+TABLE\s+` + bigTables + `\s+ADD\s+CONSTRAINT\s+\w+\s+(CHECK|FOREIGN)[^;]*`),
	"rewrites the table":                    regexp.MustCompile(`(?is)\b(VACUUM\s+FULL|CLUSTER|SET\s+LOGGED|SET\s+UNLOGGED)\b`),
}

// longLock returns why a migration would make writers of a large table wait.
func longLock(text string) string {
	up, _, _ := strings.Cut(text, "-- +migrate Down")
	up = regexp.MustCompile(`--[^\n]*`).ReplaceAllString(up, "")
	for why, pattern := range longLocks {
		for _, m := range pattern.FindAllStringSubmatch(up, -1) {
			isNew := regexp.MustCompile(`CREATE TABLE (IF NOT EXISTS )?` + regexp.QuoteMeta(m[1]) + `\b`).MatchString(up)
			// Indexes on a partitioned table cannot be created CONCURRENTLY. Only retention writes
			// to this table, and it may wait.
			waits := m[1] == "saga.audit_events_archive" && strings.Contains(m[0], "INDEX")
			if !isNew && !waits && !strings.Contains(m[0], "NOT VALID") {
				return why
			}
		}
	}
	return ""
}

func TestNewMigrationsHoldNoLockForLong(t *testing.T) {
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if filepath.Base(file) < "0180" {
			continue // applied long ago; operations.md documents the cost of the slow ones
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if why := longLock(string(text)); why != "" {
			t.Errorf("%s %s while writers of a large table wait: do it in steps, an index CONCURRENTLY in a file with "+
				"`notransaction`", file, why)
		}
	}
	for statement, refused := range map[string]bool{
		"CREATE INDEX i ON saga.saga_states (a)":                                        true,
		"CREATE UNIQUE INDEX i ON dlq.dlq_messages USING btree (a)":                     true,
		"CREATE INDEX CONCURRENTLY IF NOT EXISTS i ON saga.saga_states (a)":             false,
		"CREATE INDEX i ON saga.small (a)":                                              false,
		"CREATE INDEX i ON saga.audit_events_archive (a)":                               false,
		"CREATE INDEX i ON saga.saga_states_archive (a)":                                true,
		"ALTER TABLE jobs.job_runs ALTER COLUMN a TYPE bigint":                          true,
		"ALTER TABLE jobs.job_runs ADD COLUMN a bigint":                                 false,
		"ALTER TABLE jobs.job_runs ADD COLUMN a int GENERATED ALWAYS AS (b + 1) STORED": true,
		"ALTER TABLE saga.saga_states ADD CONSTRAINT c CHECK (a > 0)":                   true,
		"ALTER TABLE saga.saga_states ADD CONSTRAINT c CHECK (a > 0) NOT VALID":         false,
		"CREATE TABLE jobs.events (a int); CREATE INDEX i ON jobs.events (a)":           false,
		"-- CREATE INDEX i ON saga.saga_states (a)":                                     false,
	} {
		if got := longLock(statement); (got != "") != refused {
			t.Errorf("%q: %q", statement, got)
		}
	}
}
