package postgres

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/page"
)

// Tables whose rows bulk operations select have a column txid: the transaction that inserted
// the row, set by the column's default and not changed by updates. It is NULL in rows older
// than the column.

// WasThere returns the condition that a row of the table with this alias existed when a
// snapshot, given by a placeholder, was taken: its transaction was visible. Transaction ids
// that are still to be assigned come from a dump of another cluster.
func WasThere(alias, snapshot string) string {
	return "(" + alias + ".txid IS NULL OR pg_visible_in_snapshot(" + alias + ".txid, " + snapshot + "::pg_snapshot)" +
		" OR " + alias + ".txid >= pg_snapshot_xmax(pg_current_snapshot()))"
}

// Look runs a counting query and returns when it ran and its snapshot. It is one statement, so
// the count and the snapshot agree.
func Look(
	ctx context.Context, tx *sqlx.Tx, count string, args ...any,
) (at time.Time, visible page.Snapshot, n int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT clock_timestamp(), pg_current_snapshot()::text, (`+count+`)`, args...).
		Scan(&at, &visible, &n)
	return at.UTC(), visible, n, err
}
