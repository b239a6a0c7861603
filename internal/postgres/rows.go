package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/skald-saga/skald/internal/strictjson"
)

type scanner interface{ Scan(dest ...any) error }

// eachRow calls f for every row and closes rows.
func eachRow(rows *sql.Rows, f func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one tells whether a statement found its row.
func one(res sql.Result, doing string, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("%s: %w", doing, err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// utc makes times comparable: the driver returns them in the session's zone.
func utc(times ...*time.Time) {
	for _, t := range times {
		if t != nil {
			*t = t.UTC()
		}
	}
}

// canonical turns jsonb text into the form it had before it was stored; nil stays nil.
func canonical(b []byte) (json.RawMessage, error) {
	if b == nil {
		return nil, nil
	}
	out, err := strictjson.Canonical(make([]byte, 0, len(b)), b, strictjson.Stored)
	if err != nil {
		return nil, fmt.Errorf("stored JSON: %w", err)
	}
	return out, nil
}

// queryer is a transaction or a pool.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// byTenant runs a statement that changes something and answers with tenants and how
// many of each.
func (db *DB) byTenant(ctx context.Context, statement string, args ...any) (map[uuid.UUID]int64, error) {
	rows, err := db.read.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return counts(rows)
}

// counts reads rows of a tenant and a number.
func counts(rows *sql.Rows) (map[uuid.UUID]int64, error) {
	found := map[uuid.UUID]int64{}
	err := eachRow(rows, func() error {
		var tenant uuid.UUID
		var n int64
		err := rows.Scan(&tenant, &n)
		found[tenant] += n
		return err
	})
	if err != nil {
		return nil, err // it is not known to be durable
	}
	return found, nil
}
