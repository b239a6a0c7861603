package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// Every statement for one tenant goes through this file. It runs with a database role for which
// row-level security shows only the rows of the tenant in skald.tenant_id. This is in addition to
// the statement's own WHERE tenant_id. The setting lasts for one transaction, so it cannot leak to
// the next user of the connection, and without it no rows are visible (decision 0022).

// OfTenant returns the statement of a prepared read, for ReadTenant. $1 is the tenant, and query
// refers to it as tenant.id. order, if not empty, is an ORDER BY clause on the columns of query.
//
// The statement sets its own tenant. This saves the round trips of a surrounding transaction, which
// cost three times as much as the read. LATERAL and OFFSET 0 force the planner to set the tenant
// before query begins; otherwise query would find nothing.
func OfTenant(query, order string) string {
	return `SELECT s.* FROM (SELECT set_config('skald.tenant_id', $1::text, true)::uuid AS id OFFSET 0) AS tenant
 CROSS JOIN LATERAL (` + query + ` OFFSET 0) AS s ` + order
}

// ReadTenant runs a query of OfTenant and calls row for each row it finds.
func (db *DB) ReadTenant(ctx context.Context, tenant uuid.UUID, query string, row func(*sql.Rows) error,
	args ...any) error {
	args = append([]any{tenant.String()}, args...)
	if db.pooled {
		return db.ListTenant(ctx, tenant, query, row, args...)
	}
	rows, err := db.Query(ctx, db.point, query, args)
	if err != nil {
		return err
	}
	return EachRow(rows, func() error { return row(rows) })
}

// ReadOne is like ReadTenant, but reads only the first row. It returns missing if there is none.
func (db *DB) ReadOne(
	ctx context.Context, tenant uuid.UUID, query string, missing error, row func(*sql.Rows) error, args ...any,
) error {
	found := false
	err := db.ReadTenant(ctx, tenant, query, func(rows *sql.Rows) error {
		if found {
			return nil
		}
		found = true
		return row(rows)
	}, args...)
	if err == nil && !found {
		return missing
	}
	return err
}

// ListTenant runs any query on behalf of tenant and calls row for each row it finds.
func (db *DB) ListTenant(ctx context.Context, tenant uuid.UUID, query string, row func(*sql.Rows) error,
	args ...any) error {
	return db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		return EachRow(rows, func() error { return row(rows) })
	})
}

// InTenant calls f with a transaction on behalf of tenant, and commits the transaction unless f
// fails. f can read and write only the tenant's rows.
func (db *DB) InTenant(ctx context.Context, tenant uuid.UUID, f func(*sqlx.Tx) error) error {
	return db.transact(ctx, tenant, nil, f)
}

// InSnapshot is InTenant for queries that must all see the same snapshot.
func (db *DB) InSnapshot(ctx context.Context, tenant uuid.UUID, f func(*sqlx.Tx) error) error {
	return db.transact(ctx, tenant, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}, f)
}

func (db *DB) transact(ctx context.Context, tenant uuid.UUID, opts *sql.TxOptions, f func(*sqlx.Tx) error) error {
	tx, err := db.list.BeginTxx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	// A statement without parameters takes one round trip; a UUID needs no quoting.
	set := `SELECT set_config('skald.tenant_id', '` + tenant.String() + `', true)`
	if db.pooled {
		set += `, set_config('role', '` + appRole + `', true)`
	}
	if _, err := tx.ExecContext(ctx, set); err != nil {
		return fmt.Errorf("set the tenant: %w", err)
	}
	if err := f(tx); err != nil {
		return err
	}
	return commit(ctx, tx)
}

// Within is like InTenant, but with a time limit for each statement: the server cancels a statement
// that takes longer (TimedOut).
func (db *DB) Within(ctx context.Context, tenant uuid.UUID, each time.Duration, f func(*sqlx.Tx) error) error {
	return db.InTenant(ctx, tenant, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx,
			`SELECT set_config('statement_timeout', $1, true)`,
			strconv.FormatInt(max(1, each.Milliseconds()), 10)); err != nil {
			return err
		}
		return f(tx)
	})
}
