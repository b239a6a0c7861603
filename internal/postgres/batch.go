package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// queryWrite runs a statement on the writers' connections, prepared once per
// connection: parsing and planning the large statements costs more than
// running them. database/sql keeps the prepared statement per pool and
// prepares it again on a new connection.
func (db *DB) queryWrite(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := db.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

func (db *DB) prepared(ctx context.Context, query string) (*sqlx.Stmt, error) {
	if s, ok := db.statements.Load(query); ok {
		return s.(*sqlx.Stmt), nil
	}
	s, err := db.write.PreparexContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	if kept, raced := db.statements.LoadOrStore(query, s); raced {
		s.Close()
		return kept.(*sqlx.Stmt), nil
	}
	return s, nil
}

// again runs a transaction once more when it collided with another one, which
// means that nothing of it was written.
func again[R any](do func() (R, error)) (R, error) {
	r, err := do()
	if err != nil && collided(err) {
		return do()
	}
	return r, err
}

// oneByOne repeats a refused batch item by item, so that a bad item cannot
// stop the others. An outage ends it.
func oneByOne[T, R any](batch []T, do func([]T) ([]R, error)) ([]R, error) {
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
