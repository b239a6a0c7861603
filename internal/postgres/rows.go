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

// Scanner is a row, or rows that are positioned at one.
type Scanner interface{ Scan(dest ...any) error }

// EachRow calls f for every row and closes rows.
func EachRow(rows *sql.Rows, f func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// ChangedOne reports whether a statement changed the single row that it targets. doing names the
// operation in errors.
func ChangedOne(res sql.Result, doing string, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("%s: %w", doing, err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// UTC converts times to UTC in place, so that equal times compare equal: the driver returns them in
// the session's time zone.
func UTC(times ...*time.Time) {
	for _, t := range times {
		if t != nil {
			*t = t.UTC()
		}
	}
}

// Canonical returns jsonb text in the form that it had before it was stored; nil stays nil.
func Canonical(b []byte) (json.RawMessage, error) {
	if b == nil {
		return nil, nil
	}
	out, err := strictjson.Canonical(make([]byte, 0, len(b)), b, strictjson.Stored)
	if err != nil {
		return nil, fmt.Errorf("stored JSON: %w", err)
	}
	return out, nil
}

// Queryer is either a transaction or a pool.
type Queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// ExecByTenant runs a statement that changes rows and returns tenants and counts, and
// returns the counts by tenant.
func (db *DB) ExecByTenant(ctx context.Context, statement string, args ...any) (map[uuid.UUID]int64, error) {
	rows, err := db.Read.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return ScanCounts(rows)
}

// ScanCounts reads rows that consist of a tenant and a count.
func ScanCounts(rows *sql.Rows) (map[uuid.UUID]int64, error) {
	found := map[uuid.UUID]int64{}
	err := EachRow(rows, func() error {
		var tenant uuid.UUID
		var n int64
		err := rows.Scan(&tenant, &n)
		found[tenant] += n
		return err
	})
	if err != nil {
		return nil, err // the durability of the changes is unknown
	}
	return found, nil
}
