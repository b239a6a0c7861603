package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// inWrite runs f in a transaction of the writers' connections.
func (db *DB) inWrite(ctx context.Context, f func(*sqlx.Tx) error) error {
	return inTx(ctx, db.write, f)
}

// inRead runs f in a transaction on the engine's readers' connections, which see
// every tenant.
func (db *DB) inRead(ctx context.Context, f func(*sqlx.Tx) error) error {
	return inTx(ctx, db.read, f)
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
	return tx.Commit()
}

// retryCollision runs a transaction once more when it collided with another one, which
// means that nothing of it was written.
func retryCollision[R any](do func() (R, error)) (R, error) {
	r, err := do()
	if err != nil && collided(err) {
		return do()
	}
	return r, err
}

// queryIn runs a fixed statement in a transaction of the writers' connections,
// prepared once per connection.
func (db *DB) queryIn(ctx context.Context, tx *sqlx.Tx, query string, args ...any) (*sql.Rows, error) {
	stmt, err := db.preparedIn(ctx, tx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// execIn is queryIn for what answers nothing.
func (db *DB) execIn(ctx context.Context, tx *sqlx.Tx, query string, args ...any) error {
	stmt, err := db.preparedIn(ctx, tx, query)
	if err != nil {
		return err
	}
	_, err = stmt.ExecContext(ctx, args...)
	return err
}

// asking is how a query is asked: in a transaction, or by itself.
type asking func(ctx context.Context, query string, args ...any) (*sql.Rows, error)

// askingIn asks in a transaction of the writers'.
func (db *DB) askingIn(tx *sqlx.Tx) asking {
	return func(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
		return db.queryIn(ctx, tx, query, args...)
	}
}
