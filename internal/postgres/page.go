package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/page"
)

// CountPage sets the total for a page that has been read: from the page itself if possible,
// otherwise with the query that count returns. A bounded count takes at most CountFor: if matching
// rows are far apart, finding even ten thousand takes too long for a number that people rarely look
// at.
func CountPage[T, C any](ctx context.Context, db *DB, tenant uuid.UUID, r page.Request[C], found *page.Of[T],
	count func() (query string, args []any)) error {
	read := int64(len(found.Items))
	seen := int64(r.Offset) + read
	if r.After == nil && !found.More && (read > 0 || r.Offset == 0) {
		found.Total = seen // the page is the last one
		return nil
	}
	query, args := count()
	if r.TotalCap == 0 {
		return db.ListTenant(ctx, tenant, query, func(rows *sql.Rows) error { return rows.Scan(&found.Total) }, args...)
	}
	err := db.Within(ctx, tenant, db.CountFor,
		func(tx *sqlx.Tx) error { return tx.GetContext(ctx, &found.Total, query, args...) })
	switch {
	case TimedOut(err) && ctx.Err() == nil:
		if found.Total, found.TotalCapped = seen, true; r.After != nil || read == 0 {
			found.Total = read // the number of preceding rows is unknown
		}
		if found.More {
			found.Total++
		}
	case err != nil:
		return err
	default:
		found.CapTotal(r.TotalCap)
	}
	return nil
}

// NewestFirst describes a list that is sorted by a time and the ID, newest first by default.
type NewestFirst struct {
	Columns string
	From    string // table and alias
	At, ID  string // the columns of the time and the ID, with the alias
	// Key is a text column that precedes the time in the sort order; "" means none. A page begins
	// after AfterKey.
	Key, AfterKey string
	Ascending     bool
}

// Direction returns the suffix for the columns of ORDER BY, and the operator with which items after
// a position compare with the position.
func Direction(ascending bool) (order, than string) {
	if ascending {
		return "", ">"
	}
	return " DESC", "<"
}

// ReadFew is ReadPage for lists that are short enough to be counted completely.
func ReadFew[T any](ctx context.Context, tx *sqlx.Tx, l NewestFirst, w *Where, r page.ByTime,
	scan func(row Scanner, more ...any) (T, error)) (found page.Of[T], err error) {
	var total int64
	if r.Total {
		if err := tx.GetContext(ctx, &total, `SELECT count(*) FROM `+l.From+` WHERE `+w.Text(), w.Args...); err != nil {
			return found, err
		}
	}
	found, err = ReadPage(ctx, tx, l, w, r, scan)
	found.Total = total
	return found, err
}

// ReadPage reads the page that r requests from the rows that w selects.
func ReadPage[T any](ctx context.Context, tx *sqlx.Tx, l NewestFirst, w *Where, r page.ByTime,
	scan func(row Scanner, more ...any) (T, error)) (page.Of[T], error) {
	columns, after := []string{l.At, l.ID}, []any(nil)
	direction, than := Direction(l.Ascending)
	if l.Key != "" {
		columns, after = append([]string{l.Key}, columns...), []any{l.AfterKey}
	}
	if r.After != nil {
		after = append(after, r.After.At, r.After.ID)
		w.Add("("+strings.Join(columns, ", ")+") "+than+" ("+strings.Repeat("?, ", len(columns)-1)+"?)", after...)
	}
	rows, err := tx.QueryContext(ctx, fmt.Sprintf(`SELECT %s
	  FROM %s
	 WHERE %s
	 ORDER BY %s
	 LIMIT $%d
	 OFFSET $%d`,
		l.Columns, l.From, w.Text(), strings.Join(columns, direction+", ")+direction, len(w.Args)+1, len(w.Args)+2),
		append(w.Args, r.Limit+1, r.Offset)...)
	if err != nil {
		return page.Of[T]{}, err
	}
	var read []T
	err = EachRow(rows, func() error {
		v, err := scan(rows)
		read = append(read, v)
		return err
	})
	return page.Cut(r, read), err
}
