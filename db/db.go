// Package db owns the schema: the embedded migrations and the lock that allows any number of nodes
// to start on one empty database.
//
// Files, each on top of those before it: migrations, insecure, roles, record, adopt, checksums, floor,
// patience, db, extras.
package db

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"time"

	migrate "github.com/rubenv/sql-migrate"
)

// The record of applied migrations is in its own schema, so that the schema saga can be dumped,
// dropped and restored alone (seed 1, pg_dump -n saga).
var set = migrate.MigrationSet{SchemaName: "skald", TableName: "schema_migrations"}

// lockKey is Skald's advisory lock for migrations.
const lockKey = 0x736b616c64 // "skald"

// Hash identifies the migrations in this binary.
func Hash() string {
	h := sha256.New()
	_ = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := files.ReadFile(path)
		h.Write(b)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Migrate is Up for the databases of tests and benchmarks: it records no action, so the record
// contains only the actions under test.
func Migrate(ctx context.Context, dsn string) error {
	_, err := run(ctx, dsn, migrate.Up, 0, "")
	return err
}

// Up durably applies all missing migrations and returns how many there were. Nodes that start
// together take turns. dsn must reach PostgreSQL directly, not through a transaction pooler,
// because the lock belongs to the session. If anything was applied, it is recorded as an action of
// the principal in ctx (As).
func Up(ctx context.Context, dsn string) (int, error) {
	return run(ctx, dsn, migrate.Up, 0, "up")
}

// Down reverts the last n migrations, or all of them if n is 0, and records this like Up. It
// returns how many it reverted.
func Down(ctx context.Context, dsn string, n int) (int, error) {
	return run(ctx, dsn, migrate.Down, n, "down")
}

// run migrates. verb is the verb of the recorded action; "" means that no action is recorded.
func run(ctx context.Context, dsn string, dir migrate.MigrationDirection, limit int, verb string) (n int, err error) {
	err = locked(ctx, dsn, func(db *sql.DB) error {
		from, missing := "", source
		err := adopt(ctx, db)
		if err == nil {
			from, err = newest(ctx, db)
			missing.fresh = from == ""
		}
		if err == nil {
			var usable bool
			if usable, err = newerButUsable(ctx, db); usable && dir == migrate.Up {
				return nil
			}
		}
		if err == nil {
			err = refuseNewer(ctx, db)
		}
		if err == nil {
			err = givingWay(ctx, func() error {
				rest := limit
				if limit > 0 {
					rest = limit - n
				}
				done, err := set.ExecMaxContext(ctx, db, "postgres", missing, dir, rest)
				n += done
				return err
			})
		}
		if err == nil && dir == migrate.Up {
			err = givingWay(ctx, func() error { return secure(ctx, db, n > 0) })
		}
		if err == nil {
			if err = keepChecksums(ctx, db); err == nil {
				err = keepFloor(ctx, db)
			}
			if n == 0 && denied(err) {
				err = nil // a login with nothing to do need not own anything
			}
		}
		if err == nil && n > 0 && verb != "" {
			err = record(ctx, db, verb, from, n)
		}
		if denied(err) {
			return notOwner(ctx, db, err)
		}
		return err
	})
	return n, err
}

// locked calls f while no other process migrates. It polls for the lock: a session that waits
// inside pg_advisory_lock holds a snapshot for which CREATE INDEX CONCURRENTLY would wait, forever.
func locked(ctx context.Context, dsn string, f func(*sql.DB) error) error {
	return connectedBy(dsn, func(c driver.Connector) driver.Connector { return impatient{c} },
		func(db *sql.DB) error { return lockedOn(ctx, db, lockKey, f) })
}

func lockedOn(ctx context.Context, db *sql.DB, key int64, f func(*sql.DB) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	for {
		var ours bool
		if err := conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, key).Scan(&ours); err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
		if ours {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	//nolint:errcheck // closing the session also releases the lock
	defer conn.ExecContext(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, key)
	return f(db)
}

// Current is Check on its own connection with the login of dsn, or with the engine's role if the
// login does not inherit the right to read. If the login may not assume that role either, it
// returns an *Insecure that says what to run.
func Current(ctx context.Context, dsn string) error {
	return connected(dsn, func(db *sql.DB) error {
		if err := db.PingContext(ctx); err != nil {
			return fmt.Errorf("connect to the database: %w", err)
		}
		err := Check(ctx, db)
		if !denied(err) {
			return err
		}
		tx, txErr := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if txErr != nil {
			return txErr
		}
		defer tx.Rollback() //nolint:errcheck // it only read
		if _, roleErr := tx.ExecContext(ctx, `SET LOCAL ROLE `+EngineRole); roleErr != nil {
			return unreadable(ctx, db, err)
		}
		return Check(ctx, tx)
	})
}

// Check returns nil if this binary can use the schema: it is the expected version, or a newer one
// that has removed nothing this binary needs. It returns a *Changed if the files of applied
// migrations have changed.
func Check(ctx context.Context, db Reader) error {
	status, err := Status(ctx, db)
	if err != nil {
		return err
	}
	for _, m := range status {
		if m.At.IsZero() {
			return &Pending{m.ID}
		}
	}
	if err := Usable(ctx, db, status); err != nil {
		return err
	}
	return Unchanged(ctx, db)
}

// Pending is the error for a schema that is missing or older than this binary.
type Pending struct{ ID string } // the first migration that has not been applied

func (p *Pending) Error() string {
	return fmt.Sprintf("the database lacks migration %s: run `skald migrate up`", p.ID)
}

// newerButUsable reports whether a newer binary has migrated the schema and this binary can use it.
// The schema must contain all migrations of this binary.
func newerButUsable(ctx context.Context, db Reader) (bool, error) {
	status, err := Status(ctx, db)
	if err != nil || Newer(status) == nil {
		return false, err
	}
	missing := slices.ContainsFunc(status, func(m Applied) bool { return m.At.IsZero() })
	return !missing && Usable(ctx, db, status) == nil, nil
}

// refuseNewer returns an error if the schema is newer than this binary, which then cannot migrate
// it in either direction.
func refuseNewer(ctx context.Context, db Reader) error {
	status, err := Status(ctx, db)
	if err != nil {
		return err
	}
	if err := Newer(status); err != nil {
		return fmt.Errorf("%w, and only that release can migrate it: use its `skald migrate`", err)
	}
	return nil
}
