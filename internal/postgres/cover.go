package postgres

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/page"
)

// Tables whose rows bulk operations select have a column txid. It contains the ID of the
// transaction that inserted the row, is set by the column's default and is not changed by updates.
// It is NULL in rows older than the column.

// WasThere returns the condition that a row of the table with this alias existed when a snapshot
// (given by a placeholder) was taken: its transaction was visible. Transaction IDs that have not
// been assigned yet come from a dump of another cluster.
func WasThere(alias, snapshot string) string {
	return "(" + alias + ".txid IS NULL OR pg_visible_in_snapshot(" + alias + ".txid, " + snapshot + "::pg_snapshot)" +
		" OR " + alias + ".txid >= pg_snapshot_xmax(pg_current_snapshot()))"
}

// Look runs a counting query, and also returns when it ran and its snapshot. It uses a single
// statement, so the count and the snapshot agree.
func Look(
	ctx context.Context, tx *sqlx.Tx, count string, args ...any,
) (at time.Time, visible page.Snapshot, n int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT clock_timestamp(), pg_current_snapshot()::text, (`+count+`)`, args...).
		Scan(&at, &visible, &n)
	return at.UTC(), visible, n, err
}
