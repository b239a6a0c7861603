package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
)

// QueryWrite runs a fixed statement on the writers' connections. It is prepared once per
// connection, because parsing and planning the large statements costs more than running them;
// database/sql prepares it again on each new connection of its pool. Like QueryRead, it sees the
// rows of all tenants; statements for one tenant go through tenant.go.
func (db *DB) QueryWrite(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return db.Query(ctx, db.Write, query, args)
}

// QueryRead runs a prepared query on the engine's readers' connections.
func (db *DB) QueryRead(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return db.Query(ctx, db.Read, query, args)
}

// Query runs a prepared query on the connections of a pool.
func (db *DB) Query(ctx context.Context, pool *sqlx.DB, query string, args []any) (*sql.Rows, error) {
	stmt, err := db.Prepared(ctx, pool, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// statement names a prepared statement: its pool and its text.
type statement struct {
	pool  *sqlx.DB
	query string
}

// Prepared returns a statement that is prepared on the connections of a pool.
func (db *DB) Prepared(ctx context.Context, pool *sqlx.DB, query string) (*sqlx.Stmt, error) {
	id := statement{pool, query}
	if s, ok := db.statements.Load(id); ok {
		return s.(*sqlx.Stmt), nil
	}
	s, err := pool.PreparexContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	if kept, raced := db.statements.LoadOrStore(id, s); raced {
		_ = s.Close()
		return kept.(*sqlx.Stmt), nil
	}
	return s, nil
}

// PreparedIn returns a statement that is prepared for a transaction on the writers' connections. It
// never takes a second connection from that pool, because transactions that all wait for a second
// connection would deadlock. A statement that is not prepared yet is prepared for this transaction
// alone, and in the background for later ones.
func (db *DB) PreparedIn(ctx context.Context, tx *sqlx.Tx, query string) (*sqlx.Stmt, error) {
	if s, ok := db.statements.Load(statement{db.Write, query}); ok {
		return tx.StmtxContext(ctx, s.(*sqlx.Stmt)), nil
	}
	if _, begun := db.preparing.LoadOrStore(query, true); !begun {
		go func() {
			defer db.preparing.Delete(query)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), prepareWithin)
			defer cancel()
			_, _ = db.Prepared(ctx, db.Write, query) // if this fails, the next transaction tries
		}()
	}
	s, err := tx.PreparexContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	return s, nil
}

const prepareWithin = 10 * time.Second

// OneByOne repeats a rejected batch item by item, so that one bad item does not block the others.
// It stops at an outage.
func OneByOne[T, R any](batch []T, do func([]T) ([]R, error)) ([]R, error) {
	out := make([]R, 0, len(batch))
	for i := range batch {
		r, err := do(batch[i : i+1])
		if err != nil {
			return nil, err
		}
		out = append(out, r[0])
	}
	return out, nil
}
