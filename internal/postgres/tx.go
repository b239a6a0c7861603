package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/idempotency/claims"
)

// InWrite runs f in a transaction on the writers' connections.
func (db *DB) InWrite(ctx context.Context, f func(*sqlx.Tx) error) error {
	return inTx(ctx, db.Write, f)
}

// InRead runs f in a transaction on the engine's readers' connections, which see
// every tenant.
func (db *DB) InRead(ctx context.Context, f func(*sqlx.Tx) error) error {
	return inTx(ctx, db.Read, f)
}

func inTx(ctx context.Context, pool *sqlx.DB, f func(*sqlx.Tx) error) error {
	tx, err := pool.BeginTxx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if err := f(tx); err != nil {
		return err
	}
	return commit(ctx, tx)
}

// RetryCollision runs a transaction a second time if it Collided with another one and therefore
// wrote nothing.
func RetryCollision[R any](do func() (R, error)) (R, error) {
	r, err := do()
	if err != nil && Collided(err) {
		return do()
	}
	return r, err
}

// QueryIn runs a fixed statement, prepared once per connection, in a transaction on the writers'
// connections.
func (db *DB) QueryIn(ctx context.Context, tx *sqlx.Tx, query string, args ...any) (*sql.Rows, error) {
	stmt, err := db.PreparedIn(ctx, tx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// ExecIn is QueryIn for a statement that returns no rows.
func (db *DB) ExecIn(ctx context.Context, tx *sqlx.Tx, query string, args ...any) error {
	stmt, err := db.PreparedIn(ctx, tx, query)
	if err != nil {
		return err
	}
	_, err = stmt.ExecContext(ctx, args...)
	return err
}

// WriteEach runs one fixed statement that writes, and calls row for each row. The statement runs on
// its own or, if its request has an Idempotency-Key, in a transaction with the key.
func (db *DB) WriteEach(ctx context.Context, query string, row func(*sql.Rows) error, args ...any) error {
	each := func(run QueryFunc) error {
		rows, err := run(ctx, query, args...)
		if err != nil {
			return err
		}
		return EachRow(rows, func() error { return row(rows) })
	}
	if claims.Of(ctx) == nil {
		return each(db.QueryWrite)
	}
	return db.InWrite(ctx, func(tx *sqlx.Tx) error { return each(db.QueryFuncIn(tx)) })
}

// QueryFunc runs a query, either in a transaction or on its own.
type QueryFunc func(ctx context.Context, query string, args ...any) (*sql.Rows, error)

// QueryFuncIn returns a QueryFunc that runs in a transaction on the writers' connections.
func (db *DB) QueryFuncIn(tx *sqlx.Tx) QueryFunc {
	return func(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
		return db.QueryIn(ctx, tx, query, args...)
	}
}

// ExecAll repeats a statement that changes a batch of rows until it changes none. It returns how
// many rows were changed in total, even if it also returns an error. doing names the operation in
// errors.
func (db *DB) ExecAll(ctx context.Context, doing, statement string, args ...any) (int64, error) {
	var total int64
	for {
		res, err := db.Read.ExecContext(ctx, statement, args...)
		if err != nil {
			return total, fmt.Errorf("%s: %w", doing, err)
		}
		n, err := res.RowsAffected()
		if total += n; err != nil || n == 0 {
			return total, err
		}
	}
}
