package postgres

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/page"
)

// Tables of what operations on many things are for have a column txid: the transaction that
// stored the row (by its default; not that of later changes). NULL is of before the column.

// WasThere is the condition that a row of a table with that alias was there when a snapshot,
// a placeholder, was taken: its transaction was visible. Numbers that no transaction has had
// yet come with a dump of another cluster.
func WasThere(alias, snapshot string) string {
	return "(" + alias + ".txid IS NULL OR pg_visible_in_snapshot(" + alias + ".txid, " + snapshot + "::pg_snapshot)" +
		" OR " + alias + ".txid >= pg_snapshot_xmax(pg_current_snapshot()))"
}

// Look runs a query that counts, and tells when it did and what was visible to it. It is
// one statement: what it counts, and what it says was visible, is the same.
func Look(
	ctx context.Context, tx *sqlx.Tx, count string, args ...any,
) (at time.Time, visible page.Snapshot, n int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT clock_timestamp(), pg_current_snapshot()::text, (`+count+`)`, args...).
		Scan(&at, &visible, &n)
	return at.UTC(), visible, n, err
}
