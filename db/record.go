package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lib/pq"
)

// By is the principal that changes the schema, for the record of actions.
type By struct {
	Actor     string // "": SystemMigrate
	Address   string
	Operation string
}

// SystemMigrate is the actor of migrations that no command requested: those of a starting node.
const SystemMigrate = "system:migrate"

type byKey struct{}

// As returns ctx with the migrating principal.
func As(ctx context.Context, by By) context.Context { return context.WithValue(ctx, byKey{}, by) }

// newest returns the newest applied migration, or "".
func newest(ctx context.Context, db *sql.DB) (last string, err error) {
	all, err := Status(ctx, db)
	for _, m := range all {
		if !m.At.IsZero() {
			last = max(last, m.ID)
		}
	}
	return last, err
}

// recorded reports whether the table of actions exists in its form since migration 0153.
const recorded = `SELECT EXISTS (SELECT FROM information_schema.columns
	WHERE table_schema = 'saga' AND table_name = 'audit_actions' AND column_name = 'operation')`

// The schema concerns all tenants: it is recorded under the nil UUID (operator.Deployment).
const recordSchema = `
INSERT INTO saga.audit_actions (id, tenant_id, at, kind, subject, verb, actor, address, operation, detail)
SELECT gen_random_uuid(),
       '00000000-0000-0000-0000-000000000000',
       now(),
       'schema',
       $1::text,
       $2::text,
       $3::text,
       $4::text,
       $5::text,
       jsonb_build_object('from', $6::text, 'to', $1::text, 'migrations', $7::integer, 'login', session_user::text)`

// actAsEngine assumes the engine's role if the login may: an owner that does not inherit its
// privileges is subject to row-level security like any other login.
const actAsEngine = `SELECT set_config('role', r.rolname, true)
  FROM pg_roles r
 WHERE r.rolname = $1 AND pg_has_role(current_user, r.oid, 'MEMBER')`

// record records n applied or reverted migrations. Each migration runs in its own transaction, and
// some in none, so the record is written afterwards. After a crash in between, the migrations are
// missing from the record, but skald.schema_migrations contains them with their times. A schema
// without the table of actions has no record.
func record(ctx context.Context, db *sql.DB, verb, from string, n int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	to, err := newest(ctx, db)
	if err != nil {
		return err
	}
	return onRecord(ctx, db, func(tx *sql.Tx, by By) error {
		_, err := tx.ExecContext(ctx, recordSchema, to, verb, by.Actor, by.Address, by.Operation, from, n)
		if err != nil {
			return fmt.Errorf("the migrations were carried out (now %s), but could not be recorded: %w", to, err)
		}
		return nil
	})
}

// onRecord lets f insert into the table of actions with the engine's role, if the table exists.
func onRecord(ctx context.Context, db *sql.DB, f func(*sql.Tx, By) error) error {
	var there bool
	if err := db.QueryRowContext(ctx, recorded).Scan(&there); err != nil || !there {
		return err
	}
	by, _ := ctx.Value(byKey{}).(By)
	if by.Actor == "" {
		by.Actor = SystemMigrate
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, actAsEngine, EngineRole); err != nil {
		return err
	}
	if err := f(tx, by); err != nil {
		return err
	}
	return tx.Commit()
}

// absent reports whether a statement failed because its table, or the table's schema,
// does not exist.
func absent(err error) bool {
	var e *pq.Error
	return errors.As(err, &e) && (e.Code == "42P01" || e.Code == "3F000")
}

// Status lists every migration known to this binary or to the database.
func Status(ctx context.Context, db Reader) ([]Applied, error) {
	known, err := source.FindMigrations()
	if err != nil {
		return nil, err
	}
	at := map[string]time.Time{}
	rows, err := db.QueryContext(ctx, `SELECT id, applied_at FROM skald.schema_migrations`)
	switch {
	case absent(err): // nothing was ever applied
	case err != nil:
		return nil, err
	default:
		defer rows.Close()
		for rows.Next() {
			var id string
			var t time.Time
			if err := rows.Scan(&id, &t); err != nil {
				return nil, err
			}
			at[id] = t.UTC()
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	var out []Applied
	for _, m := range known {
		out = append(out, Applied{ID: m.Id, At: at[m.Id]})
		delete(at, m.Id)
	}
	for _, id := range slices.Sorted(maps.Keys(at)) {
		out = append(out, Applied{ID: id + " (unknown to this binary)", At: at[id], Unknown: true})
	}
	return out, nil
}

// Newer returns an error if a migration in a Status is not one of this binary's.
func Newer(status []Applied) error {
	for _, m := range status {
		if m.Unknown {
			return fmt.Errorf("the database has migration %s of a newer release of Skald", m.ID)
		}
	}
	return nil
}
