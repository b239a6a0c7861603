package participant

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// nameOf is the id of the row for the key of a deferred call. It cannot collide with the id of a
// step, which contains a slash or is a bare digest.
func nameOf(key string) string { return "later:" + digest([]byte(key)) }

func (q *sqlStore) name(ctx context.Context, tx *sql.Tx, key, id string, now time.Time) error {
	if _, err := tx.ExecContext(ctx, q.statements.name, nameOf(key), id, now.Unix()); err != nil {
		return fmt.Errorf("the answer cannot be stored: %w", err)
	}
	return nil
}

func (q *sqlStore) named(ctx context.Context, tx *sql.Tx, key string) (id string, err error) {
	if tx == nil {
		return state(ctx, q.db, q.statements.look, nameOf(key))
	}
	return state(ctx, tx, q.find, nameOf(key))
}

func (q *sqlStore) look(ctx context.Context, id string) (*step, error) {
	state, err := state(ctx, q.db, q.statements.look, id)
	if err != nil {
		return nil, err
	}
	return decode(state)
}

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// state reads the state of a row.
func state(ctx context.Context, from querier, query, id string) (state string, err error) {
	if err := from.QueryRowContext(ctx, query, id).Scan(&state); errors.Is(err, sql.ErrNoRows) {
		return "", ErrNotPending
	} else if err != nil {
		return "", fmt.Errorf("participant: %w", err)
	}
	return state, nil
}

func (q *sqlStore) join(
	ctx context.Context, tx *sql.Tx, id string, now time.Time, f func(*step) error,
) error {
	if tx == nil {
		return errors.New("participant: the answer is stored in your transaction, so there must be one")
	}
	state, err := q.lock(ctx, tx, id, now)
	if err != nil {
		return fmt.Errorf("participant: the step cannot be locked: %w", err)
	}
	s, err := decode(state)
	if err != nil {
		return err
	}
	if err := f(s); err != nil {
		return err
	}
	after, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, q.save, string(after), id); err != nil {
		return fmt.Errorf("participant: the answer cannot be stored: %w", err)
	}
	return nil
}
